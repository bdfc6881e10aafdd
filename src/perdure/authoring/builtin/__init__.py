"""Orchestrations of perdure's own, and the calls that start them."""
