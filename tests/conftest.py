"""For all tests. What they share is imported as `tests.…`: see `pythonpath` in pyproject.toml."""

import pytest

# Before anything imports it: its assertions are those of the contract suite.
pytest.register_assert_rewrite("perdure.testing")
