"""Queries: views of an orchestration's variables, computed by replaying it when asked."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from perdure.authoring.scope import current_scope
from perdure.codec import ValueCodec, check_id
from perdure.errors import UsageError

if TYPE_CHECKING:
    from typing_extensions import TypeForm

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class AskedQuery(Generic[T_co]):
    """A query as its callers see it: its answer may be taken for something wider."""

    name: str
    type: Any

    @cached_property
    def codec(self) -> ValueCodec[T_co]:
        """How its answers are told."""
        return ValueCodec(self.type, where=f"query {self.name!r}")


class Query(AskedQuery[T], Generic[T]):
    """A name and a type, shared by the orchestration that answers and by those who ask.

    The code hands over a view once; `handle.ask(query)` replays the history in the caller's own
    process, calls the view there and throws the replica away. Nothing is written, no worker is
    asked, and a view that changes something changes nothing.
    """

    # Invariant in T on purpose, as Signal is.

    @overload
    def __init__(self, name: str, type: type[T], /) -> None: ...
    @overload
    def __init__(self, name: str, type: TypeForm[T], /) -> None: ...
    def __init__(self, name: str, type: Any, /) -> None:
        self.name = check_id("query name", name)
        self.type = type

    def answer_with(self, view: Callable[[], T], /) -> None:
        """Answer with what a function returns, from here on; inside an orchestration.

        Args:
            view: Reads variables, and is called only when a caller asks. A later one takes its
                place.
        """
        scope = current_scope()
        if scope is None:
            raise UsageError(
                f"query {self.name!r} is answered inside an orchestration; to ask use "
                "handle.ask(query)"
            )
        if not callable(view):
            raise UsageError(
                f"query {self.name!r} is answered with a function without parameters, not with "
                f"{view!r}: write answer_with(lambda: ...)"
            )
        scope.views[self.name] = lambda: self.codec.encode(view(), f"query {self.name!r}")

    def __repr__(self) -> str:
        return f"Query({self.name!r}, {self.type!r})"
