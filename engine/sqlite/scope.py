"""Where and when a read happens: a connection inside a transaction, and the generation it is pinned at."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import apsw
import msgspec

from engine.sqlite.rows import corrupt

LIVE: Final = 1 << 61
"""The pin of a transaction: later than any generation, so its own rows are seen too."""


class Scope(msgspec.Struct, frozen=True, gc=False):
    """`live`: the transaction's snapshot is at generation `pin` itself, so current rows alone are the answer.

    Otherwise commits have landed since, and a read joins current rows (g0 <= pin) with closed ones (g0 <= pin < g1).
    """

    connection: apsw.Connection
    pin: int
    live: bool

    def row(self, sql: str, parameters: tuple[Any, ...] = ()) -> tuple[Any, ...] | None:
        """The first row of a statement."""
        try:
            found: tuple[Any, ...] | None = self.connection.execute(sql, parameters).fetchone()
        except UnicodeDecodeError as error:
            raise corrupt("row", parameters[0] if parameters else sql) from error
        return found

    def rows(self, sql: str, parameters: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """All rows of a statement, whose number the caller has bounded."""
        return list(self.each(sql, parameters))

    def each(self, sql: str, parameters: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        """The rows of a statement, one after the other."""
        try:
            yield from self.connection.execute(sql, parameters)
        except UnicodeDecodeError as error:
            raise corrupt("row", parameters[0] if parameters else sql) from error


def listed(keys: Sequence[int] | Sequence[str]) -> str:
    """A list of numbers or ids as `json_each` takes it."""
    return msgspec.json.encode(list(keys)).decode()
