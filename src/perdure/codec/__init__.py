"""Payloads: values to JSON bytes and back, by annotation. What it offers is listed here."""

from perdure.codec.codec import (
    JSON,
    MAX_DEPTH,
    MAX_ID_BYTES,
    MAX_PAYLOAD_BYTES,
    ArgumentsCodec,
    ValueCodec,
    check_id,
    value_codec,
)
from perdure.codec.types import show, union_members
from perdure.codec.unbound import UnboundArgumentsCodec, by_position_and_name

__all__ = [
    "JSON",
    "MAX_DEPTH",
    "MAX_ID_BYTES",
    "MAX_PAYLOAD_BYTES",
    "ArgumentsCodec",
    "UnboundArgumentsCodec",
    "ValueCodec",
    "by_position_and_name",
    "check_id",
    "show",
    "union_members",
    "value_codec",
]
