"""Tools for testing: deciders by given, when, then; the store contract; the invariant checker.

What is listed here is for users; the rest is for whoever writes a store.
"""

from perdure.testing.given import Given, check_invariants, given, observed_transitions

__all__ = ["Given", "check_invariants", "given", "observed_transitions"]
