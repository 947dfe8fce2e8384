"""Who may import whom, read from the syntax trees, and what a worker process may have in memory."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("contract", "ipc", "engine", "workers", "supervisor")
MAY_IMPORT = {
    "contract": {"contract"},
    "ipc": {"contract", "ipc"},
    "engine": {"contract", "engine"},
    "workers": {"contract", "ipc", "workers"},
    "supervisor": {"contract", "ipc", "engine", "supervisor"},
}
# One listener serves HTTP, WebSocket and MCP, so the http worker may use their sessions; no other imports a sibling.
SIBLINGS = {"http": {"http", "mcp", "ws"}, "mcp": {"mcp"}, "ws": {"ws"}, "grpc": {"grpc"}}
# A worker holds no key, no store and no numeric library.
ABSENT_IN_WORKERS = ("engine", "supervisor", "numpy", "onnxruntime", "apsw", "tokenizers", "nacl")


def modules() -> dict[str, Path]:
    """Every module of ours by its dotted name."""
    found = {}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            parts = list(path.relative_to(ROOT).with_suffix("").parts)
            if parts[-1] == "__init__":
                parts.pop()
            found[".".join(parts)] = path
    return found


def imports_of(path: Path, *, at_run_time_only: bool = False) -> set[str]:
    """Dotted names that a file imports, anywhere in it; `TYPE_CHECKING` blocks are left out when asked."""
    names: set[str] = set()

    def visit(node: ast.AST) -> None:
        if at_run_time_only and isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            for child in node.orelse:
                visit(child)
            return
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the edge"
            names.add(node.module or "")
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(path.read_text(encoding="utf-8")))
    return names


def test_packages_import_only_what_the_law_allows() -> None:
    wrong = []
    for name, path in modules().items():
        package = name.split(".")[0]
        for imported in imports_of(path):
            target = imported.split(".")[0]
            if target in PACKAGES and target not in MAY_IMPORT[package]:
                wrong.append(f"{name} imports {imported}")
    assert not wrong


def test_no_transport_imports_a_sibling() -> None:
    wrong = []
    for name, path in modules().items():
        parts = name.split(".")
        if parts[0] != "workers" or len(parts) < 2 or parts[1] not in SIBLINGS:
            continue
        for imported in imports_of(path):
            target = imported.split(".")
            if (
                target[0] == "workers"
                and len(target) > 1
                and target[1] in SIBLINGS
                and target[1] not in SIBLINGS[parts[1]]
            ):
                wrong.append(f"{name} imports {imported}")
    assert not wrong


def test_there_is_no_import_cycle() -> None:
    """Depth-first over the run-time edges between our modules; a cycle is printed as its path."""
    known = modules()
    edges = {}
    for name, path in known.items():
        targets = {t for t in imports_of(path, at_run_time_only=True) if t in known}
        edges[name] = {t for t in targets if not name.startswith(f"{t}.") and t != name}
    state: dict[str, int] = {}
    trail: list[str] = []

    def visit(name: str) -> None:
        state[name] = 1
        trail.append(name)
        for target in sorted(edges[name]):
            assert state.get(target) != 1, " -> ".join([*trail[trail.index(target) :], target])
            if target not in state:
                visit(target)
        trail.pop()
        state[name] = 2

    for name in sorted(edges):
        if name not in state:
            visit(name)


def worker_kinds() -> list[str]:
    return sorted(p.parent.name for p in (ROOT / "workers").glob("*/__main__.py"))


@pytest.mark.parametrize("kind", worker_kinds())
def test_a_worker_holds_no_store_and_no_numeric_library(kind: str) -> None:
    loaded = "set(m.split('.')[0] for m in sys.modules)"
    code = f"import sys, workers.{kind}.__main__; print(sorted({loaded} & set({ABSENT_IN_WORKERS!r})))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
