"""The ranking behind door_find: words of a task against names, titles, teaching lines and summaries. Deterministic."""

import re
from collections.abc import Mapping
from typing import Any

from contract.reading import doors_of, full_name, tool_name

Json = dict[str, Any]

# A word's weight by where it stands.
# A door that is not built yet helps less than one that answers.
_LATER_FACTOR = 0.4
_NAME_WEIGHT, _TITLE_WEIGHT, _TEACHING_WEIGHT, _SUMMARY_WEIGHT = 4.0, 3.0, 2.0, 1.5
_COMMON_WORDS = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "by",
        "do",
        "for",
        "from",
        "how",
        "i",
        "in",
        "is",
        "it",
        "me",
        "my",
        "of",
        "on",
        "one",
        "or",
        "that",
        "the",
        "this",
        "to",
        "use",
        "what",
        "when",
        "which",
        "with",
    ]
)


def _words(text: str) -> list[str]:
    split = re.sub(r"(?<=[a-z0-9])([A-Z])", r" \1", text).lower()
    return [_stem(word) for word in re.findall(r"[a-z0-9]+", split) if word not in _COMMON_WORDS]


def _stem(word: str) -> str:
    for ending in ("ing", "ies", "es", "ed", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)] + ("y" if ending == "ies" else "")
    return word


def door_find(contract: Json, task: str, limit: int = 5) -> Json:
    """The doors that fit `task` best, as `{doors: [{tool, name, summary, teaching, score}]}`; ties in contract order.

    A word counts for each field it stands in, the more the fewer doors have it; built doors win over later ones.
    """
    doors = doors_of(contract)
    fields = [_weighted_words(door) for door in doors]
    # "How many" asks for a count, not for a door whose name has "many".
    asked = list(dict.fromkeys(_words(re.sub(r"how (many|much)", "count", task[:1000].lower()))))
    having = {word: sum(word in weights for weights in fields) for word in asked}
    scored = []
    for place, (door, weights) in enumerate(zip(doors, fields, strict=True)):
        score = sum(weights.get(word, 0.0) / having[word] ** 0.5 for word in asked if having[word])
        score *= 1.0 if door["disposition"] == "native" else _LATER_FACTOR
        if score > 0:
            scored.append((-score, place, door))
    rows = [
        {
            "tool": tool_name(door),
            "name": full_name(door),
            "summary": door["summary"],
            "teaching": door["teaching"],
            "score": round(-score, 4),
        }
        for score, _, door in sorted(scored, key=lambda row: row[:2])[:limit]
    ]
    return {"doors": rows}


def _weighted_words(door: Json) -> Mapping[str, float]:
    weights: dict[str, float] = {}
    places = (
        (full_name(door), _NAME_WEIGHT),
        (door["title"], _TITLE_WEIGHT),
        (door["teaching"], _TEACHING_WEIGHT),
        (door["summary"], _SUMMARY_WEIGHT),
    )
    for text, weight in places:
        for word in set(_words(text)):
            weights[word] = weights.get(word, 0.0) + weight
    return weights
