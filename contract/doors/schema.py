"""Doors that rule which subtypes and field values a brain accepts."""

# ruff: noqa: E501 - tables read best with one field or door a line

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from contract import limits
from contract import types as t
from contract.door import Door, Effect

_FIELD = Meta(min_length=1, max_length=limits.FIELD_PATH_CHARS_MAX)
_VALUES = Meta(min_length=1, max_length=limits.VOCABULARY_VALUES_MAX)


class RequireSubtypeParams(t.WriteParams, kw_only=True, frozen=True):
    """Parameters of schema.requireSubtype."""

    type: Annotated[t.Noun | t.Verb | None, Meta(description="The noun or verb type; every type when absent.")] = None
    required: Annotated[bool, Meta(description="Whether a subtype must be given.")] = True
    values: Annotated[
        Annotated[list[t.Subtype], _VALUES] | None, Meta(description="The only subtypes that are accepted.")
    ] = None
    except_: Annotated[list[t.Noun | t.Verb] | None, Meta(description="Types that the brain-wide rule leaves out.")] = (
        msgspec.field(name="except", default=None)
    )


class SchemaResult(t.Result, kw_only=True, frozen=True):
    """Receipt of a rule."""

    generation: t.GenerationNow
    changed: Annotated[bool | None, Meta(description="False when the rule already stood.")] = None


class TrackFieldParams(t.WriteParams, kw_only=True, frozen=True):
    """Parameters of schema.trackField."""

    name: Annotated[str, _FIELD, Meta(description="The metadata field.")]
    per_type: Annotated[bool, Meta(description="Count the values of each type apart.")] = False
    tracked: Annotated[bool, Meta(description="False stops tracking the field.")] = True
    values: Annotated[
        Annotated[list[Any], _VALUES] | None,
        Meta(description="The only values that are accepted.", extra={"check": "json"}),
    ] = None


class MigrateFieldParams(t.WriteParams, kw_only=True, frozen=True):
    """Parameters of schema.migrateField."""

    from_: Annotated[str, _FIELD, Meta(description="The field as it is called.")] = msgspec.field(name="from")
    to: Annotated[str, _FIELD, Meta(description="The field as it shall be called.")]
    read_both: Annotated[bool, Meta(description="Keep the old field beside the new one.")] = False
    entity_kind: Annotated[Literal["noun", "verb", "both"], Meta(description="Which records are migrated.")] = "noun"
    batch_size: Annotated[int, Meta(ge=1, le=limits.BATCH_ITEMS_MAX, description="Records a commit.")] = 500


class MigrateFieldResult(t.Result, kw_only=True, frozen=True):
    """What a migration did."""

    scanned: Annotated[int, Meta(description="Records looked at.")]
    migrated: Annotated[int, Meta(description="Records changed.")]
    skipped: Annotated[int, Meta(description="Records without the field.")]
    errors: Annotated[
        list[t.JsonObject], Meta(description="Records that could not be changed, `{id, name, message}`, 100 at most.")
    ]
    error_count: Annotated[int, Meta(description="How many could not be changed.")]
    generation: t.GenerationNow


class AuditParams(t.Params, kw_only=True, frozen=True):
    """Parameters of schema.audit."""

    include_vfs: Annotated[bool, Meta(description="Also look at files.")] = msgspec.field(
        name="includeVFS", default=False
    )


class AuditResult(t.Result, kw_only=True, frozen=True):
    """Records without a subtype."""

    entities_without_subtype: Annotated[dict[str, int], Meta(description="Entities, by type.")]
    relationships_without_subtype: Annotated[dict[str, int], Meta(description="Relations, by type.")]
    total: Annotated[int, Meta(description="All of them.")]
    scanned: Annotated[int, Meta(description="Records looked at.")]
    recommendation: Annotated[str, Meta(description="What to do next.")]


class FillRule(t.Part, kw_only=True, frozen=True):
    """Which records get which subtype."""

    type: Annotated[t.Noun | t.Verb, Meta(description="Records of this type without a subtype.")]
    subtype: Annotated[t.Subtype, Meta(description="The subtype they get.")]
    where: Annotated[t.WhereFilter | None, Meta(description="Only those that match this filter.")] = None


class FillSubtypesParams(t.WriteParams, kw_only=True, frozen=True):
    """Parameters of schema.fillSubtypes."""

    rules: Annotated[
        list[FillRule],
        Meta(min_length=1, max_length=limits.BATCH_ITEMS_MAX, description="The rules, first match wins."),
    ]


class FillSubtypesResult(t.Result, kw_only=True, frozen=True):
    """What was filled in."""

    scanned: Annotated[int, Meta(description="Records looked at.")]
    filled: Annotated[int, Meta(description="Records that got a subtype.")]
    errors: Annotated[
        list[t.JsonObject], Meta(description="Records that could not be changed, `{id, name, message}`, 100 at most.")
    ]
    error_count: Annotated[int, Meta(description="How many could not be changed.")]
    generation: t.GenerationNow


_TYPES = ("UnknownNounTypeError", "UnknownVerbTypeError")
_FILTER = ("UnknownOperatorError", "FilterTypeError", "FieldNotQueryableError")

DOORS = (
    Door(namespace="schema", name="requireSubtype", title="Require subtypes", summary="Rule which types need a subtype and which subtypes they accept.", effect=Effect.WRITE, params=RequireSubtypeParams, result=SchemaResult, refusals=(*_TYPES, "EngineOwnedRecordError")),
    Door(namespace="schema", name="trackField", title="Track a field", summary="Count the values of a metadata field and rule which it accepts.", effect=Effect.WRITE, params=TrackFieldParams, result=SchemaResult, refusals=("ReservedFieldError",)),
    Door(namespace="schema", name="migrateField", title="Rename a field", summary="Move a metadata field to another name in every record.", effect=Effect.WRITE, params=MigrateFieldParams, result=MigrateFieldResult, refusals=("ReservedFieldError",)),
    Door(namespace="schema", name="audit", title="Audit subtypes", summary="Count the records that have no subtype.", effect=Effect.READ, params=AuditParams, result=AuditResult),
    Door(namespace="schema", name="fillSubtypes", title="Fill in subtypes", summary="Give records without a subtype one, by rules.", effect=Effect.WRITE, params=FillSubtypesParams, result=FillSubtypesResult, refusals=(*_TYPES, *_FILTER, "EngineOwnedRecordError")),
)  # fmt: skip
