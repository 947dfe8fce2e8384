"""The one way anything here says something: an `Observation`, and who listens to it.

Nothing else in the supervisor prints. An observation names an event (a noun with dots) and its fields; the log is one
subscriber among others. A narration is an observation meant for the person at the terminal: it carries a whole line.
Values never hold a secret: callers pass principals, paths and counts.
"""

from __future__ import annotations

import enum
import json
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

FIELD_CHARS_MAX = 512
"""A longer value is cut in the log: one hostile name must not fill a disk line by line."""


class Level(enum.IntEnum):
    """How much an observation matters to an operator."""

    DEBUG = 10
    INFO = 20
    WARN = 30
    ERROR = 40


@dataclass(frozen=True, slots=True)
class Observation:
    """Something that happened. `line`, when set, is the sentence for a person at the terminal."""

    event: str
    level: Level = Level.INFO
    at_ms: int = 0
    fields: Mapping[str, object] = field(default_factory=dict)
    line: str | None = None


Subscriber = Callable[[Observation], None]


class Observer:
    """Hands observations to its subscribers, in order, on the caller's thread."""

    def __init__(self, now_ms: Callable[[], int] = lambda: 0) -> None:
        self._now_ms = now_ms
        self._subscribers: list[Subscriber] = []

    def subscribe(self, subscriber: Subscriber) -> None:
        """Adds a listener; it must not raise and must not block for long."""
        self._subscribers.append(subscriber)

    def observe(self, event: str, level: Level = Level.INFO, **fields: object) -> None:
        """Reports an event with its fields."""
        self._send(Observation(event, level, self._now_ms(), fields))

    def narrate(self, event: str, line: str, level: Level = Level.INFO, **fields: object) -> None:
        """Reports an event that the person who started the program should read as `line`."""
        self._send(Observation(event, level, self._now_ms(), fields, line))

    def _send(self, observation: Observation) -> None:
        for subscriber in self._subscribers:
            subscriber(observation)


@contextmanager
def surviving(observer: Observer, what: str) -> Iterator[None]:
    """Lets upkeep go on after a failed round: it is reported, with its place, and serving does not end by it."""
    try:
        yield
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        at = f"{place.filename}:{place.lineno}"
        observer.observe(f"{what}.failed", Level.ERROR, error=type(error).__name__, reason=error, at=at)


def clean(text: str) -> str:
    """The text on one line: control characters, line separators and lone surrogates as escapes, cut to the bound."""
    cut = text if len(text) <= FIELD_CHARS_MAX else text[:FIELD_CHARS_MAX] + "..."
    if cut.isprintable():
        return cut
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode("ascii", "replace") for c in cut
    )


def as_text(observation: Observation) -> str:
    """One log line: the narration itself, else `level event key=value ...`."""
    if observation.line is not None:
        return clean_long(observation.line)
    pairs = [f"{key}={_quoted(value)}" for key, value in observation.fields.items() if value is not None]
    return " ".join([observation.level.name.lower(), observation.event, *pairs])


def as_json(observation: Observation) -> str:
    """One log line as a JSON object; control characters are escaped by JSON itself."""
    document: dict[str, object] = {
        "at": observation.at_ms,
        "level": observation.level.name.lower(),
        "event": observation.event,
    }
    for key, value in observation.fields.items():
        document[key] = value if isinstance(value, (bool, int, float, type(None))) else clean(str(value))
    if observation.line is not None:
        document["message"] = observation.line
    return json.dumps(document)


def clean_long(line: str) -> str:
    """A narrated line without the length bound of a field; control characters are escaped all the same."""
    return "".join(clean(line[start : start + FIELD_CHARS_MAX]) for start in range(0, len(line), FIELD_CHARS_MAX))


def _quoted(value: object) -> str:
    text = clean(str(value))
    return f'"{text}"' if " " in text or "=" in text or '"' in text or not text else text


class ErrLog:
    """Writes observations to standard error, at `level` and above. A closed standard error is not our failure."""

    def __init__(self, form: str = "text", level: Level = Level.INFO) -> None:
        self._render = as_json if form == "json" else as_text
        self._level = level

    def __call__(self, observation: Observation) -> None:
        """Writes one line. The line `ready http://...` is bare in every form: programs wait for it."""
        if observation.level < self._level:
            return
        line = as_text(observation) if observation.event == "ready" else self._render(observation)
        try:
            sys.stderr.write(line + "\n")
            sys.stderr.flush()
        except (OSError, ValueError):
            return
