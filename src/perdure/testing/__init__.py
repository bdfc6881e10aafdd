"""For tests of what users write: deciders by given, when, then. No store is needed."""

from perdure.testing.given import Given, check_invariants, given, observed_transitions

__all__ = ["Given", "check_invariants", "given", "observed_transitions"]
