"""URL query parameters as the document of a call; GET and DELETE take there what is not in the path."""

from collections.abc import Iterable
from functools import cache

import msgspec

from contract.codec import decode
from contract.door import Door
from contract.quote import quoted
from contract.refusals import Refusal


def query_document(door: Door, pairs: Iterable[tuple[str, str]]) -> dict[str, object]:
    """The document that URL query parameters spell: text as it is, everything else as JSON.

    A value that its parameter could take as text and as something else (`asOf`) is JSON when it parses as such.
    Refuses `ValidationError` for a name given twice and for a value that is no JSON where text is not taken.
    """
    document: dict[str, object] = {}
    kinds = _query_kinds(door)
    for name, text in pairs:
        if name in document:
            message = f"The query parameter {quoted(name)} of {door.full_name} is given twice."
            raise Refusal(
                "ValidationError", message, cure="Give it once; a list is written as JSON.", door=door.full_name
            )
        document[name] = _query_value(door, name, text, kinds.get(name, _TEXT))
    return document


_TEXT, _EITHER, _JSON = "text", "either", "json"


def _query_value(door: Door, name: str, text: str, kind: str) -> object:
    if kind == _TEXT:
        return text
    try:
        return decode(text.encode("utf-8", "surrogatepass"), "json")
    except Refusal as error:
        if kind == _EITHER:
            return text
        message = f"The query parameter {quoted(name)} of {door.full_name} is {quoted(text)}, which is not JSON."
        cure = "Write numbers, true and false as they are, lists and objects as JSON."
        raise Refusal("ValidationError", message, cure=cure, door=door.full_name, details={"path": name}) from error


@cache
def _query_kinds(door: Door) -> dict[str, str]:
    info = msgspec.inspect.type_info(door.params)
    assert isinstance(info, msgspec.inspect.StructType)
    return {spec.encode_name: _query_kind(spec.type) for spec in info.fields}


def _query_kind(kind: msgspec.inspect.Type) -> str:
    while isinstance(kind, msgspec.inspect.Metadata):
        kind = kind.type
    if isinstance(kind, msgspec.inspect.UnionType):
        found = {_query_kind(part) for part in kind.types if not isinstance(part, msgspec.inspect.NoneType)}
        return found.pop() if len(found) == 1 else _EITHER
    if isinstance(kind, msgspec.inspect.LiteralType):
        return _TEXT if all(isinstance(value, str) for value in kind.values) else _EITHER
    return _TEXT if isinstance(kind, msgspec.inspect.StrType) else _JSON
