"""The declarations: names, routes, vocabularies, refusals and limits hold what the surfaces rely on."""

import re
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract import server
from contract.door import Access, Disposition, Door, Effect, kebab, snake
from contract.doors import DOORS
from contract.limits import LIMITS
from contract.refusals import CATALOGUE, Refusal
from contract.vocabulary import NOUN_TYPES, VERB_TYPES, nearest

NATIVE = {
    "init",
    "close",
    "add",
    "get",
    "batchGet",
    "update",
    "remove",
    "addMany",
    "relate",
    "unrelate",
    "related",
    "find",
    "similar",
    "embed",
    "embedBatch",
    "similarity",
    "counts",
    "now",
    "generation",
    "vfs.writeFile",
    "vfs.readFile",
    "vfs.readdir",
    "vfs.stat",
    "import",
    "health",
    "stats",
    "diagnostics",
}
SERVICE = {
    "init",
    "close",
    "health",
    "diagnostics",
    "stats",
    "repair",
    "snapshot",
    "restore",
    "compact",
    "scrub",
    "warm",
    "flush",
}


def shape_of(door: Door) -> dict[str, Any]:
    """Wire name to declared default of the door's parameters."""
    return {spec.encode_name: spec.default for spec in msgspec.structs.fields(door.params)}


def test_every_name_of_a_door_is_its_own() -> None:
    for derive in (lambda door: door.tool, lambda door: door.rpc, lambda door: (door.method, door.route)):
        assert max(Counter(map(derive, DOORS.values())).values()) == 1


def test_what_this_release_builds_is_native_and_nothing_else() -> None:
    found = {name for name, door in DOORS.items() if door.disposition is Disposition.NATIVE}
    assert found >= NATIVE
    assert {name for name, door in DOORS.items() if door.in_process} == {"use", "storageAdapter"}


def test_the_service_key_reaches_the_mechanics_and_no_rows_a_auth_02() -> None:
    assert {name for name, door in DOORS.items() if door.access is Access.SERVICE} == SERVICE


@pytest.mark.parametrize(
    "door", [door for door in DOORS.values() if door.writes and not door.in_process], ids=lambda door: door.full_name
)
def test_every_write_takes_an_idempotency_key(door: Door) -> None:
    assert "idempotencyKey" in shape_of(door)
    assert "OutcomeUnknownError" in door.all_refusals


@pytest.mark.parametrize("door", [door for door in DOORS.values() if not door.writes], ids=lambda door: door.full_name)
def test_no_read_takes_an_idempotency_key(door: Door) -> None:
    assert "idempotencyKey" not in shape_of(door)


@pytest.mark.parametrize("door", DOORS.values(), ids=lambda door: door.full_name)
def test_refusals_of_a_door_are_in_the_catalogue_a_contract_08_09(door: Door) -> None:
    assert set(door.all_refusals) <= set(CATALOGUE)
    assert ("InProcessOnlyError" in door.all_refusals) == door.in_process
    assert ("NotYetNativeError" in door.all_refusals) == bool(door.release or door.later)


def test_known_routes_are_where_they_were_promised_a_door_04_13() -> None:
    routes = {name: f"{door.method} {door.route}" for name, door in DOORS.items()}
    assert routes["init"] == "POST /v1/brains/{brain}/open"
    assert routes["close"] == "POST /v1/brains/{brain}/close"
    assert routes["counts"] == "GET /v1/brains/{brain}/counts"
    assert routes["vfs.readFile"] == "POST /v1/brains/{brain}/vfs/read-file"
    paths = {f"{door.method} {door.path}" for door in server.SERVER_DOORS.values()}
    assert {"GET /v1/health", "GET /contract.json", "GET /agent", "GET /llms.txt", "POST /mcp"} <= paths


def test_tables_of_the_server_name_doors_that_exist() -> None:
    named = [
        *server.FILE_DOORS.values(),
        *server.JSONL_DOORS,
        *server.PARTS_DOORS,
        server.MCP_READ_DOOR,
        server.MCP_LIST_DOOR,
        *server.MCP_WORKING_SET,
    ]
    assert set(named) <= set(DOORS)


def test_a_door_rejects_a_later_option_it_does_not_have() -> None:
    with pytest.raises(AssertionError, match="is no parameter"):
        Door(
            name="x",
            title="x",
            summary="x",
            effect=Effect.READ,
            params=DOORS["now"].params,
            result=DOORS["now"].result,
            later={"ghost": "9"},
        )


def test_names_change_their_case_only() -> None:
    assert kebab("batchGet") == "batch-get"
    assert snake("readFile") == "read_file"
    assert DOORS["vfs.readFile"].tool == "vfs_read_file"
    assert DOORS["vfs.readFile"].rpc == "VfsReadFile"


def test_vocabularies_have_their_size_and_order() -> None:
    assert (len(NOUN_TYPES), len(VERB_TYPES)) == (42, 127)
    assert (NOUN_TYPES[0], NOUN_TYPES[-1]) == ("person", "relationship")
    assert (VERB_TYPES[0], VERB_TYPES[-1]) == ("instanceOf", "supersedes")
    assert len(set(NOUN_TYPES)) == 42
    assert len(set(VERB_TYPES)) == 127


@given(name=st.text(max_size=80))
def test_nearest_offers_at_most_three_known_names(name: str) -> None:
    found = nearest(name, VERB_TYPES)
    assert len(found) <= 3
    assert set(found) <= set(VERB_TYPES)


def test_nearest_puts_the_best_first() -> None:
    assert nearest("creats", VERB_TYPES)[0] == "creates"


# From the frozen table of statuses: one or two of each.
STATUSES = {
    "UndecodableBodyError": 400, "ValidationError": 400, "CursorInvalidError": 400, "VectorDimensionError": 400,
    "ConfirmationRequiredError": 400, "UnauthenticatedError": 401, "ForbiddenError": 403, "OriginNotAllowedError": 403,
    "DoorNotFoundError": 404, "EntityNotFoundError": 404, "StoreNotFoundError": 404, "MethodNotAllowedError": 405,
    "EntityExistsError": 409, "BRAINY_WRITER_LOCKED": 409, "WriterFencedError": 409, "WriterLeaseUnreadableError": 409,
    "BrainNotOpenForWritingError": 409, "IdempotencyKeyReusedError": 409, "StorageReadOnlyError": 409,
    "GenerationNotRetainedError": 410, "BodyTooLargeError": 413, "BatchTooLargeError": 413,
    "UnsupportedMediaTypeError": 415, "HostNotAllowedError": 421, "AnswerTooLargeError": 422, "RateLimitedError": 429,
    "TooManyAttemptsError": 429, "RecordCorruptError": 500, "BlobCorruptError": 500, "InternalError": 500,
    "NotYetNativeError": 501, "InProcessOnlyError": 501, "EngineUnavailableError": 503, "OverloadedError": 503,
    "EmbeddingModelUnavailableError": 503, "RerankerUnavailableError": 503, "DeadlineExceededError": 504,
    "OutcomeUnknownError": 504, "StorageFullError": 507,
}  # fmt: skip


@pytest.mark.parametrize(("name", "status"), STATUSES.items())
def test_a_refusal_has_its_frozen_status(name: str, status: int) -> None:
    assert Refusal(name, "x").status == status


def test_names_that_do_not_exist_are_not_in_the_catalogue() -> None:
    assert not {"WriterLockedError", "NotWriterError"} & set(CATALOGUE)
    with pytest.raises(AssertionError, match="NoSuchError"):
        Refusal("NoSuchError", "x")


@pytest.mark.parametrize(
    ("code", "status"), [("ENOENT", 404), ("EEXIST", 409), ("ENOTDIR", 409), ("EISDIR", 409), ("EINVAL", 400)]
)
def test_a_file_refusal_takes_its_status_from_the_posix_code(code: str, status: int) -> None:
    assert Refusal("VfsError", "x", details={"code": code}).status == status


def test_a_refusal_is_its_wire_document() -> None:
    bare = Refusal("EntityNotFoundError", 'There is no entity "x".')
    assert bare.document() == {
        "name": "EntityNotFoundError",
        "message": 'There is no entity "x".',
        "cure": CATALOGUE["EntityNotFoundError"].cure,
    }
    full = Refusal("ValidationError", "m", cure="c", door="add", details={"path": "id"})
    assert full.document() == {
        "name": "ValidationError",
        "message": "m",
        "door": "add",
        "cure": "c",
        "details": {"path": "id"},
    }
    assert str(full) == "ValidationError: m c"


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=lambda entry: entry.name)
def test_every_refusal_says_what_it_means_and_what_to_do(entry: Any) -> None:
    assert entry.summary.endswith(".")
    assert entry.cure.endswith(".")
    assert entry.grpc in ("answer", "UNAUTHENTICATED", "INVALID_ARGUMENT", "RESOURCE_EXHAUSTED")
    assert re.fullmatch(r"[A-Z][A-Za-z]+Error|BRAINY_[A-Z_]+", entry.name)


def test_every_limit_has_a_unit_and_a_reason() -> None:
    assert len({limit.name for limit in LIMITS}) == len(LIMITS)
    assert all(limit.value > 0 and limit.unit and limit.reason.endswith(".") for limit in LIMITS)
