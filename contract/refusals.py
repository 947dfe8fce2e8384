"""The refusal catalogue: every way in which a call can end without an answer. Nothing here raises; it only names.

A refusal belongs to a class with a fixed status, a fault, a retry rule and a cure, so that a caller can act on the name alone.
"""

# ruff: noqa: E501 - tables read best with one entry a line

from collections.abc import Mapping
from typing import Literal

import msgspec

Fault = Literal["caller", "server", "world"]
Retry = Literal["no", "after", "same"]


class RefusalClass(msgspec.Struct, frozen=True, kw_only=True):
    """One name of the catalogue, with what a caller may conclude from it.

    `grpc` is `answer` when the refusal rides in a gRPC answer with status OK, else the status code's name.
    `retry`: `no` (the same call fails again), `after` (wait, then repeat), `same` (repeat with the same idempotency key).
    `status_by_code` refines the HTTP status by `details.code`, for the one class that carries POSIX codes.
    """

    name: str
    status: int
    grpc: str
    fault: Fault
    retry: Retry
    cure: str
    summary: str
    status_by_code: Mapping[str, int] = {}


def _rows(
    status: int, fault: Fault, retry: Retry, *rows: tuple[str, str, str], grpc: str = "answer"
) -> list[RefusalClass]:
    return [
        RefusalClass(name=name, status=status, grpc=grpc, fault=fault, retry=retry, summary=summary, cure=cure)
        for name, summary, cure in rows
    ]


_VFS_STATUS = {
    "ENOENT": 404,
    "EEXIST": 409,
    "ENOTDIR": 409,
    "EISDIR": 409,
    "ENOTEMPTY": 409,
    "EACCES": 409,
    "EINVAL": 400,
}

_ALL: list[RefusalClass] = [
    *_rows(
        400, "caller", "no",
        ("UndecodableBodyError", "The body is not one complete document of its media type.", "Send one JSON or MessagePack document without duplicate keys, NaN, Infinity or trailing bytes."),
        grpc="INVALID_ARGUMENT",
    ),
    *_rows(
        400, "caller", "no",
        ("ValidationError", "A parameter is missing, unknown, of a wrong type or out of its range.", "Compare the call with the door's params in /contract.json."),
        ("UnknownNounTypeError", "The entity type is not one of the closed set of noun types.", "Use one of the noun types in /contract.json; `custom` is the fallback."),
        ("UnknownVerbTypeError", "The relation type is not one of the closed set of verb types.", "Use one of the verb types in /contract.json; `relatedTo` is the fallback."),
        ("UnknownOperatorError", "The filter uses an operator that does not exist.", "Use one of the operators that the message lists."),
        ("FilterTypeError", "A filter operand has a type or form that its operator does not take.", "Give the operand the type that the message names."),
        ("FieldNotQueryableError", "The filter names a field that cannot be queried.", "Filter on metadata or a standard field; `data` is reached by `query`."),
        ("FieldNotIndexedError", "The field lies under a projection that was dropped.", "Filter on another field, or rebuild the projection with `repair`."),
        ("ReservedFieldError", "Metadata uses a key that belongs to the engine.", "Rename the key; standard fields are parameters of their own."),
        ("FieldVocabularyError", "A tracked field has a value outside its declared values.", "Use one of the declared values, or change them with `schema.trackField`."),
        ("SubtypeRequiredError", "The type requires a subtype and none was given.", "Give a `subtype`, or relax the rule with `schema.requireSubtype`."),
        ("SubtypeVocabularyError", "The subtype is not one of the values declared for its type.", "Use a declared subtype, or change the rule with `schema.requireSubtype`."),
        ("QueryLimitError", "The query asks for more rows or work than one call may cost.", "Lower `limit`, narrow the filter, or read in pages with `page`."),
        ("OrderByBudgetError", "Ordering would read a value of more rows than a read-only attach allows.", "Narrow the filter, or open the brain for writing."),
        ("CursorInvalidError", "The cursor was not made by this brain for this query and caller, or its generation is gone.", "Start again without `cursor`."),
        ("ConfirmationRequiredError", "The door destroys data and was called without its confirmation.", "Repeat the call with `confirm: true`."),
        ("RemoveUnboundedError", "removeMany was called without a selector.", "Give `ids`, `type` or `where`."),
        ("VectorDimensionError", "The vector does not have the width of this brain's vectors.", "Send a vector of the width that the message names."),
        ("ImportFormatError", "The content to import is not what its format says.", "Correct the lines that details name, or give the right `format`."),
        ("AggregateDefinitionError", "The aggregate definition cannot be kept.", "Give at least one `groupBy` and one metric with a known `op`."),
        ("LanguageOutputInvalidError", "The language model's output did not fit the requested schema, twice.", "Simplify the schema or the text and repeat."),
        ("UnsupportedProtocolVersionError", "The MCP revision asked for is not served.", "Use the revision that the message names."),
    ),
    RefusalClass(
        name="VfsError", status=400, grpc="answer", fault="caller", retry="no",
        summary="The file operation failed as POSIX names it; `details.code` is the code.",
        cure="Correct the path: absolute, `/`-separated, without `.`, `..` or empty segments; see details.code.",
        status_by_code=_VFS_STATUS,
    ),
    *_rows(
        401, "caller", "no",
        ("UnauthenticatedError", "No valid credential came with the call.", "Send `Authorization: Bearer <key>`; over stdio set BRAINY_KEY."),
        ("BRAINY_KEY_MALFORMED", "The minted key does not have the form of a bk1 key.", "Ask the issuer for a new key."),
        ("BRAINY_KEY_UNKNOWN_ISSUER", "The minted key names an issuer that this fleet does not know.", "Add the issuer's line to the issuers file, or use a key of a known issuer."),
        ("BRAINY_KEY_BAD_SIGNATURE", "The minted key's signature does not verify.", "Ask the issuer for a new key."),
        ("BRAINY_KEY_REVOKED", "The minted key was revoked.", "Ask the issuer for a new key."),
        ("BRAINY_KEY_EXPIRED", "The minted key has expired.", "Ask the issuer for a new key."),
        grpc="UNAUTHENTICATED",
    ),
    *_rows(
        403, "caller", "no",
        ("ForbiddenError", "The credential does not allow this call.", "Use a credential whose brains and scope cover it."),
        ("BRAINY_KEY_SCOPE", "The minted key's scope does not allow this door.", "Ask the issuer for a key with the scope that the message names."),
        ("BRAINY_KEY_BRAIN", "The minted key does not reach this brain.", "Ask the issuer for a key for this brain."),
        ("PolicyOwnerScopeRequiredError", "A ruling door needs the owner scope.", "Use a minted key with the scope read, write, owner."),
        ("PolicyOwnerCredentialUnavailableError", "This transport carries no owner credential.", "Call the ruling door over HTTP with an owner key."),
        ("OriginNotAllowedError", "The Origin header names a site that may not call this fleet.", "Start the fleet with `--origin <scheme://host:port>`."),
    ),
    *_rows(
        404, "caller", "no",
        ("DoorNotFoundError", "No door has this name or path.", "Look the door up in /contract.json."),
        ("BrainNotFoundError", "The fleet serves no brain of this name.", "Start it with `--brain name=path`, or use a name that health lists."),
        ("StoreNotFoundError", "The folder holds no store.", "Create one: brainy init PATH."),
        ("EntityNotFoundError", "The brain has no entity of this id.", "Look for it with `find`, or add it."),
        ("RelationNotFoundError", "The brain has no relation of this id.", "List the relations of a node with `related`."),
        ("AggregateNotFoundError", "No aggregate of this name is defined.", "Define it with `defineAggregate`."),
        ("SnapshotNotFoundError", "There is no snapshot of this name.", "Name one that `snapshot` made."),
    ),
    *_rows(405, "caller", "no", ("MethodNotAllowedError", "The path exists and does not take this method.", "Use one of the methods of the Allow header.")),
    *_rows(
        409, "caller", "no",
        ("EntityExistsError", "The id is taken.", "Use `update`, another id, or `ifAbsent: true`."),
        ("RevisionConflictError", "The record changed since the revision that the caller saw.", "Read it again and repeat with the new `_rev`."),
        ("GenerationConflictError", "The brain moved on from the generation that the caller expected.", "Read again and repeat with the new generation."),
        ("AssertionFailedError", "An assertion of a transaction does not hold.", "Read again, then repeat with operations that fit what is there."),
        ("IdempotencyKeyReusedError", "The idempotency key was used for another call.", "Use a new key for a new call."),
        ("EngineOwnedRecordError", "The record belongs to the file tree and changes only through its own doors.", "Use the vfs door that the message names."),
        ("ProfileOwnedRecordError", "The record belongs to a profile and changes only through its own doors.", "Use the profile's doors."),
        ("UndoConflictError", "A later change stands in the way of the undo.", "Undo the generation that the message names first."),
        ("SnapshotTargetNotEmptyError", "The snapshot's target exists and is not empty.", "Choose another name."),
    ),
    *_rows(
        409, "world", "no",
        ("StoreNotAttachableError", "The folder holds a store that cannot be opened; the reason is in details.", "Do what the message says for this reason; nothing was changed."),
        ("BRAINY_WRITER_LOCKED", "Another process holds the writer lease of the brain.", "Write through the holder that details name, or stop it."),
        ("BrainNotOpenForWritingError", "This fleet serves the brain read-only.", "Start the fleet with `--writer auto`, or write through the lease holder."),
        ("WriterLeaseUnreadableError", "The lease file cannot be read, or a newer version wrote it.", "Open with `force: true` once no other process writes to this brain."),
        ("WriterFencedError", "Another process took the writer lease by force.", "Write through the new holder; open again here later."),
        ("StorageReadOnlyError", "The file system is mounted read-only.", "Mount it writable."),
    ),
    *_rows(410, "caller", "no", ("GenerationNotRetainedError", "The generation is older than the history that is kept.", "Use the oldest kept generation that details name, or a newer one.")),
    *_rows(
        400, "caller", "no",
        ("GenerationInFutureError", "The generation or instant lies ahead of the brain's head.", "Use a generation up to the one that `now` answers."),
    ),
    *_rows(
        413, "caller", "no",
        ("BodyTooLargeError", "The body is larger than one call may carry.", "Split the call; see the limits in /contract.json."),
        grpc="RESOURCE_EXHAUSTED",
    ),
    *_rows(
        413, "caller", "no",
        ("BatchTooLargeError", "The batch has more items than one call may carry.", "Split the batch; see the limits in /contract.json."),
        ("TransactTooLargeError", "The transaction has more operations than one call may carry.", "Split the transaction; see the limits in /contract.json."),
    ),
    *_rows(415, "caller", "no", ("UnsupportedMediaTypeError", "The body's media type is not served here.", "Send application/json or application/msgpack.")),
    *_rows(416, "caller", "no", ("RangeNotSatisfiableError", "The range lies outside the file.", "Ask for bytes below `details.size`; `vfs.stat` says how many there are.")),
    *_rows(421, "caller", "no", ("HostNotAllowedError", "The Host header names a host that this fleet does not serve.", "Use the address that the fleet printed, or start it with `--host <name>`.")),
    *_rows(422, "caller", "no", ("AnswerTooLargeError", "The answer would be larger than one call may carry.", "Lower `limit`, narrow the filter, or stream it over HTTP.")),
    *_rows(
        429, "caller", "after",
        ("TooManyAttemptsError", "Too many wrong credentials came from this source.", "Wait as long as Retry-After says, then use a valid key."),
        grpc="UNAUTHENTICATED",
    ),
    *_rows(
        429, "caller", "after",
        ("RateLimitedError", "The principal called more often than its limit allows.", "Wait as long as Retry-After says."),
        ("TooManyInFlightError", "The key has as many calls in flight as it may have.", "Wait for earlier calls to end."),
    ),
    *_rows(
        499, "caller", "no",
        ("CallCancelledError", "The caller cancelled the call.", "Call again if the answer is wanted; a write may have been made."),
    ),
    *_rows(
        500, "world", "no",
        ("RecordCorruptError", "A stored record is damaged; it was not served.", "Run `scrub`, then restore the record from a snapshot."),
        ("BlobCorruptError", "A stored file's bytes do not match their hash; they were not served.", "Write the file again, or restore it from a snapshot."),
    ),
    *_rows(500, "server", "after", ("InternalError", "The server failed in a way that is a bug.", "Report it with the time of the call; the server's log has the cause.")),
    *_rows(
        501, "server", "no",
        ("NotYetNativeError", "The door or option is declared and not built yet; details name its release.", "Wait for the release that details name."),
        ("InProcessOnlyError", "The door takes objects of the host program and works only inside it.", "Use `diagnostics` to see what is configured."),
    ),
    *_rows(
        503, "server", "after",
        ("EngineUnavailableError", "The engine is not reachable at the moment.", "Repeat the call after a moment."),
        ("OverloadedError", "The fleet has as much work as it may hold.", "Repeat the call as Retry-After says."),
        ("AdjacencyStaleError", "The graph index is behind the records.", "Repeat after the index has caught up, or open the brain for writing."),
    ),
    *_rows(
        503, "world", "no",
        ("EmbeddingModelUnavailableError", "No embedding model was found.", "Install the model files in a folder that the message lists, or set BRAINY_EMBED_MODEL_DIR."),
        ("SemanticLegUnavailableError", "Search by meaning cannot be served for this brain.", "Use `searchMode: \"text\"`, or make the index available as the message says."),
        ("GraphTraversalUnavailableError", "Graph traversal cannot be served for this brain.", "Open the brain for writing so that the graph index is built."),
        ("RerankerUnavailableError", "No model for reranking is available.", "Call again without `rerank`."),
        ("LanguageProviderMissingError", "No language provider is configured.", "Set BRAINY_LANGUAGE_PROVIDER and its key."),
        ("LanguageProviderAmbiguousError", "More than one language provider could be meant.", "Set BRAINY_LANGUAGE_PROVIDER to one of them."),
        ("LanguageProviderError", "The language provider failed.", "Repeat later; details carry its status."),
        ("OutboundRefusedError", "The outbound gate does not allow this host.", "Allow it with BRAINY_OUTBOUND."),
    ),
    *_rows(
        504, "server", "after",
        ("DeadlineExceededError", "The call did not end before its deadline.", "Repeat with a longer Brainy-Timeout-Ms or a narrower question."),
    ),
    *_rows(
        504, "server", "same",
        ("OutcomeUnknownError", "The write may or may not have been made.", "Repeat the same call with the idempotency key that details name."),
    ),
    *_rows(507, "world", "no", ("StorageFullError", "The disk is full.", "Free space, or remove records: removes still work.")),
]  # fmt: skip

CATALOGUE: Mapping[str, RefusalClass] = {entry.name: entry for entry in _ALL}
assert len(CATALOGUE) == len(_ALL), "a refusal is named twice"


class Refusal(Exception):
    """A call that ends without an answer, by a name of the catalogue.

    `message` says what is not possible and quotes the offending value; `cure` says what to do instead and falls back
    to the catalogue's. `details` is a JSON object for programs. `door` is filled by whoever knows it.
    """

    __slots__ = ("cure", "details", "door", "message", "name")

    def __init__(
        self,
        name: str,
        message: str,
        *,
        cure: str | None = None,
        door: str | None = None,
        details: Mapping[str, object] | None = None,
    ) -> None:
        assert name in CATALOGUE, f"{name} is not in the refusal catalogue"
        super().__init__(message)
        self.name = name
        self.message = message
        self.cure = cure if cure is not None else CATALOGUE[name].cure
        self.door = door
        self.details = None if details is None else dict(details)

    def __str__(self) -> str:
        """The form that a person reads: the name, the message, then the cure."""
        return f"{self.name}: {self.message} {self.cure}"

    @property
    def status(self) -> int:
        """The HTTP status of this refusal (RFC 9110 section 15)."""
        entry = CATALOGUE[self.name]
        code = (self.details or {}).get("code")
        return entry.status_by_code.get(code, entry.status) if isinstance(code, str) else entry.status

    def document(self) -> dict[str, object]:
        """The `error` object of the wire: name, message, door if known, cure, details if any."""
        found: dict[str, object] = {"name": self.name, "message": self.message}
        if self.door is not None:
            found["door"] = self.door
        found["cure"] = self.cure
        if self.details is not None:
            found["details"] = self.details
        return found
