"""`perdure demo`: an order that survives a kill, on a terminal or a page."""
