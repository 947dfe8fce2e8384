"""The doors that rule what a brain accepts: schema.requireSubtype trackField audit migrateField fillSubtypes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contract.check import RESERVED_METADATA_KEYS
from contract.doors.schema import (
    AuditParams,
    FillSubtypesParams,
    MigrateFieldParams,
    RequireSubtypeParams,
    TrackFieldParams,
)
from contract.limits import TRACKED_FIELDS_MAX
from contract.refusals import Refusal
from contract.where import STANDARD_FIELDS
from engine.aggregates.definition import TRACKED_PREFIX
from engine.aggregates.keys import value_identity
from engine.aggregates.parsing import tracked_field
from engine.doors.registry import CallContext, Document, mechanics, reads, writes
from engine.rows.guards import VFS_PREFIX, refuse_vfs_subtype
from engine.rows.migrating import Filling, Renaming
from engine.rows.rules import EVERY_TYPE
from engine.rows.sweeping import swept
from engine.sqlite.definitions import SUBTYPE_RULE, TRACKED_FIELD

if TYPE_CHECKING:
    from engine.store import Store
    from engine.transaction import Transaction
    from engine.view import View


@writes("schema.requireSubtype")
def require_subtype(txn: Transaction, params: RequireSubtypeParams, call: CallContext) -> Document:
    """Sets the rule of one type, or of every type that has none of its own. What is stored already is not judged."""
    if params.type is None:
        if params.values is not None:
            raise _misplaced("values", "belongs to the rule of one type", "Name the `type` whose subtypes these are.")
        wide: Document = {"required": True, "except": sorted(set(params.except_ or ()))}
        changed = _kept(txn, EVERY_TYPE, wide if params.required else None)
    else:
        if params.except_ is not None:
            raise _misplaced("except", "belongs to the rule of every type", "Leave `type` out, or `except`.")
        rule: Document = {"required": params.required}
        if params.values is not None:
            for value in params.values:
                refuse_vfs_subtype(value, "Files have subtypes of their own, which no rule touches.")
            rule["values"] = list(dict.fromkeys(params.values))
        changed = _kept(txn, params.type, rule)
    return {} if changed else {"changed": False}


def _kept(txn: Transaction, name: str, rule: Document | None) -> bool:
    return (rule is not None or name in txn.definitions(SUBTYPE_RULE)) and txn.define(SUBTYPE_RULE, name, rule)


@writes("schema.trackField")
def track_field(txn: Transaction, params: TrackFieldParams, call: CallContext) -> Document:
    """Counts the values of a metadata field from now on, or no longer; `values` are the only ones accepted."""
    name, held = params.name, txn.definitions(TRACKED_FIELD)
    refuse_reserved("name", name)
    if not params.tracked:
        if name not in held:
            return {"changed": False}
        txn.define(TRACKED_FIELD, name, None)
        txn.drop_aggregate(TRACKED_PREFIX + name)
        return {}
    if name not in held and len(held) >= TRACKED_FIELDS_MAX:
        raise Refusal(
            "ValidationError",
            f"The brain tracks {TRACKED_FIELDS_MAX} fields, which is the bound.",
            cure="Stop tracking one with `tracked: false`.",
            details={"path": "name", "max": TRACKED_FIELDS_MAX},
        )
    rule: Document = {"perType": params.per_type}
    if params.values is not None:
        rule["values"] = list({value_identity(value): value for value in params.values}.values())
    if not txn.define(TRACKED_FIELD, name, rule):
        return {"changed": False}
    if name not in held:
        txn.keep_aggregate(tracked_field(name))
    return {}


@reads("schema.audit")
def audit(view: View, params: AuditParams, call: CallContext) -> Document:
    """The records without a subtype, from the running totals: no record is read. System rows are left out."""
    entities: dict[str, int] = {}
    relations: dict[str, int] = {}
    scanned = 0
    for row in view.counts():
        is_file = row.subtype is not None and row.subtype.startswith(VFS_PREFIX)
        if row.visibility == "system" or (is_file and not params.include_vfs):
            continue
        scanned += row.count
        if row.subtype is None:
            found = entities if row.kind == "entity" else relations
            found[row.type] = found.get(row.type, 0) + row.count
    total = sum(entities.values()) + sum(relations.values())
    return {
        "entitiesWithoutSubtype": dict(sorted(entities.items())),
        "relationshipsWithoutSubtype": dict(sorted(relations.items())),
        "total": total,
        "scanned": scanned,
        "recommendation": _recommendation(total, view.definitions(SUBTYPE_RULE)),
    }


def _recommendation(total: int, rules: Document) -> str:
    if total:
        return f"Give the {total} records a subtype with `schema.fillSubtypes`, then require one."
    if not rules:
        return "Every record has a subtype: `schema.requireSubtype` can keep it so."
    return "Every record has a subtype."


@mechanics("schema.migrateField", writing=True)
def migrate_field(store: Store, params: MigrateFieldParams, call: CallContext) -> Document:
    """Renames a metadata field in every record, a commit for each batch that changes something.

    Stopped or killed between two batches, the same call goes on where it was: records that are so already are skipped.
    """
    for path, name in (("from", params.from_), ("to", params.to)):
        refuse_reserved(path, name)
    if params.from_ == params.to:
        raise _misplaced("to", "is the name that the field has", "Give another name.")
    kinds = {"noun": ("entity",), "verb": ("relation",), "both": ("entity", "relation")}[params.entity_kind]
    renaming = Renaming(params.from_, params.to, read_both=params.read_both)
    tally, generation = swept(store, "schema.migrateField", params, call, renaming, kinds, params.batch_size)
    return {
        "scanned": tally.scanned,
        "migrated": tally.changed,
        "skipped": tally.scanned - tally.changed - tally.error_count,
        "errors": tally.errors,
        "errorCount": tally.error_count,
        "generation": generation,
    }


@mechanics("schema.fillSubtypes", writing=True)
def fill_subtypes(store: Store, params: FillSubtypesParams, call: CallContext) -> Document:
    """Gives records without a subtype one, by the first rule that matches, in commits of a batch each."""
    for rule in params.rules:
        refuse_vfs_subtype(rule.subtype, "Write files with `vfs.writeFile`.")
    filling = Filling(params.rules)
    tally, generation = swept(store, "schema.fillSubtypes", params, call, filling, filling.kinds)
    return {
        "scanned": tally.scanned,
        "filled": tally.changed,
        "errors": tally.errors,
        "errorCount": tally.error_count,
        "generation": generation,
    }


def refuse_reserved(path: str, name: str) -> None:
    """Refuses a name that is no metadata field: `ReservedFieldError` for the engine's, ValidationError for no name."""
    head = name.partition(".")[0]
    if name in STANDARD_FIELDS or head in STANDARD_FIELDS | RESERVED_METADATA_KEYS or name.startswith("_"):
        raise Refusal(
            "ReservedFieldError",
            f'{path}: "{name[:256]}" is a field of the engine, or a name that it keeps.',
            cure="Name a metadata field, without `metadata.`.",
            details={"path": path, "key": name[:256]},
        )
    if "" in name.split(".") or not name.isprintable():
        raise Refusal(
            "ValidationError",
            f"{path}: {name[:256]!a} is no dotted path of names.",
            details={"path": path, "value": name[:256]},
        )


def _misplaced(path: str, why: str, cure: str) -> Refusal:
    return Refusal("ValidationError", f"{path}: it {why}.", cure=cure, details={"path": path})
