"""Inputs and updates that callers of this process wait for, decided without the inbox."""
