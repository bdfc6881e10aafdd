"""Transactions of users in the store's PostgreSQL.

borrowed      our statements on a connection of the user's; borrowed_store  the store there
arrivals      messages that were sent there, on their way to the inboxes
transactions  functions of the user's on connections of ours: async_, threaded_
"""
