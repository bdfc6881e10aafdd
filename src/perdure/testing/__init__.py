"""Tools for testing: the store contract suite and the invariant checker."""
