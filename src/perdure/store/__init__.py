"""Where everything lasting lives: one contract, one package per database.

The store keeps rows and leases. It never looks inside a body, never runs user code, and knows
nothing of asyncio loops but the one that awaits it.
"""
