"""Transactions of users in the store's file.

borrowed         the store on a connection of the user's
transactions     functions of the user's, each on a connection of ours
lent_connection  what such a function may do with it
"""
