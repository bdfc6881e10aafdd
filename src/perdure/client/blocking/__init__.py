"""The client and the handle for callers that wait. Made by a tool, but for the thread."""
