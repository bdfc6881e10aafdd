"""Batches of commits: load rows, decide in memory, write what was accepted."""
