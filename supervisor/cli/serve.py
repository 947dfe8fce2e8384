"""`brainy serve`: the fleet, from the command line."""

from __future__ import annotations

import os
from pathlib import Path

import click

from supervisor import config as c


@click.command(name="serve")
@click.option(
    "--listen",
    "listens",
    multiple=True,
    metavar="HOST:PORT[,PROTOCOL]",
    help=f"Where to listen; {c.DEFAULT_LISTEN} without it. Repeatable.",
)
@click.option(
    "--brain",
    "brains",
    multiple=True,
    metavar="NAME=PATH",
    help="A brain to serve; ./brain as `brain` without it. Repeatable.",
)
@click.option(
    "--writer",
    type=click.Choice(["auto", "explicit"]),
    default="auto",
    show_default=True,
    help="Whether a first write claims a free lease, or only the open door does.",
)
@click.option(
    "--workers", "workers", multiple=True, metavar="KIND=COUNT", help="Worker processes of a kind (http). Repeatable."
)
@click.option(
    "--cleartext",
    multiple=True,
    metavar="HOST:PORT",
    help="A public address that may be served without TLS. Repeatable.",
)
@click.option(
    "--snapshots",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Where snapshots go, a folder for each brain; next to each store without it.",
)
@click.option(
    "--revoked",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The revoked list; brainy-serve-revoked (or revoked.json) beside the issuers file without it.",
)
@click.option(
    "--trusted-proxy",
    "proxies",
    multiple=True,
    metavar="CIDR",
    help="A proxy whose X-Forwarded-For names the caller, for counting wrong keys. Repeatable.",
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="A name by which callers may address it beside localhost and its own addresses, as a proxy passes it on. "
    "Repeatable.",
)
@click.option(
    "--origin",
    "origins",
    multiple=True,
    metavar="URL",
    help="A web origin whose pages may call, such as https://app.example.org. Repeatable.",
)
@click.option(
    "--limit",
    "limits",
    multiple=True,
    metavar="PRINCIPALS:calls=N,bytes=N",
    help="Calls and bytes a second for each principal that the glob matches; unlimited without it. Repeatable.",
)
@click.pass_context
def command(
    ctx: click.Context,
    listens: tuple[str, ...],
    brains: tuple[str, ...],
    writer: str,
    workers: tuple[str, ...],
    cleartext: tuple[str, ...],
    snapshots: Path | None,
    revoked: Path | None,
    proxies: tuple[str, ...],
    hosts: tuple[str, ...],
    origins: tuple[str, ...],
    limits: tuple[str, ...],
) -> None:
    """Serve brains over HTTP and MCP until SIGTERM. Prints `ready http://HOST:PORT` on standard error once it
    answers."""
    from supervisor.launch import launch

    ctx.exit(
        launch(
            lambda: configure(
                listens, brains, writer, workers, cleartext, snapshots, revoked, proxies, limits, hosts, origins
            )
        )
    )


def configure(
    listens: tuple[str, ...],
    brains: tuple[str, ...],
    writer: str,
    workers: tuple[str, ...],
    cleartext: tuple[str, ...],
    snapshots: Path | None = None,
    revoked: Path | None = None,
    proxies: tuple[str, ...] = (),
    limits: tuple[str, ...] = (),
    hosts: tuple[str, ...] = (),
    origins: tuple[str, ...] = (),
) -> c.Config:
    """The configuration of these options and the environment; StartRefusal for what cannot be served."""
    from supervisor.stores import check_store

    named = c.parse_brains(brains)
    if not named:
        check_store(c.LONE_BRAIN, "Create one: brainy init, or name one: --brain NAME=PATH", look_inside=True)
        named = {"brain": c.LONE_BRAIN}
    for name, path in named.items():
        check_store(path, f"Create it: brainy init {path}, or correct --brain {name}=PATH")
    c.check_apart(named)
    return c.from_environment(
        os.environ,
        Path.home(),
        brains=named,
        listens=[c.parse_listen(text) for text in listens or (c.DEFAULT_LISTEN,)],
        origin=c.Origin.SERVE,
        writer=c.WriterMode(writer),
        http_workers=worker_count(workers),
        cleartext=cleartext,
        snapshots=snapshots,
        revoked=revoked,
        trusted_proxies=c.parse_proxies(proxies),
        hosts=c.parse_hosts(hosts),
        web_origins=c.parse_origins(origins),
        rates=c.parse_rates(limits),
    )


WORKERS_MAX = 64


def worker_count(texts: tuple[str, ...]) -> int:
    """The number of http workers that `--workers http=N` asks for; 1 by default."""
    count = 1
    for text in texts:
        kind, _, number = text.partition("=")
        if kind != "http" or not number.isdecimal() or not 1 <= int(number) <= WORKERS_MAX:
            raise c.usage(
                "WorkersError", f"--workers {text!r} is not http=1 to http={WORKERS_MAX}.", "Example: --workers http=2"
            )
        count = int(number)
    return count
