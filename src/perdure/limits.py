"""Every limit that a user can meet, with its name and its value.

A call that goes over one gets an error that names the limit and the value, at the line that does
it. What is only cut short or only warned about says so. Limits of a single mechanism, such as the
size of a batch, are kept beside that mechanism.

There is no limit on how many messages are carried over by continue-as-new, on how many kept signals
one turn takes, and on the length of a history.
"""

from __future__ import annotations

# --------------------------------------------------------------- values and names

MAX_ID_BYTES = 200
"""Longest id, name, key or tag, in UTF-8."""

MAX_TEXT_BYTES = 64 * 1024
"""Longest text that is only for people: a reason, or what an input belongs to; in UTF-8."""

MAX_VERSION_CHARS = 100
"""The longest text that is taken for a version."""

MAX_PAYLOAD_BYTES = 2 * 1024 * 1024
"""Largest value, as JSON. Larger ones belong into a file or a bucket, with their place passed."""

MAX_DEPTH = 200
"""Deepest nesting of arrays and objects."""

MAX_INT_DIGITS = 400
"""Longest whole number; Python's own limit differs from process to process."""

# ---------------------------------------------------------------- one instance

MAX_OPEN_CALLS = 100_000
"""How many calls, timers and waits one execution may have open."""

MAX_CHILD_DEPTH = 100
"""How many instances may be above a child. Code that calls itself without end stops there."""

MAX_SCHEDULE_RUNS = 1_000
"""How many instances of one schedule may run at the same time."""

MAX_BACKFILLS = 10
"""How many backfills of one schedule may be under way."""

MAX_BACKFILL_SLOTS = 10_000
"""How many slots one backfill may have."""

SLOTS_PER_TURN = 100
"""How many slots a schedule decides in one turn; the rest in the next ones."""

MAX_KV_KEYS = 150
"""How many keys one instance may have, counted over all it has and not over one turn."""

MAX_KV_VALUE_BYTES = 64 * 1024
"""Largest value under a key, as JSON."""

MAX_REPORT_BYTES = 256 * 1024
"""Largest report of an instance, as JSON."""

MAX_ITEM_BYTES = 64 * 1024
"""Largest item of a stream, as JSON."""

MAX_UNFLUSHED_BYTES = 16 * 1024 * 1024
"""How many bytes one activity, or one turn of an orchestration, may have sent to streams and not
stored yet."""

STREAM_WARNING_ITEMS = 1_000_000
"""An activity that sends so many items is warned about, and again whenever they have doubled."""

HISTORY_WARNING_EVENTS = 10_000
"""A history of so many events is warned about, and again whenever it has doubled."""

HISTORY_WARNING_BYTES = 10 * 1000 * 1000
"""A history of so many bytes is warned about, and again whenever it has doubled."""

MAX_DETAILS_BYTES = 256 * 1024
"""Largest details of a heartbeat, and largest progress of an activity, as JSON."""

# ---------------------------------------------------------------------- failures

MAX_FAILURES_KEPT = 20
"""How many failures of a job are kept: the first and the newest. The others are only counted."""

MAX_MESSAGE_CHARS = 10_000
"""How much of an exception's text is kept; the rest is cut off."""

MAX_TRACEBACK_CHARS = 20_000
"""How much of a traceback is kept, its end; the rest is cut off."""

MAX_CAUSES_KEPT = 20
"""How many other exceptions are kept with one: its causes, what was being handled, and the members
of groups, at any depth. The others are left out."""

MAX_CAUSE_CHARS = 1_000
"""How much of the text of each of them is kept; the rest is cut off."""

# ----------------------------------------------------------------------- workers

MAX_TAGS = 5
"""How many tags a worker may name."""

MAX_TAG_BYTES = MAX_ID_BYTES
"""The longest tag."""

# ------------------------------------------------------------------ administration

PAGE_MAX = 500
"""The largest page of a list, and how many ids one question may name."""

MAX_TREE_SHOWN = 10_000
"""The largest tree of instances that is shown as a whole."""

MAX_EXECUTIONS_SEARCHED = 100
"""How many executions of an instance, the newest, a tree searches for calls; those that were called
by earlier ones alone are left out."""

BULK_MAX = 1_000
"""How many instances one bulk operation removes at most, unless told otherwise."""

# ----------------------------------------------------------------------- metrics

MAX_LABEL_SETS = 1_000
"""How many combinations of labels one metric has; what comes after counts under `other`."""

# ------------------------------------------------------------------------ for_each

MAX_PAGES_AT_ONCE = 300
"""Into how many pages the items of a sequence, or one page of a source, may be cut."""

MAX_PAGE_SIZE = 5_000
"""How many items one page of `for_each` may have: its history has two events for each."""

MAX_PAGES_UNDER_WAY = 1_000
"""How many pages of one `for_each` may be under way."""
