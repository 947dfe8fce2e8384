"""Every bound of the product, with its unit and its reason. A loop, queue, cache, retry or wait without a line here is a bug."""

# ruff: noqa: E501 - tables read best with one entry a line

import msgspec


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """One bound: `value` counts `unit`s, `reason` says why it is not larger."""

    name: str
    value: int
    unit: str
    reason: str


_LIMITS: list[Limit] = []


def _limit(name: str, value: int, unit: str, reason: str) -> int:
    _LIMITS.append(Limit(name=name, value=value, unit=unit, reason=reason))
    return value


BODY_BYTES_MAX = _limit(
    "bodyBytes",
    16 * 1024 * 1024,
    "bytes",
    "One call is held in memory three times: in the worker, on the link and in the supervisor.",
)
ANSWER_BYTES_MAX = _limit(
    "answerBytes", 16 * 1024 * 1024, "bytes", "The same memory, the other way; larger answers are streamed."
)
ADMIT_BODY_BYTES_MAX = _limit(
    "admitBodyBytes",
    64 * 1024,
    "bytes",
    "A larger body is read only after its credential was admitted, so that strangers cannot fill memory.",
)
DOCUMENT_CONTAINERS_MAX = _limit(
    "documentContainers", 1_000_000, "objects and lists", "An empty object costs 64 bytes of memory and two of a body."
)
NESTING_DEPTH_MAX = _limit(
    "nestingDepth", 64, "levels", "Documents are walked recursively; nobody nests deeper on purpose."
)
BATCH_ITEMS_MAX = _limit(
    "batchItems", 1000, "items", "A batch is one commit and holds the writer for its whole length."
)
IMPORT_ROWS_MAX = _limit(
    "importRows", 20_000, "rows", "One import call is one commit; the command line splits a larger file."
)
TRANSACT_OPS_MAX = _limit(
    "transactOps", 1000, "operations", "A transaction is one commit and holds the writer for its whole length."
)
REMOVE_MATCHES_MAX = _limit(
    "removeMatches", 100_000, "entities", "A removal is one commit, and its answer names every entity."
)
UNDO_RECORDS_MAX = _limit(
    "undoRecords", 1_000_000, "record changes", "An undo is one commit, and is planned in memory before it writes."
)
BATCH_FAULTS_MAX = _limit("batchFaults", 20, "items", "A refused batch lists this many faulty items, then only counts.")
EMBED_BATCH_TEXTS_MAX = _limit(
    "embedBatchTexts", 1000, "texts", "The embedding lane serves everybody; a longer list is split by its caller."
)
EMBED_PASSAGES_MAX = _limit(
    "embedPassages", 1536, "passages", "A text of a million letters has 1,100; each costs the model some 80 ms."
)
ID_BYTES_MAX = _limit("idBytes", 512, "bytes of UTF-8", "An id is a key of several indexes.")
BRAIN_NAME_CHARS_MAX = _limit("brainNameChars", 64, "characters", "A brain's name is a path segment of every URL.")
SUBTYPE_CHARS_MAX = _limit("subtypeChars", 256, "characters", "A label, not a text.")
SERVICE_CHARS_MAX = _limit("serviceChars", 256, "characters", "A label, not a text.")
NAME_CHARS_MAX = _limit("nameChars", 128, "characters", "Names of aggregates, fields and snapshots are labels.")
IDEMPOTENCY_KEY_CHARS_MAX = _limit(
    "idempotencyKeyChars", 256, "characters", "A key is kept for seven days with every write."
)
IDEMPOTENCY_KEEP_S = _limit(
    "idempotencyKeep", 7 * 24 * 3600, "seconds", "Longer than any sane retry; every key costs a row."
)
QUERY_CHARS_MAX = _limit(
    "queryChars", 10_000, "characters", "The model reads 256 word pieces, the text index a few hundred terms."
)
TEXT_CHARS_MAX = _limit("textChars", 1_000_000, "characters", "A longer text is a file: write it with vfs.writeFile.")
METADATA_KEY_CHARS_MAX = _limit("metadataKeyChars", 512, "characters", "A key is a column name of the field index.")
VECTOR_WIDTH_MAX = _limit("vectorWidth", 4096, "numbers", "Wider than every embedding model in use.")
VFS_PATH_BYTES_MAX = _limit(
    "vfsPathBytes", 4096, "bytes of UTF-8", "PATH_MAX of Linux, which callers already live with."
)
VFS_SEGMENT_BYTES_MAX = _limit(
    "vfsSegmentBytes", 255, "bytes of UTF-8", "NAME_MAX of Linux, so that every file can be exported to a disk."
)
VFS_INLINE_BYTES_MAX = _limit(
    "vfsInlineBytes", 1024 * 1024, "bytes", "A larger file is listed by vfs.readdir without its content."
)
VFS_TREE_DEPTH_MAX = _limit(
    "vfsTreeDepth", 30, "levels", "Each level nests an object in a list, and documents nest 64 levels at most."
)
VFS_SUBTREE_NODES_MAX = _limit(
    "vfsSubtreeNodes", 100_000, "files and folders", "Moving, copying or removing a folder is one commit."
)
VFS_APPEND_BYTES_MAX = _limit(
    "vfsAppendBytes", 64 * 1024 * 1024, "bytes", "An append writes the whole file anew under its new hash."
)
AGGREGATES_MAX = _limit("aggregates", 256, "definitions", "Every write is measured by every definition of its brain.")
AGGREGATE_GROUP_FIELDS_MAX = _limit(
    "aggregateGroupFields", 16, "fields", "A group key is an index entry; more columns than a report has."
)
AGGREGATE_METRICS_MAX = _limit(
    "aggregateMetrics", 64, "metrics", "Each may cost a table look-up on every write of its group."
)
AGGREGATE_RECOMPUTE_ENTRIES_MAX = _limit(
    "aggregateRecompute", 1_000_000, "groups and values", "A past or unfinished aggregate is in memory, 200 bytes each."
)
TRACKED_FIELDS_MAX = _limit("trackedFields", 64, "fields", "Every write counts every tracked field of its brain.")
VOCABULARY_VALUES_MAX = _limit(
    "vocabularyValues", 1000, "values", "A vocabulary is read on every write; more values are data, not a rule."
)
MIGRATE_ERRORS_MAX = _limit("migrateErrors", 100, "records", "A migration lists this many errors, then only counts.")
FIND_LIMIT_MAX = _limit("findLimit", 10_000, "rows", "A page, not an export; 10,000 rows of 1.5 KB fill one answer.")
FIND_OFFSET_MAX = _limit(
    "findOffset", 1_000_000, "rows", "Every skipped row is still ranked; deeper reading is `page`."
)
RELATED_LIMIT_MAX = _limit("relatedLimit", 10_000, "relations", "A page, not an export.")
TRAVERSE_DEPTH_MAX = _limit("traverseDepth", 8, "hops", "Eight hops of a small-world graph reach nearly everything.")
TRAVERSE_LIMIT_MAX = _limit("traverseLimit", 10_000, "nodes", "A page, not an export.")
GRAPH_EDGES_MAX = _limit(
    "graphEdges", 1_000_000, "relations", "What one walk may follow: a few seconds of one thread, and some 100 MB."
)
HISTORY_LIMIT_MAX = _limit("historyLimit", 1000, "revisions", "A page of one record's past.")
CHANGES_LIMIT_MAX = _limit("changesLimit", 1000, "generations", "A page of the log; a follower reads on from `next`.")
CHANGES_ROWS_MAX = _limit(
    "changesRows", 20_000, "record changes", "A page of the log ends before this many; the largest import is one."
)
DIFF_RECORDS_MAX = _limit(
    "diffRecords",
    100_000,
    "records",
    "Each is read twice and its id stands in the answer; a longer span is read in parts.",
)
COUNTS_PAST_ROWS_MAX = _limit(
    "countsPast", 1_000_000, "record changes", "Past counts are today's, taken back change by change: some seconds."
)
FILTER_DEPTH_MAX = _limit("filterDepth", 16, "levels", "A filter is evaluated recursively for every candidate.")
FILTER_TESTS_MAX = _limit("filterTests", 256, "tests", "Every test is asked of every candidate.")
FILTER_LIST_ITEMS_MAX = _limit(
    "filterListItems", 10_000, "items", "The operand of oneOf and its kin is turned into a set once."
)
FIELD_PATH_CHARS_MAX = _limit("fieldPathChars", 512, "characters", "A dotted path names a column.")
PATTERN_BYTES_MAX = _limit("patternBytes", 1024, "bytes of UTF-8", "A compiled pattern is far larger than its text.")
QUOTED_VALUE_BYTES_MAX = _limit(
    "quotedValueBytes", 1024, "bytes", "A refusal quotes what was wrong, not the whole body."
)
IN_FLIGHT_PER_KEY_MAX = _limit("inFlightPerKey", 128, "calls", "One key cannot take the whole fleet.")
STREAMS_PER_KEY_MAX = _limit("streamsPerKey", 64, "streams", "One key cannot take the whole fleet.")
CALL_TIMEOUT_MS_DEFAULT = _limit("callTimeoutDefault", 30_000, "ms", "Longer than every door needs on a healthy store.")
CALL_TIMEOUT_MS_MAX = _limit("callTimeout", 300_000, "ms", "Proxies and agents cut longer calls anyway.")
EMBED_WAIT_MS = _limit("embedWait", 2000, "ms", "A write waits this long for its vector, then commits without it.")
READ_CHUNK_ROWS_MAX = _limit(
    "readChunkRows", 256, "rows", "A scan asks for cancellation and deadline at least this often."
)
GROUP_COMMIT_JOBS_MAX = _limit(
    "groupCommitJobs", 256, "writes", "More writes behind one sync gain nothing and delay the first."
)
GROUP_COMMIT_BYTES_MAX = _limit(
    "groupCommitBytes", 4 * 1024 * 1024, "bytes", "A commit's log is written before the first answer leaves."
)
GUESSES_PER_SOURCE_MAX = _limit(
    "guessesPerSource", 5, "wrong credentials", "A person mistypes a key less often than this."
)
TOKEN_BYTES_MAX = _limit("tokenBytes", 4096, "bytes", "Four times the largest minted key.")
DOOR_FIND_LIMIT_MAX = _limit("doorFindLimit", 20, "doors", "An agent asks for a few doors, not for the catalogue.")
LINK_HEADER_BYTES_MAX = _limit(
    "linkHeader", 1024 * 1024, "bytes", "The longest header is a Welcome that names some thousand brains."
)
LINK_BODY_BYTES_MAX = _limit(
    "linkBody", 64 * 1024 * 1024, "bytes", "A JSON body of short decimals grows fourfold as MessagePack floats."
)
LINK_CREDIT_CALLS = _limit(
    "linkCreditCalls", 512, "calls", "What one worker may have in flight; more would only wait in the supervisor."
)
LINK_CREDIT_BYTES = _limit(
    "linkCreditBytes", 64 * 1024 * 1024, "bytes", "Bodies in flight from one worker are memory of the supervisor."
)
LINK_HWM_MESSAGES = _limit(
    "linkHighWaterMark", 128, "messages", "ZeroMQ's own queue a peer and direction; no exact bound, ours are."
)
LINK_PEER_QUEUE_BYTES_MAX = _limit(
    "linkPeerQueue", 64 * 1024 * 1024, "bytes", "Answers that wait for a worker that does not read; then it is dropped."
)
LINK_PEERS_MAX = _limit("linkPeers", 256, "workers", "More workers than any machine has cores for.")
LINK_PUMP_MESSAGES_MAX = _limit(
    "linkPump", 256, "messages", "One turn of a socket's pump; then everybody else on the loop gets a turn."
)
LINK_BEAT_INTERVAL_S = _limit("linkBeat", 2, "seconds", "A third of the silence that ends a connection.")
LINK_SILENCE_S = _limit("linkSilence", 6, "seconds", "Three lost beats: the peer hangs or is gone.")
LINK_CONNECT_MS_MAX = _limit("linkConnect", 1000, "ms", "A live supervisor on this machine answers in a few ms.")
LINK_DEADLINE_GRACE_MS = _limit(
    "linkDeadlineGrace", 100, "ms", "The supervisor's own word on a deadline is exact, so it gets time to arrive."
)
LINK_BYE_WAIT_MS_MAX = _limit("linkBye", 500, "ms", "Time for the last answers to be read before the socket closes.")
LINK_OVERLOAD_RETRY_MS = _limit("linkOverloadRetry", 50, "ms", "About the time in which a full link empties.")
LINK_DRAIN_RETRY_MS = _limit("linkDrainRetry", 1000, "ms", "About the time in which a successor starts.")
LINK_PART_BYTES_MAX = _limit(
    "linkPart",
    64 * 1024,
    "bytes",
    "A part of a stream is one message; other calls of the link wait behind at most one.",
)
LINK_PART_OVERHEAD_BYTES = _limit(
    "linkPartOverhead", 64, "bytes", "What a part costs beside its bytes, so that many tiny parts fill a window too."
)
LINK_STREAM_WINDOW_BYTES = _limit(
    "linkStreamWindow", 256 * 1024, "bytes", "What a stream may have under way; four parts keep a local link busy."
)
LINK_STREAMS_PER_PEER = _limit(
    "linkStreams", 64, "streams", "Beside the calls of one worker; their windows together are 16 MiB each way."
)
LINK_STREAM_STALL_S = _limit(
    "linkStreamStall", 60, "seconds", "A reader that takes nothing for so long has gone or hangs; it resumes later."
)
FILE_BYTES_MAX = _limit(
    "fileBytes", 1024 * 1024 * 1024, "bytes", "A file is one blob, checked whole when it is first read: two seconds."
)
UPLOAD_BYTES_MAX = _limit(
    "uploadBytes", 1025 * 1024 * 1024, "bytes", "A streamed body: the largest file and its parameters."
)
SOCKET_PATH_BYTES_MAX = _limit("socketPath", 107, "bytes", "sun_path of Linux, less its terminating NUL.")
SOCKET_SWEEP_ENTRIES_MAX = _limit(
    "socketSweep", 1024, "entries", "Stale sockets are looked for among this many names of the runtime folder."
)

LIMITS: tuple[Limit, ...] = tuple(_LIMITS)
