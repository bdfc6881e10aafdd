"""Orchestrations: a coroutine run against its history, and on from there."""
