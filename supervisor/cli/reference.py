"""`python -m supervisor.cli.reference`: docs/reference/cli.md from the commands; a test holds it up to date."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator

import click

from supervisor.cli.root import COMMANDS, cli
from supervisor.exits import Exit
from supervisor.stdio import USAGE

WIDTH = 100
HEAD = """# Command line

Written by `python -m supervisor.cli.reference`; do not edit by hand.

Settings come from the command line and from these variables: `BRAINY_KEY` (the key of `call`, `import`, `mcp`),
`BRAINY_URL` (a fleet's address), `BRAINY_CONFIG_DIR` (the folder of the next three), `BRAINY_SERVE_KEYS` (the keys
file), `BRAINY_SERVE_ISSUERS` (the issuers file), `BRAINY_SERVE_AUDIT` (the audit log), `BRAINY_RUNTIME_DIR` (where the
socket is), `BRAINY_POOL_BUDGET_BYTES` (memory of open brains), `BRAINY_EMBED_MODEL_DIR` (the embedding model),
`BRAINY_MCP_LINGER_S` (how long a supervisor stays that `brainy mcp` started), `BRAINY_LOG` (`text` or `json`).
"""


def commands() -> Iterator[tuple[str, str]]:
    """Every command with its help, the groups' own commands under them; doors are listed by `brainy call` itself."""
    names = cli.context_settings["help_option_names"]
    root = click.Context(
        cli, info_name="brainy", terminal_width=WIDTH, max_content_width=WIDTH, help_option_names=names
    )
    yield "brainy", cli.get_help(root)
    for name in COMMANDS:
        if name == "mcp":
            yield "brainy mcp", USAGE
            continue
        command = cli.get_command(root, name)
        assert command is not None, f"{name} is in the table and has no command"
        inner = click.Context(command, info_name=name, parent=root, terminal_width=WIDTH, max_content_width=WIDTH)
        if name == "call":
            yield (
                "brainy call",
                f"{command.help}\n\nUsage: brainy call DOOR --brain NAME [--body JSON] [--PARAMETER VALUE]...",
            )
            continue
        yield f"brainy {name}", command.get_help(inner)
        if isinstance(command, click.Group):
            for sub in command.list_commands(inner):
                found = command.get_command(inner, sub)
                assert found is not None, f"{name} lists {sub} and does not have it"
                context = click.Context(
                    found, info_name=sub, parent=inner, terminal_width=WIDTH, max_content_width=WIDTH
                )
                yield f"brainy {name} {sub}", found.get_help(context)


def exits() -> Iterator[str]:
    """The exit codes, as their declarations explain them."""
    lines = inspect.getsource(Exit).splitlines()
    for code in Exit:
        at = next(n for n, line in enumerate(lines) if line.strip().startswith(f"{code.name} ="))
        text = " ".join(lines[at + 1 :]).split('"""')[1] if at + 1 < len(lines) and '"""' in lines[at + 1] else "Done."
        yield f"| {code.value} | {' '.join(text.split())} |"


def document() -> str:
    """The whole page."""
    parts = [HEAD]
    parts += [f"## {title}\n\n```text\n{text.strip()}\n```\n" for title, text in commands()]
    parts.append("## Exit codes\n\n| code | meaning |\n|---|---|\n" + "\n".join(exits()) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.stdout.write(document())
