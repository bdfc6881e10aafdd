"""The handlers of the API: each asks the client and returns what it says."""
