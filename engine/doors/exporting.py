"""The export door: a brain, or a part of it, as one document here and as a stream where the caller takes one."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from contract.doors.exchange import ExportParams
from contract.limits import ANSWER_BYTES_MAX
from contract.refusals import Refusal
from contract.vector import Vector
from engine.doors.points import view_for
from engine.doors.registry import CallContext, Document, Parts, mechanics, streams
from engine.exchange.export import Export, entity_json
from engine.exchange.formats import FORMATS
from engine.sqlite.rows import encode_doc

if TYPE_CHECKING:
    from engine.store import Store

RECORD_FORMATS = frozenset({"portable", "json"})


@mechanics("export")
def export_document(store: Store, params: ExportParams, call: CallContext) -> Document:
    """The export as one document, up to the answer limit: records for `portable` and `json`, else text in `content`.

    AnswerTooLargeError beyond it, naming the ways to have it all.
    """
    export = _export(store, params, call)
    room = _Room()
    if params.format not in RECORD_FORMATS:
        written = FORMATS[params.format]
        pieces = [room.take(piece) for piece in written.pieces(export)]
        return {
            "header": export.header(),
            "content": b"".join(pieces).decode(),
            "mediaType": written.media_type,
            "generation": export.generation,
        }
    answer: Document = {"header": export.header(), "entities": [], "relations": [], "blobs": []}
    for docs in export.entities():
        for doc in docs:
            room.take(entity_json(doc))
            vector = doc.get("vector")
            answer["entities"].append({**doc, "vector": Vector(vector)} if isinstance(vector, bytes) else doc)
    for docs in export.relations():
        for doc in docs:
            room.take(encode_doc(doc))
            answer["relations"].append(doc)
    for head, data in export.blobs():
        room.reserve(len(data) * 4 // 3)
        answer["blobs"].append({**head, "base64": base64.b64encode(data).decode("ascii")})
    return answer | {"generation": export.generation}


@streams("export")
def export_parts(store: Store, params: ExportParams, call: CallContext) -> Parts:
    """The export piece by piece, in bounded memory."""
    export = _export(store, params, call)
    written = FORMATS[params.format]
    return Parts({"mediaType": written.media_type}, written.pieces(export), export.generation)


def _export(store: Store, params: ExportParams, call: CallContext) -> Export:
    with view_for(store, params, call.now_ms) as view:
        generation = view.generation
    return Export(store, generation, params, call)


class _Room:
    """Counts what an answer would hold, and refuses it before memory does."""

    def __init__(self) -> None:
        self._bytes = 0

    def take(self, piece: bytes) -> bytes:
        self.reserve(len(piece) + 2)
        return piece

    def reserve(self, size: int) -> None:
        self._bytes += size
        if self._bytes > ANSWER_BYTES_MAX:
            details: dict[str, Any] = {"bytesMax": ANSWER_BYTES_MAX}
            raise Refusal(
                "AnswerTooLargeError",
                f"The export has more than {ANSWER_BYTES_MAX} bytes, the most that one answer carries.",
                cure="Ask over HTTP, which streams it, use `brainy export`, or export a part: `type`, `where`, `ids`.",
                details=details,
            )
