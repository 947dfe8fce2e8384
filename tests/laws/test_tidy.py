"""Laws that keep the tree readable: sizes, banned calls, links in the documents, nothing of one machine."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("contract", "ipc", "engine", "workers", "supervisor", "deploy")
TOP = {
    *PACKAGES,
    *("docs", "tests", "requirements", "pyproject.toml", "README.md", "Makefile", "CHANGELOG.md", "LICENSE"),
    *("NOTICE", "CONTRIBUTING.md", ".ci", ".gitignore"),
}
MODULE_LINES_MAX = 700
FUNCTION_LINES_MAX = 75

# What may not be called, by whom it may, and what to use in its place.
BANNED = [
    (re.compile(r"\btime\.(time|time_ns)\("), {"engine/clock.py"}, "engine.clock is the only source of time"),
    (
        re.compile(r"\b(uuid\.uuid\d|random\.|secrets\.)\w*\("),
        {"engine/clock.py"},
        "engine.clock is the only source of ids and chance",
    ),
    (re.compile(r"\bdatetime\.(now|utcnow|today)\("), {"engine/clock.py"}, "engine.clock is the only source of time"),
]


def tracked() -> list[str]:
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def sources() -> list[Path]:
    return [ROOT / name for name in tracked() if name.endswith(".py") and name.split("/")[0] in PACKAGES]


def test_the_top_level_holds_only_what_it_is_meant_to() -> None:
    assert {name.split("/")[0] for name in tracked()} <= TOP


def test_modules_and_functions_stay_small() -> None:
    long = []
    for path in sources():
        text = path.read_text(encoding="utf-8")
        if text.count("\n") > MODULE_LINES_MAX:
            long.append(f"{path.relative_to(ROOT)}: {text.count(chr(10))} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lines = (node.end_lineno or 0) - node.lineno + 1
                if lines > FUNCTION_LINES_MAX:
                    long.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {lines} lines")
    assert not long


def test_banned_calls_name_their_replacement() -> None:
    wrong = []
    for path in sources():
        name = str(path.relative_to(ROOT))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for pattern, allowed, cure in BANNED:
                if pattern.search(line) and name not in allowed and not name.startswith("supervisor/"):
                    wrong.append(f"{name}:{number}: {cure}")
    assert not wrong


def test_every_module_says_what_it_is() -> None:
    bare = [
        str(p.relative_to(ROOT)) for p in sources() if not ast.get_docstring(ast.parse(p.read_text(encoding="utf-8")))
    ]
    assert not bare


def test_suppressions_name_their_rule_and_reason() -> None:
    wrong = []
    for path in sources():
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            bare = re.search(
                r"#\s*(noqa(?!: [A-Z]+\d+)|type: ignore(?!\[[a-z-]+(, ?[a-z-]+)*\])|pragma: no cover\s*$)", line
            )
            if bare:
                wrong.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert not wrong


def test_relative_links_in_the_documents_lead_somewhere() -> None:
    broken = []
    for name in tracked():
        if not name.endswith(".md"):
            continue
        text = (ROOT / name).read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
            if "://" in target or target.startswith("mailto:"):
                continue
            if not ((ROOT / name).parent / target).exists():
                broken.append(f"{name}: {target}")
    assert not broken


def test_nothing_names_the_machine_it_was_written_on() -> None:
    pattern = re.compile(r"/work/(main|shared)|/tmp/brainy/|/root/")
    found = []
    for name in tracked():
        path = ROOT / name
        if (
            path.suffix in {".py", ".md", ".toml", ".txt", ".in", ".json", ""}
            and path.is_file()
            and name != "tests/laws/test_tidy.py"
        ):
            text = path.read_text(encoding="utf-8", errors="replace")
            if path.stat().st_size < 1_000_000 and pattern.search(text):
                found.append(name)
    assert not found


def test_the_lock_covers_the_names_of_the_project() -> None:
    """Every dependency that pyproject.toml names is in the lock, and every entry of the lock has a hash."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lock = (ROOT / "requirements/run.txt").read_text(encoding="utf-8")
    locked = {m.lower() for m in re.findall(r"^([A-Za-z0-9._-]+)==", lock, re.MULTILINE)}
    named = {re.split(r"[><=]", d)[0].lower() for d in project["dependencies"]}
    assert named <= locked
    assert all("--hash=sha256:" in block for block in re.split(r"\n(?=[a-z])", lock) if "==" in block)
