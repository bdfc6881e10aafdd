"""How much the tests try, and how long they wait: what there is time for, or with
PERDURE_CHAOS_FULL=1 all of it."""

from __future__ import annotations

import os

IS_FULL = bool(os.environ.get("PERDURE_CHAOS_FULL"))
"""Whether everything is tried, which takes minutes more."""

WITHIN_S = float(os.environ.get("PERDURE_TESTS_WAIT_S", "60"))
"""How long anything may take before a test gives up; nothing waits so long unless it is broken.
Far more than a busy machine needs, and less than the time limit of a test."""
