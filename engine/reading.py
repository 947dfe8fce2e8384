"""How a view comes and goes: one read transaction on one pooled connection."""

from types import TracebackType

import apsw

from engine.sqlite import log
from engine.sqlite.connect import ReaderPool, refusal_of_sqlite
from engine.sqlite.scope import LIVE, Scope
from engine.view import View, ViewContext, refuse_unkept


class OpenView:
    """A view to be used in a `with` statement: one read transaction on one pooled connection."""

    def __init__(self, pool: ReaderPool, context: ViewContext, generation: int) -> None:
        self._pool = pool
        self._context = context
        self._generation = generation
        self._connection: apsw.Connection | None = None

    def __enter__(self) -> View:
        try:
            connection = self._pool.take()
        except apsw.Error as error:
            raise refusal_of_sqlite(error, "read the store") from error
        try:
            connection.execute("BEGIN")
            head = log.head(Scope(connection, LIVE, True))
            scope = Scope(connection, self._generation, head == self._generation)
            if not scope.live:
                refuse_unkept(scope, self._generation)
        except BaseException as error:
            self._pool.give(connection, reusable=False)
            if isinstance(error, apsw.Error):
                raise refusal_of_sqlite(error, "read the store") from error
            raise
        self._connection = connection
        return View(scope, self._generation, self._context)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        connection, self._connection = self._connection, None
        assert connection is not None
        failed = isinstance(error, apsw.Error)
        try:
            if not failed:
                connection.execute("COMMIT")
        except apsw.Error:
            failed = True
        self._pool.give(connection, reusable=not failed)
        if isinstance(error, apsw.Error):
            raise refusal_of_sqlite(error, "read the store") from error
