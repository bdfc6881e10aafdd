"""Transactions of users: a connection of the user's that we write through, and a function of the
user's that writes through ours. What the databases share; each has a `within` of its own.

transactions  what a worker hands to a store
own_work      ending a function's job with it
borrowing     what a client hands to a store
borrowed      the store on a connection of the user's
errands       on which thread our code runs
unwrapping    from SQLAlchemy's to the driver's
"""
