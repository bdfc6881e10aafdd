"""What users write: activities, orchestrations, signals. Describes, never runs."""
