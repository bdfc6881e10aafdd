"""Plain data that the rooms exchange: events, messages, turns, jobs, instances, options.

Values here are immutable msgspec structs or frozen dataclasses. They know nothing of asyncio, of a
database or of user code. What a turn makes many of is not tracked by the garbage collector
(`gc=False`): nothing in it can be part of a circle.
"""
