"""Who is let in: throttle, identity, rights, and the record of who was not. The shell around `credentials`, `guessing`
and `dispatch`; the only place of the supervisor that asks for an identity.

A source is looked up before its credential is (the throttle comes before identity), a call of this machine's own
command line has none. What streams asks `still_allowed` again and again; that counts no guess and writes no record.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container
from typing import Any

from contract.refusals import Refusal
from engine.clock import Clock
from supervisor import dispatch
from supervisor.audit import Audit
from supervisor.credentials import Denied, Tables, Verifier
from supervisor.guessing import Guesses, locked_out, source_of
from supervisor.keys import OWNER, Identity
from supervisor.observe import Level, Observer


class Doorkeeper:
    """Lets calls in against the tables in force. `brains` are the names served."""

    def __init__(
        self,
        *,
        tables: Callable[[], Tables],
        brains: Container[str],
        clock: Clock,
        observer: Observer,
        audit: Audit,
    ) -> None:
        self.tables = tables
        self.verifier = Verifier(lambda: self.tables(), clock.now_ms)
        self.guesses = Guesses()
        self.audit = audit
        self._brains = brains
        self._clock = clock
        self._observer = observer

    def identify(self, credential: str | None, peer: str | None, *, local: bool) -> Identity:
        """Who asks; raises the refusal when nobody we know does. A credential that was given is judged even on the
        local socket; only its absence makes the owner there."""
        if credential is None and local:
            return OWNER
        if not credential or local or peer is None:
            return self._judged(credential, None, b"")
        source, proof = source_of(peer), hashlib.sha256(credential.encode("utf-8", "surrogatepass")).digest()
        wait = self.guesses.wait_s(source, proof, self._clock.monotonic())
        if wait > 0:
            refusal = locked_out(wait)
            self._refused(refusal, None, source)
            raise refusal
        identity = self._judged(credential, source, proof)
        self.guesses.right(source, proof)
        return identity

    def _judged(self, credential: str | None, source: str | None, proof: bytes) -> Identity:
        found = self.verifier.identify(credential)
        if isinstance(found, Identity):
            return found
        if credential:
            self._refused(found.refusal, found.principal, source)
        if found.guess and source is not None:
            locked = self.guesses.wrong(source, proof, self._clock.monotonic())
            if locked:
                self._observer.observe("source.locked", Level.WARN, source=source, seconds=round(locked))
                self.audit.record("source.locked", None, source, seconds=round(locked))
        raise found.refusal

    def admit(self, ask: dispatch.Ask) -> dispatch.Grant:
        """Identity and rights of one call; raises the first refusal in the fixed order."""
        identity = self.identify(ask.credential, ask.peer, local=ask.local)
        outcome = dispatch.authorise(ask, identity, self._brains)
        if isinstance(outcome, Refusal):
            if outcome.status == 403:
                source = None if ask.peer is None else source_of(ask.peer)
                self._refused(outcome, identity.principal, source, door=ask.door.full_name, brain=ask.brain)
            raise outcome
        return outcome

    def still_allowed(self, ask: dispatch.Ask) -> Refusal | None:
        """What an admitted call would be refused for now, or None: its key was removed, its token expired or was
        revoked. Streams ask it every few seconds and whenever a table changed. Cost: some 5 microseconds."""
        if ask.credential is None and ask.local:
            return None
        found = self.verifier.identify(ask.credential)
        if isinstance(found, Denied):
            return found.refusal
        outcome = dispatch.authorise(ask, found, self._brains)
        return outcome if isinstance(outcome, Refusal) else None

    def cut(self, ask: dispatch.Ask, refusal: Refusal, principal: str) -> None:
        """Records that a stream was ended because its credential no longer carries it."""
        source = None if ask.peer is None else source_of(ask.peer)
        self.audit.record("stream.cut", principal, source, reason=refusal.name, door=ask.door.full_name)

    def _refused(self, refusal: Refusal, principal: str | None, source: str | None, **more: object) -> None:
        self.audit.record("attempt.refused", principal, source, reason=refusal.name, **more)

    def figures(self) -> dict[str, Any]:
        """For health: what is loaded and who is locked out. No principal and no source is named."""
        tables = self.tables()
        return {
            "keys": {"count": len(tables.keys.by_digest)},
            "issuers": {"count": tables.issuers.count},
            "revoked": {"count": len(tables.revoked.expires)},
            "guesses": self.guesses.figures(self._clock.monotonic()),
        }
