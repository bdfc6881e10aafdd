"""Telling whether an input that is given again under its id is the same one."""

from __future__ import annotations

import msgspec

from perdure.core.deciders.answers import UNCHECKED, AnyReceipt, DirectInput, UnreadableReceipt
from perdure.errors import InputIdReusedError
from perdure.model.fingerprints import TAG, Fingerprint, differing_fields
from perdure.model.fingerprints import fingerprint as fingerprint


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
    differing = differing_fields(kept, now)
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
    return msgspec.structs.replace(receipt, given=fingerprint(tag, data))
