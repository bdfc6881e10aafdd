"""Deciders as clients see them: inputs, decisions, readers of events, and schedules."""
