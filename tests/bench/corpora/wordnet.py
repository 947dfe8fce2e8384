"""WordNet 3.0 as import lines: synsets as entities with their glosses, pointers as relations.

The data files come from Debian's `wordnet-base`. Output is JSON Lines that `brainy import` takes: one `{"e": entity}` a
synset (117,659 of them), then one `{"r": relation}` a pointer between synsets (285,348).

    python -m tests.bench.corpora.wordnet --out wordnet.jsonl [--limit 2000]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path("/usr/share/wordnet")
FILES = ("noun", "verb", "adj", "adv")
TYPE_OF_FILE = {"noun": "concept", "verb": "process", "adj": "quality", "adv": "quality"}
# Pointer symbols of the wninput(5) and wndb(5) manual pages -> (relation type, subtype).
POINTERS = {
    "!": ("opposes", "antonym"),
    "@": ("subclassOf", "hypernym"),
    "@i": ("instanceOf", "instance-hypernym"),
    "~": ("categorizes", "hyponym"),
    "~i": ("categorizes", "instance-hyponym"),
    "#m": ("memberOf", "member-holonym"),
    "#s": ("partOf", "substance-holonym"),
    "#p": ("partOf", "part-holonym"),
    "%m": ("composedOf", "member-meronym"),
    "%s": ("composedOf", "substance-meronym"),
    "%p": ("composedOf", "part-meronym"),
    "=": ("hasQuality", "attribute"),
    "+": ("relatedTo", "derivation"),
    ";c": ("relatedTo", "topic"),
    "-c": ("relatedTo", "topic-member"),
    ";r": ("relatedTo", "region"),
    "-r": ("relatedTo", "region-member"),
    ";u": ("relatedTo", "usage"),
    "-u": ("relatedTo", "usage-member"),
    "*": ("requires", "entailment"),
    ">": ("causes", "cause"),
    "^": ("relatedTo", "also-see"),
    "$": ("relatedTo", "verb-group"),
    "&": ("approximatelyEquals", "similar-to"),
    "<": ("relatedTo", "participle"),
    "\\": ("relatedTo", "pertainym"),
}


@dataclass(frozen=True)
class Synset:
    """One synset: id (`wn:<part>:<offset>`), words, definition, examples, pointers (symbol, target id)."""

    id: str
    part: str
    words: tuple[str, ...]
    definition: str
    examples: tuple[str, ...]
    pointers: tuple[tuple[str, str], ...]


def part_letter(letter: str) -> str:
    """Satellite adjectives (`s`) live in the adjective file, so their ids say `a`."""
    return "a" if letter == "s" else letter


def parse(line: str) -> Synset:
    """One line of a `data.*` file, as wndb(5) lays it out: words are counted in hexadecimal, pointers in decimal."""
    fields, _, gloss = line.partition(" | ")
    tokens = fields.split()
    offset, part = tokens[0], part_letter(tokens[2])
    count = int(tokens[3], 16)
    words = tuple(tokens[4 + 2 * i].split("(")[0].replace("_", " ") for i in range(count))
    at = 4 + 2 * count
    pointers = []
    for index in range(int(tokens[at])):
        symbol, target, target_part, words_joined = tokens[at + 1 + 4 * index : at + 5 + 4 * index]
        if words_joined == "0000":  # between synsets; the others join single words of two synsets
            pointers.append((symbol, f"wn:{part_letter(target_part)}:{target}"))
    pieces = [piece.strip() for piece in gloss.strip().split("; ")]
    examples = tuple(p.strip('"') for p in pieces if p.startswith('"'))
    definition = "; ".join(p for p in pieces if not p.startswith('"'))
    return Synset(f"wn:{part}:{offset}", part, words, definition, examples, tuple(pointers))


def synsets(folder: Path = FOLDER, limit: int | None = None) -> Iterator[Synset]:
    """Every synset of the four files in file order, or the first `limit` of each file."""
    for name in FILES:
        with (folder / f"data.{name}").open(encoding="utf-8") as lines:
            taken = 0
            for line in lines:
                if line.startswith("  "):
                    continue  # the licence at the head of each file
                yield parse(line)
                taken += 1
                if limit is not None and taken >= limit:
                    break


def lines(folder: Path = FOLDER, limit: int | None = None) -> Iterator[str]:
    """The import lines: all entities first, then the relations whose two ends were taken."""
    kinds = dict(zip("nvar", FILES, strict=True))
    taken = list(synsets(folder, limit))
    known = {synset.id for synset in taken}
    for synset in taken:
        kind = kinds[synset.part]
        entity = {
            "id": synset.id,
            "type": TYPE_OF_FILE[kind],
            "subtype": kind,
            "data": f"{', '.join(synset.words)}: {synset.definition}",
            "metadata": {"words": list(synset.words), "examples": list(synset.examples), "senses": len(synset.words)},
        }
        yield json.dumps({"e": entity}, ensure_ascii=False)
    seen: set[tuple[str, str, str]] = set()
    for synset in taken:
        for symbol, target in synset.pointers:
            kind, subtype = POINTERS[symbol]
            edge = (synset.id, target, subtype)
            if target in known and edge not in seen:
                seen.add(edge)
                relation = {"from": synset.id, "to": target, "type": kind, "subtype": subtype}
                yield json.dumps({"r": relation}, ensure_ascii=False)


def main() -> None:
    """Writes the lines to `--out`, or to standard output."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument(
        "--limit", type=int, help="synsets taken from each of the four files; all of them when left out"
    )
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if not (options.folder / "data.noun").exists():
        sys.exit(f"{options.folder} holds no WordNet data. Install it with: apt-get install wordnet-base")
    out = options.out.open("w", encoding="utf-8") if options.out else sys.stdout
    with out:
        for line in lines(options.folder, options.limit):
            out.write(line + "\n")


if __name__ == "__main__":
    main()
