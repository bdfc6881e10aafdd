"""Instances in memory: load them, run a turn, commit it, hear the answer. Knows core and store."""
