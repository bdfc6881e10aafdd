"""Commands that stay: workers, fleets of them, `dev` and the pages."""
