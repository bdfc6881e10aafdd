"""Events, and what lies in them. Recorded for ever: a new field has a default."""
