"""`brainy explain`: a find that is run, and its plan as a tree: filter, legs, order, counts and times."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import click

from contract.check import check_params
from contract.doors import DOORS
from contract.refusals import Refusal
from supervisor.cli.call import door_command, refused
from supervisor.exits import Exit

FIND = DOORS["find"]


@dataclass(slots=True)
class Branch:
    """A line of the tree, and the lines under it."""

    text: str
    under: list[Branch] = field(default_factory=list)


def explain(brain: str, document: dict[str, Any], url: str | None, timeout_ms: int) -> Exit:
    """Runs the find and prints its plan; a refusal goes to standard error with exit REFUSED."""
    import trio

    from supervisor.cli.reach import Outcome, reach

    asked = {**document, "explain": True}

    async def main() -> Outcome:
        async with reach(url, brain) as remote:
            return await remote.call(FIND, brain, asked, timeout_ms)

    try:
        check_params(FIND, asked)
        outcome = trio.run(main)
    except Refusal as refusal:
        refusal.door = FIND.full_name
        return refused(refusal.document())
    if outcome.refusal is not None:
        return refused(outcome.refusal)
    assert outcome.answer is not None, "an outcome is an answer or a refusal"
    show(tree_of(outcome.answer))
    return Exit.OK


def tree_of(answer: dict[str, Any]) -> Branch:
    """The plan of an explained find as a tree."""
    plan, cost, meta = answer["plan"], answer["cost"], answer.get("_meta", {})
    times = [f"{name} {meta[key]:g} ms" for key, name in TIMES.items() if key in meta]
    return Branch(
        f"find at generation {answer['generation']}",
        [
            Branch(f"filter: {plan['candidates']} rows", [Branch(_clause(one)) for one in plan["clauses"]]),
            Branch(f"legs: {plan['matches']} matches", [Branch(_leg(one)) for one in plan["legs"]]),
            Branch(f"order: {_order(plan['order'])}"),
            Branch(f"answer: {len(answer['rows'])} rows, {cost['segments']} segments"),
            *([Branch(f"time: {', '.join(times)}")] if times else []),
            *_warnings([*plan["warnings"], *answer.get("warnings", ())]),
        ],
    )


TIMES = {"ms": "call", "engineMs": "engine", "queueMs": "queue"}


def _clause(clause: dict[str, Any]) -> str:
    head = f"{clause['field']} {clause['operator']}: {clause['estimate']} rows, {clause['path']}"
    return f"{head} ({clause['note'].rstrip('.')})"


def _leg(leg: dict[str, Any]) -> str:
    if not leg["served"]:
        return f"{leg['leg']}: not served ({leg.get('reason', 'no reason given')})"
    parts = [f"{leg[key]} {word}" for key, word in (("found", "found"), ("pending", "pending")) if key in leg]
    space = leg.get("space")
    if space:
        parts.append(f"{space['vectors']} vectors of {space['dimensions']} numbers")
    return f"{leg['leg']}: {', '.join(parts) or 'served'}"


def _order(order: dict[str, Any]) -> str:
    return " ".join(str(order[key]) for key in ("path", "field", "direction") if order.get(key) is not None)


def _warnings(told: list[str]) -> Iterator[Branch]:
    if told:
        yield Branch("warnings", [Branch(one) for one in dict.fromkeys(told)])


def show(tree: Branch) -> None:
    """Prints the tree: drawn on a terminal, indented by two spaces a level where it is read by a program."""
    if not sys.stdout.isatty():
        for line in plain(tree):
            click.echo(line)
        return
    from rich.console import Console
    from rich.text import Text
    from rich.tree import Tree

    def grown(branch: Branch, onto: Tree) -> Tree:
        for one in branch.under:
            grown(one, onto.add(Text(one.text)))
        return onto

    Console().print(grown(tree, Tree(Text(tree.text, style="bold"))))


def plain(tree: Branch, depth: int = 0) -> Iterator[str]:
    """The lines of a tree without drawing."""
    yield "  " * depth + tree.text
    for one in tree.under:
        yield from plain(one, depth + 1)


command = door_command(
    FIND,
    explain,
    name="explain",
    text="Run a find and print the plan that ran as a tree, with counts and times. Takes find's parameters.",
    without={"explain"},
)
