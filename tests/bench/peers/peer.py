"""What every side of a race gives: a running server, the bytes of each question, and the ids in an answer."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tests.bench.client import Connection
from tests.bench.peers.environment import QUIET
from tests.bench.peers.work import Document, Question

HOST = Path(__file__).with_name("host.py")


@dataclass
class Prepared:
    """One row's requests, in the order of its questions, with the effort that the peer was asked for, if it has one."""

    requests: list[bytes]
    setup: list[bytes] = field(default_factory=list)
    """Sent first on every connection, unmeasured."""


class Peer(Protocol):
    """One side. Everything it answers goes over a socket and is read by the same thin client."""

    name: str
    has_effort: bool
    """Whether the caller decides how hard a search looks; otherwise the peer does."""

    def connect(self) -> Connection:
        """A new kept-alive connection."""
        ...

    def ingest(self, documents: Sequence[Document], batch: int) -> None:
        """Writes every document durably in batches, and returns when every index answers."""
        ...

    def settle(self) -> None:
        """Waits for what the peer does behind the calls after an ingest."""
        ...

    def stop(self) -> None:
        """Ends the server."""
        ...

    def ask(self, questions: Sequence[Question], effort: int) -> Prepared:
        """The requests for questions, with the search effort to use where there is such a thing."""
        ...

    def writes(self, documents: Sequence[Document]) -> Prepared:
        """The requests that add one document each, synced before they are acknowledged."""
        ...

    def ids(self, body: bytes) -> list[str]:
        """The ids in an answer, best first."""
        ...


class Hosted:
    """A peer's server process that lives until its standard input is closed."""

    def __init__(self, python: Path, kind: str, folder: Path) -> None:
        self.process = subprocess.Popen(
            [str(python), str(HOST), kind, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **QUIET},
            text=True,
        )
        assert self.process.stdout is not None
        self.socket_path = self.process.stdout.readline().strip()
        assert self.socket_path, f"{kind} did not start"

    def stop(self) -> None:
        """Closes its standard input and waits for it to leave."""
        self.process.communicate(timeout=60)
