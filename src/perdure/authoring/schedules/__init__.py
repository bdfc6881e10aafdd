"""Schedules: what is started when, and the built-in decider that does it."""
