"""`brainy audit`: shows the audit log of key events and refused attempts."""

from __future__ import annotations

import json
import os
from collections import deque
from pathlib import Path
from typing import Any

import click

from supervisor.exits import Exit, StartRefusal


@click.command(name="audit")
@click.option("--limit", default=100, show_default=True, type=click.IntRange(1, 1_000_000), help="The last so many.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, as the log has it.")
def command(limit: int, as_json: bool) -> None:
    """Print time, event, principal and source of key events and refused attempts, the newest last."""
    from supervisor.audit import AuditFile
    from supervisor.config import audit_path

    log = AuditFile(audit_path(os.environ, Path.home()))
    try:
        events = deque(log.read(), maxlen=limit)
    except OSError as error:
        raise StartRefusal(
            "AuditLogUnreadableError",
            f"{log.path} cannot be read ({error.strerror or 'there is none yet'}).",
            "A server writes it at its first key event or refused attempt.",
            Exit.KEYS_UNUSABLE,
        ) from error
    for event in events:
        click.echo(json.dumps(event) if as_json else line_of(event))


COLUMNS = ("at", "event", "principal", "source")


def line_of(event: dict[str, Any]) -> str:
    """Time, event, principal, source, then what else is known."""
    head = [str(event.get(name, "-")) for name in COLUMNS]
    rest = [f"{name}={value}" for name, value in event.items() if name not in COLUMNS]
    return "  ".join([*head, *rest])
