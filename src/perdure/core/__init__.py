"""The pure part: takes history and messages, gives what follows. No I/O, no clock, no store."""
