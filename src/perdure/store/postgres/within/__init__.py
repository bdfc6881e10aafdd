"""Transactions of users in the store's PostgreSQL.

borrowed               our statements on a connection of the user's
borrowed_store         the store there
arrivals               messages that were sent there, on their way to the inboxes
transactions           functions of the user's, each on a connection of ours
async_transactions     those that are async, on the worker's loop
threaded_transactions  the others, on threads
"""
