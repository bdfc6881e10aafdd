"""Serving: claims, leases, housekeeping. Joins turns and jobs."""
