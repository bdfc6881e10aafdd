"""What is recorded of an instance: read, shown, replayed, and gone back in."""
