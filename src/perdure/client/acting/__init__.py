"""What clients do to instances: start, signal, ask, stop, remove, one or many."""
