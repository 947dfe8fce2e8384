"""Where and when a read happens: a connection inside a transaction, and the generation it is pinned at."""

from typing import Any, Final

import apsw
import msgspec

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
        found: tuple[Any, ...] | None = self.connection.execute(sql, parameters).fetchone()
        return found

    def rows(self, sql: str, parameters: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """All rows of a statement, whose number the caller has bounded."""
        return self.connection.execute(sql, parameters).fetchall()
