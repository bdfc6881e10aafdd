"""Telling whether an input that is given again under its id is the same one.

A receipt keeps a short digest of each field of the input. Fields that only one side has are passed
over: code that came in between may have added one with a default, and who gives JSON may leave such
out.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, TypeAlias

import msgspec

from perdure.core.deciders.answers import UNCHECKED, AnyReceipt, DirectInput, UnreadableReceipt
from perdure.errors import InputIdReusedError

TAG = "$tag"
"""Stands for the kind of the input, among its fields."""

Fingerprint: TypeAlias = Mapping[str, str]

_encoder = msgspec.json.Encoder(order="deterministic")


def fingerprint(tag: str, data: bytes) -> Fingerprint:
    """Return what a receipt keeps of an input, given as JSON."""
    value: Any = msgspec.json.decode(data)
    fields = value if isinstance(value, dict) else {"value": value}
    return {TAG: _digest(tag), **{name: _digest(part) for name, part in fields.items()}}


def check_same(instance_id: str, kept: Fingerprint, given: DirectInput) -> None:
    """Refuse an input whose id was given before with another one.

    Args:
        instance_id: As stored.
        kept: Of the first one; empty: an earlier perdure kept nothing.
        given: The one that is given again.

    Raises:
        InputIdReusedError: They differ.
    """
    now = fingerprint(given.tag, given.data)
    differing = [name for name in kept if name in now and kept[name] != now[name]]
    if given.cause == UNCHECKED and TAG in differing:
        # Without the code it is not known whether two names mean one kind.
        differing.remove(TAG)
    if differing:
        named = ["its kind" if name == TAG else name for name in differing]
        raise InputIdReusedError(instance_id, given.input_id, named)


def with_fingerprint(receipt: AnyReceipt, tag: str, data: bytes) -> AnyReceipt:
    """Return a receipt that knows which input it is of.

    Of what was no input nothing is kept: whatever is given under its id gets the same answer.
    """
    if isinstance(receipt, UnreadableReceipt):
        return receipt
    return msgspec.structs.replace(receipt, given=dict(fingerprint(tag, data)))


def _digest(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # JSON has one sort of numbers.
    return blake2b(_encoder.encode(value), digest_size=6).hexdigest()
