"""What the program was told: command line and environment to one frozen `Config`, or a StartRefusal. Nearly pure.

The environment is passed in. The only file system question asked here is where the user's folders are.
"""

from __future__ import annotations

import enum
import ipaddress
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from supervisor.exits import Exit, StartRefusal
from supervisor.ratelimits import Rate, parse_rate

DEFAULT_LISTEN = "127.0.0.1:8300"
LONE_BRAIN = Path("brain")
"""A folder of this name in the working directory is served as `brain` when no --brain is given."""
BRAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
PROTOCOLS = {"http": "http", "h2": "http"}
LATER_PROTOCOLS = {"h3": "0.4.0", "grpc": "0.4.0", "ws": "0.4.0", "mcp": "0.4.0"}
LINGER_S_DEFAULT = 60.0

_HOST = r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)"
_HOST_NAME = re.compile(_HOST)
_WEB_ORIGIN = re.compile(rf"https?://{_HOST}(?::[0-9]{{1,5}})?", re.IGNORECASE)


class WriterMode(enum.Enum):
    """AUTO: the first write claims a free lease (X-35). EXPLICIT: only the `init` door does."""

    AUTO = "auto"
    EXPLICIT = "explicit"


class Origin(enum.Enum):
    """Who started this supervisor: it decides what may be printed and who yields to whom."""

    STARTER = "starter"
    SERVE = "serve"
    STDIO = "stdio"


@dataclass(frozen=True, slots=True)
class Listen:
    """One listener as asked for; port 0 lets the system choose."""

    host: str
    port: int
    protocol: str = "http"

    @property
    def address(self) -> str:
        """`host:port` with the brackets of an IPv6 address."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Config:
    """Everything a supervisor needs to start."""

    brains: Mapping[str, Path]
    listens: tuple[Listen, ...]
    keys_path: Path
    origin: Origin = Origin.SERVE
    writer: WriterMode = WriterMode.AUTO
    workers: Mapping[str, int] = field(default_factory=lambda: {"http": 1})
    budget_override_bytes: int | None = None
    linger_s: float = LINGER_S_DEFAULT
    log_form: str = "text"
    cleartext: tuple[str, ...] = ()
    snapshots: Path | None = None
    issuers_path: Path | None = None
    revoked_paths: tuple[Path, ...] = ()
    audit_path: Path | None = None
    trusted_proxies: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    web_origins: tuple[str, ...] = ()
    rates: tuple[Rate, ...] = ()


def usage(name: str, message: str, cure: str) -> StartRefusal:
    """A setting that cannot be used."""
    return StartRefusal(name, message, cure, Exit.CONFIG)


def config_folder(environ: Mapping[str, str], home: Path) -> Path:
    """The folder of keys, issuers and the revoked list."""
    named = environ.get("BRAINY_CONFIG_DIR")
    return Path(named) if named else home / ".config" / "soulcraft"


def keys_path(environ: Mapping[str, str], home: Path) -> Path:
    """Where the keys file is: `$BRAINY_SERVE_KEYS`, else `brainy-serve-keys` in the configuration folder."""
    named = environ.get("BRAINY_SERVE_KEYS")
    return Path(named) if named else config_folder(environ, home) / "brainy-serve-keys"


def issuers_path(environ: Mapping[str, str], home: Path) -> Path:
    """Where the issuers file is: `$BRAINY_SERVE_ISSUERS`, else `brainy-serve-issuers` in the configuration folder."""
    named = environ.get("BRAINY_SERVE_ISSUERS")
    return Path(named) if named else config_folder(environ, home) / "brainy-serve-issuers"


def revoked_paths(named: Path | None, issuers: Path) -> tuple[Path, ...]:
    """Where the revoked list may be: the named file, else `brainy-serve-revoked` or `revoked.json` beside the issuers
    file (X-17)."""
    return (named,) if named is not None else (issuers.parent / "brainy-serve-revoked", issuers.parent / "revoked.json")


def audit_path(environ: Mapping[str, str], home: Path) -> Path:
    """Where the audit log is: `$BRAINY_SERVE_AUDIT`, else `brainy-serve-audit` in the configuration folder."""
    named = environ.get("BRAINY_SERVE_AUDIT")
    return Path(named) if named else config_folder(environ, home) / "brainy-serve-audit"


def parse_proxies(texts: Sequence[str]) -> tuple[str, ...]:
    """Every --trusted-proxy: an address or a network in CIDR form."""
    for text in texts:
        try:
            ipaddress.ip_network(text)
        except ValueError as error:
            raise usage(
                "TrustedProxyError",
                f"--trusted-proxy {text!r} is not an address or a network ({error}).",
                "Example: --trusted-proxy 10.0.0.0/8",
            ) from error
    return tuple(texts)


def parse_hosts(texts: Sequence[str]) -> tuple[str, ...]:
    """Every --host: a name or address as a Host header spells it, without the port, for any port is taken."""
    for text in texts:
        if _HOST_NAME.fullmatch(text) is None:
            raise usage(
                "HostNameError",
                f"--host {text[:200]!r} is not a host name or address without a port.",
                "Example: --host brainy.example.org, or --host '[2001:db8::1]'",
            )
    return tuple(texts)


def parse_origins(texts: Sequence[str]) -> tuple[str, ...]:
    """Every --origin: scheme, host and, where it is not the scheme's own, port."""
    for text in texts:
        if _WEB_ORIGIN.fullmatch(text) is None:
            raise usage(
                "OriginError",
                f"--origin {text[:200]!r} is not a web origin.",
                "Example: --origin https://app.example.org, or --origin http://localhost:5173",
            )
    return tuple(texts)


def parse_rates(texts: Sequence[str]) -> tuple[Rate, ...]:
    """Every --limit, in the order given: the first that matches a principal counts."""
    rates = []
    for text in texts:
        try:
            rates.append(parse_rate(text))
        except ValueError as error:
            raise usage("LimitError", f"--limit {error}.", "Example: --limit '*:calls=50,bytes=10000000'") from error
    return tuple(rates)


def parse_listen(text: str) -> Listen:
    """`HOST:PORT[,protocol]`; the host may be an IPv6 address in brackets. Port 0 is allowed."""
    where, _, protocol = text.partition(",")
    protocol = protocol or "http"
    if protocol in LATER_PROTOCOLS:
        raise usage(
            "ListenerNotYetNativeError",
            f"a listener of its own for {protocol!r} is served from release {LATER_PROTOCOLS[protocol]} on.",
            "Use --listen HOST:PORT: HTTP/1.1, h2 and MCP share that port.",
        )
    host, colon, port = where.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if (
        protocol not in PROTOCOLS
        or not colon
        or not bare
        or (":" in bare and bare == host)
        or not port.isdecimal()
        or int(port) > 65_535
    ):
        raise usage(
            "ListenAddressError", f"--listen {text!r} is not HOST:PORT[,http|h2].", "Example: --listen 127.0.0.1:8300."
        )
    return Listen(bare, int(port), PROTOCOLS[protocol])


class Exposure(enum.Enum):
    """How far a cleartext listener reaches."""

    LOOPBACK = "loopback"
    PRIVATE = "private"
    PUBLIC = "public"


def exposure(host: str) -> Exposure:
    """Loopback, private (RFC 1918, link-local, ULA) or public; a wildcard and a name that is not local are public."""
    if host in ("localhost", "localhost."):
        return Exposure.LOOPBACK
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return Exposure.PUBLIC
    if address.is_loopback:
        return Exposure.LOOPBACK
    if address.is_unspecified:
        return Exposure.PUBLIC
    return Exposure.PRIVATE if address.is_private or address.is_link_local else Exposure.PUBLIC


def check_cleartext(listens: Sequence[Listen], named: Sequence[str]) -> list[str]:
    """One line to narrate for every private address served in cleartext; a public one refuses unless it was named."""
    lines = []
    for listen in listens:
        reach = exposure(listen.host)
        if reach is Exposure.PRIVATE or (reach is Exposure.PUBLIC and listen.address in named):
            lines.append(f"cleartext on {listen.address}: keys and data cross that network unencrypted")
        elif reach is Exposure.PUBLIC:
            raise usage(
                "CleartextRefusedError",
                f"{listen.address} is reachable from other networks and would carry keys unencrypted.",
                f"Listen on 127.0.0.1 behind a TLS proxy, or say that you mean it: --cleartext {listen.address}",
            )
    return lines


def parse_brain(text: str) -> tuple[str, Path]:
    """`NAME=PATH`."""
    name, equals, path = text.partition("=")
    if not equals or not path or not BRAIN_NAME.match(name):
        raise usage(
            "BrainNameError",
            f"--brain {text!r} is not NAME=PATH with a name of 1 to 64 letters, digits, '.', '_' or '-'.",
            "Example: --brain notes=./notes",
        )
    return name, Path(path)


def parse_brains(texts: Sequence[str]) -> dict[str, Path]:
    """Every --brain; a name given twice refuses."""
    brains: dict[str, Path] = {}
    for text in texts:
        name, path = parse_brain(text)
        if name in brains:
            raise usage("BrainNameError", f"--brain {name} is given twice.", "Give each brain a name of its own.")
        brains[name] = path
    return brains


def check_apart(brains: Mapping[str, Path]) -> None:
    """Refuses two names for one folder: a store is open once in a process, by one name."""
    seen: dict[str, str] = {}
    for name, path in brains.items():
        real = os.path.realpath(path)
        if real in seen:
            raise usage(
                "BrainPathError",
                f"--brain {name} and --brain {seen[real]} are the same folder, {real}.",
                "Serve a store by one name.",
            )
        seen[real] = name


def positive_number(environ: Mapping[str, str], name: str, *, zero: bool = False) -> float | None:
    """A number of the environment, None when unset; anything else refuses by the variable's name."""
    text = environ.get(name)
    if text is None or text == "":
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not (value > 0 or (zero and value == 0)) or value == float("inf"):
        raise usage(
            "EnvironmentValueError",
            f"{name}={text!r} is not a positive number.",
            f"Set {name} to a number, or unset it.",
        )
    return value


def from_environment(
    environ: Mapping[str, str],
    home: Path,
    *,
    brains: Mapping[str, Path],
    listens: Sequence[Listen],
    origin: Origin,
    writer: WriterMode = WriterMode.AUTO,
    http_workers: int = 1,
    cleartext: Sequence[str] = (),
    snapshots: Path | None = None,
    revoked: Path | None = None,
    trusted_proxies: Sequence[str] = (),
    hosts: Sequence[str] = (),
    web_origins: Sequence[str] = (),
    rates: Sequence[Rate] = (),
) -> Config:
    """The whole configuration; the environment adds what the command line does not say."""
    override = positive_number(environ, "BRAINY_POOL_BUDGET_BYTES")
    linger = positive_number(environ, "BRAINY_MCP_LINGER_S", zero=True)
    form = environ.get("BRAINY_LOG", "text")
    if form not in ("text", "json"):
        raise usage("EnvironmentValueError", f"BRAINY_LOG={form!r} is not text or json.", "Set it to one of them.")
    return Config(
        brains=brains,
        listens=tuple(listens),
        keys_path=keys_path(environ, home),
        origin=origin,
        writer=writer,
        workers={"http": http_workers} if listens else {},
        budget_override_bytes=None if override is None else max(1, int(override)),
        linger_s=LINGER_S_DEFAULT if linger is None else linger,
        log_form=form,
        cleartext=tuple(cleartext),
        snapshots=None if snapshots is None else snapshots.resolve(),
        issuers_path=issuers_path(environ, home),
        revoked_paths=revoked_paths(revoked, issuers_path(environ, home)),
        audit_path=audit_path(environ, home),
        trusted_proxies=tuple(trusted_proxies),
        hosts=tuple(hosts),
        web_origins=tuple(web_origins),
        rates=tuple(rates),
    )
