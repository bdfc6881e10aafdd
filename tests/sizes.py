"""How much the tests try: what there is time for, or with PERDURE_CHAOS_FULL=1 all of it."""

from __future__ import annotations

import os

IS_FULL = bool(os.environ.get("PERDURE_CHAOS_FULL"))
"""Whether everything is tried, which takes minutes more."""
