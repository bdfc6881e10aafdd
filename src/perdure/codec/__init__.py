"""Payloads: values to JSON bytes and back, by annotation. What it offers is listed here."""

from perdure.codec.codec import (
    JSON,
    MAX_DEPTH,
    MAX_PAYLOAD_BYTES,
    NOT_STORED,
    ArgumentsCodec,
    ValueCodec,
    value_codec,
)
from perdure.codec.one_argument import argument_type, around_argument
from perdure.codec.plans import Json
from perdure.codec.texts import check_id, check_text
from perdure.codec.types import show, union_members
from perdure.codec.unbound import UnboundArgumentsCodec, by_position_and_name
from perdure.limits import MAX_ID_BYTES

__all__ = [
    "JSON",
    "MAX_DEPTH",
    "MAX_ID_BYTES",
    "MAX_PAYLOAD_BYTES",
    "NOT_STORED",
    "ArgumentsCodec",
    "Json",
    "UnboundArgumentsCodec",
    "ValueCodec",
    "argument_type",
    "around_argument",
    "by_position_and_name",
    "check_id",
    "check_text",
    "show",
    "union_members",
    "value_codec",
]
