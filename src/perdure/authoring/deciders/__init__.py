"""What users write of deciders: classes, decisions, and readers of their events."""
