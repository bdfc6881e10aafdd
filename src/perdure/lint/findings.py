"""What is found in source text, and the list of what can be."""

from __future__ import annotations

from dataclasses import dataclass

KINDS = {
    "clock": "a clock is read",
    "random": "random numbers are drawn",
    "uuid": "a uuid is drawn",
    "sleep": "a thread sleeps",
    "outside": "files, sockets, processes or other outside things are used",
    "thread": "threads or processes are started",
    "environment": "the environment, the machine or the process is asked",
    "hash": "a hash or the identity of an object is asked, which are others in every process",
    "global-state": "state that outlives the instance is changed",
    "set-order": "the order of a set decides what is asked for",
    "never-awaited": "a call is made and never awaited",
    "continue-as-new": "an exit stack would be unwound by continue_as_new",
    "late-undo": "what undoes a call is put on an exit stack after the call",
    "unreadable": "the file cannot be read as Python",
}
"""Kinds of findings, and what each means."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class LintFinding:
    """Something that cannot be replayed."""

    path: str
    line: int
    column: int
    """From 1."""
    kind: str
    message: str
    """What it is, and what to do."""
    definition: str
    """The orchestration or decider that reaches it."""
    through: tuple[str, ...] = ()
    """The functions by which it does, from its own on; empty if it stands there itself."""

    @property
    def text(self) -> str:
        """One line, as compilers write it."""
        way = f" (through {' -> '.join(self.through)})" if self.through else ""
        return (
            f"{self.path}:{self.line}:{self.column}: {self.kind}: {self.message} "
            f"[{self.definition}{way}]"
        )
