"""What clients are told: instances, lists, trees, values, streams, ends, and why nothing moves."""
