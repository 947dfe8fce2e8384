"""Query parameters of GET and DELETE doors: text to the values that the contract's check expects. Pure."""

from __future__ import annotations

from contract.codec import decode
from contract.door import Door
from contract.refusals import Refusal
from workers.fields import TEXT_ONLY, fields_of
from workers.routes import percent_decoded

PARAMETERS_MAX = 100


def query_params(door: Door, query: bytes) -> dict[str, object]:
    """The query string as a document: a parameter that takes only text is text, every other one is read as JSON.

    Text that is not JSON stays text, so that the contract's check says what is expected; it also refuses unknown names.
    Raises `ValidationError` for a broken escape, a parameter given twice, and more parameters than any door has.
    """
    found: dict[str, object] = {}
    if not query:
        return found
    parts = query.split(b"&")
    if len(parts) > PARAMETERS_MAX:
        raise Refusal("ValidationError", f"The query has {len(parts)} parameters; the most is {PARAMETERS_MAX}.")
    fields = fields_of(door.params)
    for part in parts:
        if not part:
            continue
        name, value = _pair(part)
        if name in found:
            raise Refusal("ValidationError", f"The query parameter {name[:100]!r} is given twice.")
        field = fields.get(name)
        found[name] = value if field is not None and field.kinds == TEXT_ONLY else _value(value)
    return found


def _pair(part: bytes) -> tuple[str, str]:
    """Name and value of one parameter, each decoded once; `+` is a space as in forms."""
    raw_name, _, raw_value = part.replace(b"+", b" ").partition(b"=")
    try:
        return percent_decoded(raw_name), percent_decoded(raw_value)
    except ValueError as error:
        raise Refusal(
            "ValidationError", f"The query parameter {part[:100].decode('latin-1')!r} does not decode."
        ) from error


def _value(text: str) -> object:
    """A value as JSON under the rules of the codec; the text itself when it does not look like JSON at all."""
    try:
        return decode(text.encode("utf-8"), "json")
    except Refusal:
        if text[:1] in ("{", "["):
            raise
        return text
