"""From stored rows to instances in memory, and the same again beside it."""
