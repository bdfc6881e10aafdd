"""Points of a history that an instance goes back to: `handle.reset(before(charge))`."""

from perdure.client.histories.points import After, Point, after, at_event, before
from perdure.client.histories.resetting import ResetPlan

__all__ = ["After", "Point", "ResetPlan", "after", "at_event", "before"]
