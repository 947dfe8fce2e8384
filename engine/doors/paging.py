"""The door that reads everything, page by page: every page of one reading is of one generation, whatever is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from contract.doors.queries import PageParams
from contract.limits import READ_CHUNK_ROWS_MAX
from contract.refusals import Refusal
from contract.vocabulary import NOUN_TYPES, VERB_TYPES, nearest
from engine import cursors
from engine.doors.registry import CallContext, Document, reads
from engine.records import Entity, Relation

if TYPE_CHECKING:
    from engine.view import View

DOOR = "page"
Place = int | str


@reads(DOOR)
def page(view: View, params: PageParams, call: CallContext) -> Document:
    """Public entities in the order of insertion, or public relations by edge id; `cursor` while there may be more."""
    _refuse_unknown_type(params)
    at, place = _start(view, params, call)
    entities = params.kind == "entities"
    rows, last = _entities(at, int(place), params, call) if entities else _relations(at, str(place), params, call)
    answer: Document = {"rows": rows, "generation": at.generation}
    if last is not None:
        answer["cursor"] = cursors.seal(at, call, DOOR, params, last)
    return answer


def _refuse_unknown_type(params: PageParams) -> None:
    names = NOUN_TYPES if params.kind == "entities" else VERB_TYPES
    if params.type is not None and params.type not in names:
        refusal = "UnknownNounTypeError" if params.kind == "entities" else "UnknownVerbTypeError"
        near = nearest(params.type, names)
        raise Refusal(
            refusal, f"type: no type is called {params.type!r}.", details={"type": params.type, "nearest": near}
        )


def _start(view: View, params: PageParams, call: CallContext) -> tuple[View, Place]:
    if params.cursor is None:
        return view, 0 if params.kind == "entities" else ""
    return cursors.resumed(view, call, DOOR, params, params.cursor)


def _entities(view: View, after: int, params: PageParams, call: CallContext) -> tuple[list[Document], int | None]:
    def chunk(place: int) -> Sequence[Entity]:
        return view.scan(place, READ_CHUNK_ROWS_MAX)

    return _gathered(chunk, lambda row: row.iid, after, params, call)


def _relations(view: View, after: str, params: PageParams, call: CallContext) -> tuple[list[Document], str | None]:
    def chunk(place: str) -> Sequence[Relation]:
        return view.relations_by_id(place, READ_CHUNK_ROWS_MAX)

    return _gathered(chunk, lambda row: row.id, after, params, call)


def _gathered(
    chunk: Callable[[Any], Sequence[Any]],
    place_of: Callable[[Any], Any],
    after: Any,  # noqa: ANN401 - an iid or an edge id
    params: PageParams,
    call: CallContext,
) -> tuple[list[Document], Any]:
    """The next rows that are public and of the type, and the place of the last one; None when nothing follows."""
    found: list[Document] = []
    last = after
    while True:
        call.check()
        rows = chunk(last)
        for row in rows:
            if row.doc.get("visibility", "public") == "public" and params.type in (None, row.doc["type"]):
                if len(found) == params.limit:
                    return found, last
                found.append(row.doc)
            last = place_of(row)
        if len(rows) < READ_CHUNK_ROWS_MAX:
            return found, None
