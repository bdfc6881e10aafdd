"""The only room that knows core and store: claims, turns, jobs, leases."""
