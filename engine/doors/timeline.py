"""The doors that read the past: asOf diff history changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from contract.codec import encode
from contract.doors.time import AsOfParams, ChangesParams, DiffParams, HistoryParams
from contract.limits import ANSWER_BYTES_MAX, CHANGES_ROWS_MAX, DIFF_RECORDS_MAX, READ_CHUNK_ROWS_MAX
from contract.quote import quoted
from contract.refusals import Refusal
from contract.vocabulary import NOUN_TYPES, VERB_TYPES, nearest
from engine.doors.points import generation_at
from engine.doors.registry import CallContext, Document, reads
from engine.records import Commit, Entity, Relation, Revision
from engine.view import in_future, not_retained

if TYPE_CHECKING:
    from engine.view import View

CHANGES_LIMIT_DEFAULT: Final = 100
"""Generations on a page of the log when the caller names no number."""

_TYPES: Final = frozenset((*NOUN_TYPES, *VERB_TYPES))

_ABSENT: Final = object()


@reads("asOf")
def as_of(view: View, params: AsOfParams, call: CallContext) -> Document:
    """The generation that was current at a generation or instant, and when it was committed."""
    generation = generation_at(view, params.at, call.now_ms, field="at")
    return {"generation": generation, "timestamp": view.earlier(generation).at_ms, "pinned": False}


# -- diff


@reads("diff")
def diff(view: View, params: DiffParams, call: CallContext) -> Document:
    """Ids that came, changed and went between two points; with `detail` the fields of those that changed.

    A record that came and went in between is none of them. AnswerTooLargeError beyond DIFF_RECORDS_MAX records.
    """
    start = generation_at(view, params.from_, call.now_ms, field="from")
    end = view.generation if params.to is None else generation_at(view, params.to, call.now_ms, field="to")
    if start > end:
        raise Refusal(
            "ValidationError",
            f"`from` is generation {start} and `to` is {end}, an older one.",
            cure="Give the older point as `from`.",
            details={"path": "from", "from": start, "to": end},
        )
    older, newer = view.earlier(start), view.earlier(end)
    iids, rids = newer.touched(start, DIFF_RECORDS_MAX + 1)
    if len(iids) + len(rids) > DIFF_RECORDS_MAX:
        raise _too_large(f"More than {DIFF_RECORDS_MAX} records changed between generations {start} and {end}.")
    detail = _Detail(call) if params.detail else None
    sides = {
        "entities": _side("entity", _entity_pairs(older, newer, iids, call), detail),
        "relations": _side("relation", _relation_pairs(older, newer, rids, call), detail),
    }
    counts = {kind: {op: len(ids) for op, ids in side.items()} for kind, side in sides.items()}
    answer: Document = {"from": start, "to": end, **sides, "counts": counts}
    return answer if detail is None else {**answer, "fields": detail.records}


def _too_large(message: str) -> Refusal:
    return Refusal(
        "AnswerTooLargeError",
        message,
        cure="Compare a shorter span, leave out `detail`, or read `changes` page by page.",
    )


Pair = tuple[str, Document | None, Document | None]
"""An id with its document before and after; None where it was not there."""


def _entity_pairs(older: View, newer: View, iids: list[int], call: CallContext) -> Iterator[Pair]:
    for chunk in _chunks(iids, call):
        yield from _pairs(chunk, older.entities_at(chunk), newer.entities_at(chunk))


def _relation_pairs(older: View, newer: View, rids: list[int], call: CallContext) -> Iterator[Pair]:
    for chunk in _chunks(rids, call):
        yield from _pairs(chunk, older.relations_at(chunk), newer.relations_at(chunk))


def _chunks(keys: list[int], call: CallContext) -> Iterator[list[int]]:
    for start in range(0, len(keys), READ_CHUNK_ROWS_MAX):
        call.check()
        yield keys[start : start + READ_CHUNK_ROWS_MAX]


def _pairs(
    keys: list[int], before: Mapping[int, Entity | Relation], after: Mapping[int, Entity | Relation]
) -> Iterator[Pair]:
    for key in keys:
        old, new = before.get(key), after.get(key)
        known = old or new
        if known is not None:
            yield known.id, None if old is None else old.doc, None if new is None else new.doc


def _side(kind: str, pairs: Iterable[Pair], detail: _Detail | None) -> dict[str, list[str]]:
    """The ids by what became of them, each list in id order. An id that was removed and added again is one update."""
    came: dict[str, Document] = {}
    went: dict[str, Document] = {}
    updated: list[str] = []
    for identity, before, after in pairs:
        if before is None and after is not None:
            came[identity] = after
        elif after is None and before is not None:
            went[identity] = before
        elif before is not None and after is not None and before != after:
            updated.append(identity)
            if detail is not None:
                detail.add(kind, identity, before, after)
    for identity in came.keys() & went.keys():
        updated.append(identity)
        if detail is not None:
            detail.add(kind, identity, went[identity], came[identity])
    return {
        "added": sorted(came.keys() - went.keys()),
        "updated": sorted(updated),
        "removed": sorted(went.keys() - came.keys()),
    }


class _Detail:
    """The records field by field, as long as they fit into an answer."""

    def __init__(self, call: CallContext) -> None:
        self.records: list[Document] = []
        self._bytes = 0
        self._call = call

    def add(self, kind: str, identity: str, before: Document, after: Document) -> None:
        self._call.check()
        record = {"kind": kind, "id": identity, "changes": list(_changed_fields(before, after))}
        self._bytes += len(encode(record, "msgpack"))
        if self._bytes > ANSWER_BYTES_MAX:
            raise _too_large(f"The fields that changed fill more than {ANSWER_BYTES_MAX} bytes.")
        self.records.append(record)


def _changed_fields(before: Document, after: Document) -> Iterator[Document]:
    flat_before, flat_after = _flat(before), _flat(after)
    for field in sorted(flat_before.keys() | flat_after.keys()):
        old, new = flat_before.get(field, _ABSENT), flat_after.get(field, _ABSENT)
        if type(old) is not type(new) or old != new:
            change: Document = {"field": field}
            if old is not _ABSENT:
                change["before"] = old
            if new is not _ABSENT:
                change["after"] = new
            yield change


def _flat(doc: Document) -> dict[str, Any]:
    """The top-level fields, with the caller's metadata one level deeper."""
    flat = {name: value for name, value in doc.items() if name != "metadata"}
    flat.update({f"metadata.{key}": value for key, value in doc.get("metadata", {}).items()})
    return flat


# -- history


@reads("history")
def history(view: View, params: HistoryParams, call: CallContext) -> Document:
    """The revisions of an entity that history keeps, newest first, its removal included.

    EntityNotFoundError for an id that never was. Of a record older than the floor the time is the record's own.
    """
    floor = view.floor
    revisions = view.entity_history(params.id, params.limit, params.before)
    if not revisions:
        if params.before is not None and 0 < floor >= params.before:
            raise not_retained(params.before - 1, floor)
        if not view.entity_history(params.id, 1):
            raise Refusal(
                "EntityNotFoundError", f"No entity ever had the id {quoted(params.id)}.", details={"id": params.id}
            )
    commits: dict[int, Commit | None] = {}
    rows = []
    for revision in revisions:
        call.check()
        if revision.generation not in commits:
            commits[revision.generation] = view.commit(revision.generation)
        rows.append(_revision_row(revision, commits[revision.generation], floor))
    return {"id": params.id, "revisions": rows}


def _revision_row(revision: Revision, commit: Commit | None, floor: int) -> Document:
    doc = revision.entity.doc
    rev = doc.get("_rev", 1)
    op: str = revision.op
    if op == "add" and rev > 1 and revision.generation <= floor:
        op = "update"  # the version before it is what history has let go
    row: Document = {"rev": rev, "generation": revision.generation, "op": op}
    if commit is None:  # it lies under the floor
        row["timestamp"] = doc.get("updatedAt", doc.get("createdAt", 0))
    else:
        row |= {"timestamp": commit.at_ms, "principal": commit.principal}
        if commit.meta is not None:
            row["meta"] = commit.meta
    if op != "remove":
        row["record"] = doc
    return row


# -- changes


@reads("changes")
def changes(view: View, params: ChangesParams, call: CallContext) -> Document:
    """A page of the log: whole generations above `since`, oldest first. `next` is the `since` of the page after it."""
    if params.follow:
        raise Refusal(
            "ValidationError",
            "`follow` keeps an event stream open, and this call asks for one answer.",
            cure="Ask for an event stream (over HTTP: Accept: text/event-stream), or call again with `since` = `next`.",
            details={"path": "follow"},
        )
    since = first_generation(view, params)
    limit = CHANGES_LIMIT_DEFAULT if params.limit is None else params.limit
    page = read_changes(view, since, limit, params.types, call)
    return {
        "changes": page.documents,
        "next": page.upto,
        "caughtUp": page.upto == view.generation,
        "generation": view.generation,
    }


class ChangesPage:
    """Generations of the log as documents. `upto` is the last one looked at: the caller goes on from there."""

    def __init__(self, documents: list[Document], upto: int) -> None:
        self.documents = documents
        self.upto = upto


def first_generation(view: View, params: ChangesParams) -> int:
    """The generation after which a feed begins; refuses one under the floor or ahead of the head, and odd types."""
    for name in params.types or []:
        if name not in _TYPES:
            near = nearest(name, [*NOUN_TYPES, *VERB_TYPES])
            raise Refusal(
                "ValidationError",
                f"types: {quoted(name)} is neither a noun nor a verb type.",
                cure=f"Did you mean {' or '.join(near)}?" if near else "The contract lists both.",
                details={"path": "types", "value": name[:256]},
            )
    since = view.floor if params.since is None else params.since
    if since > view.generation:
        raise in_future(since, view.generation)
    view.refuse_unkept(since)
    return since


def read_changes(view: View, since: int, limit: int, types: list[str] | None, call: CallContext) -> ChangesPage:
    """At most `limit` generations above `since`, fewer when they hold many changes; each whole."""
    view.refuse_unkept(since)
    documents: list[Document] = []
    upto, commits_left, rows_left = since, limit, CHANGES_ROWS_MAX
    while upto < view.generation and commits_left > 0 and rows_left > 0:
        call.check()
        commits = view.changes(upto, min(commits_left, READ_CHUNK_ROWS_MAX), rows_left)
        assert commits, "a generation above the floor has its commit"
        if upto > since and commits[0].change_count > rows_left:
            break
        for commit in commits:
            document = change_set(commit, types)
            if document is not None:
                documents.append(document)
            rows_left -= commit.change_count
        upto = commits[-1].generation
        commits_left -= len(commits)
    return ChangesPage(documents, upto)


def change_set(commit: Commit, types: list[str] | None) -> Document | None:
    """One generation of the feed; None when `types` are asked for and none of its records has one.

    Paths and definitions are left out: a file's entity changes with its path.
    """
    rows = [
        _change_row(change.kind, change.op, change.id, change.type, change.subtype, change.rev)
        for change in commit.changes
        if change.kind in ("entity", "relation") and (types is None or change.type in types)
    ]
    if types is not None and not rows:
        return None
    document: Document = {
        "generation": commit.generation,
        "timestamp": commit.at_ms,
        "principal": commit.principal,
        "changes": rows,
    }
    return document if commit.meta is None else {**document, "meta": commit.meta}


def _change_row(
    kind: str, op: str, identity: str | None, type_: str | None, subtype: str | None, rev: int | None
) -> Document:
    row: Document = {"kind": kind, "op": op, "id": identity, "type": type_}
    if subtype is not None:
        row["subtype"] = subtype
    if rev is not None:
        row["rev"] = rev
    return row
