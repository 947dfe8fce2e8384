"""The derived indexes of one open store: loaded at first use, told of every commit, thrown away when they fail."""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import apsw

from contract.refusals import Refusal
from engine.port import Applied, IndexPort
from engine.sqlite import log
from engine.sqlite.connect import ReaderPool
from engine.sqlite.scope import LIVE, Scope
from engine.sqlite.source import SnapshotSource, is_newer

SourceOf = Callable[[Scope], SnapshotSource]

INTERRUPT_EVERY_S: Final = 0.02
"""How often a load in the background is told to stop once the store closes: between two statements it is deaf."""


class IndexHolder:
    """Loading does not stop the writer: what is committed meanwhile waits in a backlog and is applied after."""

    def __init__(self, make: Callable[[], IndexPort], readers: ReaderPool, source_of: SourceOf) -> None:
        self._make = make
        self._readers = readers
        self._source_of = source_of
        self._index: IndexPort | None = None
        self._backlog: list[Applied] | None = None
        self._loading = threading.Lock()
        self._guard = threading.Lock()
        self._closing = False
        self._warming: threading.Thread | None = None
        self._warmed_on: apsw.Connection | None = None
        self.failure: Exception | None = None

    def view(self, generation: int) -> Any:  # noqa: ANN401 - what an index view can do is the index's own matter
        """The index at a published generation; loads it at the first use."""
        return self.loaded().view(generation)

    def loaded(self) -> Any:  # noqa: ANN401 - what an index can do is its own matter
        """The index itself; loads it at the first use."""
        index = self._index
        return self._load() if index is None else index

    def warm(self) -> None:
        """Load the index on a thread of its own, so that it keeps up with commits before anybody asks; `close` stops
        it. What the load ends in is kept in `failure`: the first use tries again and tells."""
        with self._guard:
            if self._closing or self._index is not None or self._warming is not None:
                return
            self._warming = threading.Thread(target=self._warm, name="index warm", daemon=True)
        self._warming.start()

    def _warm(self) -> None:
        try:
            self._load(interruptible=True)
        except (Refusal, apsw.Error, OSError, MemoryError) as error:
            self.failure = error

    def rebuild(self) -> None:
        """Forget the index with everything it has in memory, and stop its work; the next use loads it from truth."""
        with self._guard:
            index, self._index = self._index, None
        if index is not None:
            index.abandon()

    def _load(self, *, interruptible: bool = False) -> IndexPort:
        with self._loading:
            if self._index is not None:
                return self._index
            with self._guard:
                self._backlog = []  # from here on nothing is missed; what the snapshot holds too is dropped below
            try:
                return self._read(self._make(), interruptible)
            finally:
                with self._guard:
                    self._backlog = None

    def _read(self, index: IndexPort, interruptible: bool) -> IndexPort:
        connection = self._readers.take()
        try:
            if interruptible:
                self._warmed_on = connection
            connection.execute("BEGIN")
            scope = Scope(connection, LIVE, True)
            source = self._source_of(scope)
            assert source.generation == log.head(scope)
            index.load(source)
            connection.execute("COMMIT")
        except BaseException:
            self._warmed_on = None
            index.close()
            self._readers.give(connection, reusable=False)
            raise
        self._warmed_on = None
        self._readers.give(connection)
        with self._guard:
            for applied in self._backlog or []:
                if is_newer(applied, source.generation, source.marks):
                    index.apply(applied)
            self._index = index
        return index

    def apply(self, applied: Applied) -> None:
        """Tell the index of a durable commit. One that fails is thrown away; its next use loads it from truth."""
        with self._guard:
            if self._backlog is not None and self._index is None:
                self._backlog.append(applied)
            if self._index is None:
                return
            try:
                self._index.apply(applied)
            except Exception as error:  # the commit is durable: a crash of derived data must not become its outcome
                self.failure = error
                self._index = None

    def discard(self) -> None:
        """Forget the index: the next use loads it from truth. Views that are out keep theirs."""
        with self._guard:
            self._index = None

    def footprint_bytes(self) -> int:
        """Resident bytes held by the index; 0 while it is not loaded."""
        index = self._index
        return 0 if index is None else index.footprint_bytes()

    def close(self) -> None:
        """Stop the index's background work, a load that nobody waits for included."""
        with self._guard:
            self._closing = True
            warming = self._warming
        while warming is not None and warming.is_alive():
            connection = self._warmed_on
            if connection is not None:
                with suppress(apsw.ConnectionClosedError):
                    connection.interrupt()
            warming.join(INTERRUPT_EVERY_S)
        with self._guard:
            index, self._index = self._index, None
        if index is not None:
            index.close()
