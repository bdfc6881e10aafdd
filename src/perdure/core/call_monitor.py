"""Notice calls of what cannot be replayed: closely at a price, or cheaply in known code.

*Closely* means that every call is seen, whatever code makes it: with `sys.monitoring` from Python
3.12, with `sys.setprofile` on 3.11. Both slow a turn down to about half its speed.

*Known code* is code of which we know that turns run it: what a definition reaches by name
(`look_at`), what was seen in a turn that was watched closely, and what is called from there. From
Python 3.12 on its calls are seen in every turn. That is cheap, since the events are those of this
code alone, and a call of which nothing new can come is switched off where it stands: of a harmless
function that is named by globals, modules and classes alone (`price(...)`, `json.dumps(...)`), or
of a method of a C type (`words.append(...)`). A call of `callback()` or `self.rng()` stays on, as
another object may bring another function; it costs 0.3 us. So two things are not seen: a function
put in the place of another one in its module or class after it was called, and a clock that an
object has under the name of a method of a C type.

On 3.11 there is no such thing. There `look_at` tells whether a definition names anything forbidden,
and such a definition has to be watched closely in all its turns.

What is seen in neither way: a clock that C code reads by itself (a C extension such as numpy;
`sorted(key=...)`, and on 3.11 also `map(time.time, ...)` and `functools.partial`), and, in known
code, what C code calls and no code names; on 3.12 there also a Python function that is
called with unpacked arguments (`handler(*args)`) and that no code names or closes over.
"""

from __future__ import annotations

import _random
import atexit
import sys
import time
import weakref
from collections.abc import Callable, Container, Iterable
from functools import partial
from threading import get_ident
from types import (
    BuiltinFunctionType,
    CodeType,
    FrameType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any, NamedTuple

from perdure.core.code_reading import LRU_CACHE, Piece, Reading, content_of, reach
from perdure.core.forbidden import FORBIDDEN_NAMES, Rule, is_by_argument, may_call, rule_of
from perdure.errors import UsageError
from perdure.forks import after_fork

MAX_REACHED = 200
"""How many functions are read at once, beginning with a definition or a function that was called.
What lies beyond is known when it is called."""

SET_PROFILE_ATTEMPTS = 1_000

address = object.__hash__
"""Tells objects apart as `id` does, without the audit event that makes that ten times slower."""

Judge = Callable[[Rule, FrameType], None]
"""Refuses a forbidden call, if the frame that makes it is in a turn where that matters."""


if sys.version_info >= (3, 12):
    _CALL = sys.monitoring.events.CALL

    class _Known(NamedTuple):
        """Code whose calls are watched, or a function or class whose code is."""

        thing: weakref.ref[Any]
        callees: dict[int, object]
        """Which calls have one callee always, by offset; the callee by its `_identity`."""
        methods: dict[int, str]
        """Which calls are those of an attribute, by offset; the name, if nothing forbidden has it.
        """

    class CallMonitor:
        """The one of this process. Takes an id of `sys.monitoring` and keeps it.

        Args:
            judge: Is told of forbidden calls.
            turns: The threads that are in a turn.

        Raises:
            UsageError: Other tools hold all ids.
        """

        def __init__(self, judge: Judge, turns: Container[int]) -> None:
            self._judge = judge
            self._turns = turns
            self._stretches: list[None] = []  # One entry per stretch watched closely, anywhere.
            self._known: dict[int, _Known] = {}
            self._tool = _take_tool()
            sys.monitoring.register_callback(self._tool, _CALL, self._on_call)
            after_fork(self._forget_stretches)
            # Known code may run when modules are emptied at the very end, this one among them.
            atexit.register(sys.monitoring.register_callback, self._tool, _CALL, None)

        # Events of all code are switched for the whole process, and per stretch: other threads pay
        # for a callback while a stretch runs and for nothing between. What was switched off in
        # known code stays so.

        def start(self) -> object:
            """Begin to watch this thread closely; return what `stop` wants back."""
            self._stretches.append(None)
            sys.monitoring.set_events(self._tool, _CALL)
            return None

        def stop(self, _: object) -> None:
            """Watch it closely no more."""
            self._stretches.pop()
            if not self._stretches:
                sys.monitoring.set_events(self._tool, 0)
                # Another thread may have begun since we looked. No lock: a fork could leave it
                # held.
                if self._stretches:
                    sys.monitoring.set_events(self._tool, _CALL)

        def _forget_stretches(self) -> None:
            self._stretches.clear()
            sys.monitoring.set_events(self._tool, 0)

        def look_at(self, root: object) -> bool:
            """Look at the code of a definition; return whether to watch all its turns closely."""
            self._know(root)
            return False

        def _know(self, root: object) -> None:
            """Watch a function or class from now on, with what it reaches in code of the user's."""
            home: str | None = None

            def follow(piece: Piece) -> bool:
                nonlocal home
                if may_call(piece.module):
                    return False
                home = home or piece.module
                return piece.module == home or _is_of_user(piece)

            def is_read(code: CodeType) -> bool:
                return address(code) in self._known

            for piece, reading in reach([root], limit=MAX_REACHED, follow=follow, is_read=is_read):
                self._watch(piece, reading)

        def _watch(self, piece: Piece, reading: Reading) -> None:
            callees = {
                offset: _identity(callee)
                for offset, callee in reading.callees.items()
                if not is_by_argument(callee)
            }
            methods = {
                offset: name
                for offset, name in reading.methods.items()
                if name not in FORBIDDEN_NAMES
            }
            self._remember(piece.code, callees, methods)
            sys.monitoring.set_local_events(self._tool, piece.code, _CALL)

        def _remember(
            self, thing: Any, callees: dict[int, object], methods: dict[int, str]
        ) -> None:
            known, key = self._known, address(thing)
            ref = weakref.ref(thing, lambda _: known.pop(key, None))
            known[key] = _Known(ref, callees, methods)

        def _on_call(self, code: CodeType, offset: int, function: Any, first: object) -> object:
            known = self._known.get(address(code))
            if type(function) is FunctionType and known is not None:
                # Most calls that stay on end here; nothing that is forbidden is a Python function.
                if address(function) in self._known and offset not in known.callees:
                    return None
            else:
                rule = rule_of(function, first)
                if rule is not None:
                    return self._judge(rule, sys._getframe(1))
            if known is None:
                self._meet_caller(sys._getframe(1))
                return None
            if not self._knows(function):
                # Outside turns nothing is learned, and so nothing is switched off: who calls it
                # there is no reason to watch it.
                return None
            return sys.monitoring.DISABLE if _is_done(known, offset, function) else None

        def _knows(self, function: object) -> bool:
            """Return whether what a call runs is known, and get to know it if this is a turn."""
            thing = _run_by(function)
            if thing is None or address(thing) in self._known:
                return True
            if get_ident() not in self._turns:
                return False
            if type(thing) is FunctionType and address(thing.__code__) in self._known:
                # Made anew by known code, as inner functions are.
                self._remember(thing, {}, {})
                self._know_closed_over(thing)
                return True
            is_class = issubclass(type(thing), type)
            self._know_all(thing, [thing, type(thing)] if is_class else [thing])
            return True

        def _know_closed_over(self, function: FunctionType) -> None:
            """Get to know what a function wraps: Python 3.12 does not tell of its call, which is
            one with unpacked arguments in most decorators."""
            for content in map(content_of, function.__closure__ or ()):
                if type(content) is FunctionType or type(content) is MethodType:
                    self._knows(content)

        def _meet_caller(self, frame: FrameType) -> None:
            """Get to know code that was seen in a turn that is watched closely."""
            if get_ident() in self._turns:
                self._know_all(frame.f_code, [Piece(frame.f_code, frame.f_globals, {})])

        def _know_all(self, thing: object, roots: Iterable[object]) -> None:
            for root in roots:
                self._know(root)
            if address(thing) not in self._known:
                self._remember(thing, {}, {})

    def _take_tool() -> int:
        # 3 and 4 are free by convention; the others belong to debuggers, coverage, profilers.
        for tool in (4, 3, 5, 2, 1, 0):
            if sys.monitoring.get_tool(tool) is None:
                sys.monitoring.use_tool_id(tool, "perdure")
                return tool
        raise UsageError("calls cannot be watched: other tools hold all ids of sys.monitoring")

    def _run_by(function: Any) -> object:
        """Return the function or class that a call runs; None for what is written in C.

        Not the code of a function: reading `__code__` is an audit event, and those are not cheap.
        """
        kind = type(function)
        if kind is FunctionType:
            return function
        if kind is BuiltinFunctionType or kind is MethodDescriptorType:
            return None
        if kind is MethodType:
            return _run_by(function.__func__)
        if kind is partial:
            return _run_by(function.func)
        if kind is LRU_CACHE:
            return _run_by(function.__wrapped__)
        return function if issubclass(kind, type) else kind

    def _is_done(known: _Known, offset: int, function: Any) -> bool:
        """Return whether a call that is harmless now will always be."""
        if type(function) is MethodDescriptorType:
            # `words.append(...)`: no other object has a clock under the name of such a method.
            return known.methods.get(offset) == function.__name__
        return known.callees.get(offset) == _identity(function)

    def _identity(function: Any) -> object:
        """Return what tells a function from others, however it was come by."""
        kind = type(function)
        if kind is MethodType:
            return address(function.__func__)
        if kind is BuiltinFunctionType and type(function.__self__) is not ModuleType:
            return address(function.__self__), function.__name__
        return address(function)

    def _is_of_user(piece: Piece) -> bool:
        path = piece.code.co_filename
        is_installed = "site-packages" in path or "dist-packages" in path
        top = piece.module.partition(".")[0]
        return not is_installed and top not in sys.stdlib_module_names

else:

    class CallMonitor:
        """The one of this process.

        Args:
            judge: Is told of forbidden calls.
            turns: The threads that are in a turn.
        """

        def __init__(self, judge: Judge, turns: Container[int]) -> None:
            self._judge = judge

        def start(self) -> object:
            """Begin to watch this thread closely; return what `stop` wants back."""
            previous: object = sys.getprofile()
            # cProfile sets a C function that `sys.setprofile` cannot put back. It is left alone,
            # and calls are not watched while it runs.
            if previous is None or callable(previous):
                _set_profile(self._on_profile)
            return previous

        def stop(self, previous: object) -> None:
            """Watch it closely no more."""
            # Python unsets a profile function that raises, ours too. The stretch has its violation
            # then, and the next one sets it again. (Should another thread be setting one at that
            # very moment, the user's code gets Python's complaint about that instead of our error.)
            if previous is None or callable(previous):
                _set_profile(previous)

        def look_at(self, root: object) -> bool:
            """Look at the code of a definition; return whether to watch all its turns closely."""
            seen = reach([root], limit=MAX_REACHED, follow=lambda piece: not may_call(piece.module))
            return any(_is_forbidden(value) for _, reading in seen for value in reading.named)

        def _on_profile(self, frame: FrameType, event: str, function: object) -> None:
            if event == "c_call":
                rule = rule_of(function)
                if rule is not None:
                    self._judge(rule, frame)

    def _set_profile(profiler: Callable[..., object] | None) -> None:
        # Python 3.11 refuses this while another thread is in the middle of it, which takes long
        # enough to be met: audit hooks run in there. Sleeping for nothing lets that thread finish.
        for _ in range(SET_PROFILE_ATTEMPTS):
            try:
                return sys.setprofile(profiler)
            except RuntimeError:
                time.sleep(0)
        return sys.setprofile(profiler)

    def _is_forbidden(value: Any) -> bool:
        if rule_of(value) is not None:
            return True
        # Whether a generator of random numbers gets a seed is not to be seen from its name.
        return issubclass(type(value), type) and issubclass(value, _random.Random)
