"""Deciders: a state folded from events, and decisions on inputs."""
