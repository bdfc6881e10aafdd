"""Read models and subscriptions, fed with the events of deciders in the order of their commits.

What is listed here is public: what users write, and what they are given. The rest runs them.
"""

from perdure.authoring.deciders.feed import EventMeta, RecordedJson
from perdure.authoring.deciders.projection import Projection, SqlProjection
from perdure.authoring.deciders.subscription import Subscription
from perdure.model.tables import Tables

__all__ = [
    "EventMeta",
    "Projection",
    "RecordedJson",
    "SqlProjection",
    "Subscription",
    "Tables",
]
