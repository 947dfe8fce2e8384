"""The rules of a brain for what is written: which types need a subtype, which subtypes and field values they take.

A rule judges what a write brings: a new record whole, a change only where it moves the type, the subtype or a tracked
field. What was stored before the rule stays readable and changeable; `schema.audit` counts it. Rows of the file tree
carry labels of their own and are never judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from contract.refusals import Refusal
from contract.vocabulary import nearest
from engine.aggregates.keys import value_identity
from engine.filter import MISSING, field_value
from engine.rows.guards import VFS_PREFIX
from engine.sqlite.definitions import SUBTYPE_RULE, TRACKED_FIELD

if TYPE_CHECKING:
    from engine.transaction import Transaction

EVERY_TYPE = "*"
"""The name of the brain-wide rule; no type is called so."""

# A refusal lists this many allowed values, and says how many there are.
_SHOWN_MAX = 50

Document = Mapping[str, Any]


def judge(txn: Transaction, new: Document, old: Document | None = None) -> None:
    """Holds a record that is about to be written, an entity or a relation, against the rules of its brain.

    `old` is what it was before a change. SubtypeRequiredError, SubtypeVocabularyError, FieldVocabularyError.
    """
    subtypes = txn.definitions(SUBTYPE_RULE)
    fields = {} if "from" in new else txn.definitions(TRACKED_FIELD)
    if (not subtypes and not fields) or str(new.get("subtype", "")).startswith(VFS_PREFIX):
        return
    if subtypes and (old is None or any(old.get(key) != new.get(key) for key in ("type", "subtype"))):
        _judge_subtype(subtypes, new["type"], new.get("subtype"))
    for name, rule in fields.items():
        if rule.get("values") is not None:
            _judge_field(name, rule["values"], new, old)


def _judge_subtype(rules: Mapping[str, Document], type_: str, subtype: str | None) -> None:
    rule = rules.get(type_)
    if rule is None:
        wide = rules.get(EVERY_TYPE)
        if wide is None or type_ in wide["except"]:
            return
        rule = wide
    values = rule.get("values")
    if subtype is None:
        if rule["required"]:
            allowed = "" if values is None else f" It takes {_listed(values)}."
            raise Refusal(
                "SubtypeRequiredError",
                f'subtype: a record of type "{type_}" needs one, and none was given.{allowed}',
                cure=("Give one of them" if values else "Give a `subtype`") + ", or relax `schema.requireSubtype`.",
                details={"type": type_, "path": "subtype", **_allowed(values)},
            )
    elif values is not None and subtype not in values:
        close = nearest(subtype, values)
        raise Refusal(
            "SubtypeVocabularyError",
            f'subtype: "{subtype}" is none of those of type "{type_}". It takes {_listed(values)}.',
            cure=f'Did you mean "{close[0]}"?' if close else "Use one of them, or change `schema.requireSubtype`.",
            details={"type": type_, "path": "subtype", "value": subtype, **_allowed(values)},
        )


def _judge_field(name: str, values: Sequence[Any], new: Document, old: Document | None) -> None:
    value = field_value(new, name)
    if value is MISSING or value is None or (isinstance(value, str) and value in values):
        return
    identity = value_identity(value)
    if old is not None:
        before = field_value(old, name)
        if before is not MISSING and value_identity(before) == identity:
            return
    if any(value_identity(each) == identity for each in values):
        return
    texts = [each for each in values if isinstance(each, str)]
    close = nearest(value, texts) if isinstance(value, str) else []
    raise Refusal(
        "FieldVocabularyError",
        f"metadata.{name}: {_shown(value)} is none of the values of this field. It takes {_listed(values)}.",
        cure=f'Did you mean "{close[0]}"?' if close else "Use one of them, or change them with `schema.trackField`.",
        details={"field": name, "path": f"metadata.{name}", "value": _cut(value), **_allowed(values)},
    )


def _allowed(values: Sequence[Any] | None) -> dict[str, Any]:
    if values is None:
        return {}
    return {"allowed": [_cut(value) for value in values[:_SHOWN_MAX]], "allowedCount": len(values)}


def _listed(values: Sequence[Any]) -> str:
    shown = ", ".join(_shown(value) for value in values[:10])
    return shown if len(values) <= 10 else f"{shown} and {len(values) - 10} more"


def _shown(value: object) -> str:
    text = f'"{value}"' if isinstance(value, str) else repr(value)
    return text if len(text) <= 200 else text[:200] + "…"


def _cut(value: object) -> object:
    small = value is None or isinstance(value, (bool, int, float)) or (isinstance(value, str) and len(value) <= 256)
    return value if small else _shown(value)
