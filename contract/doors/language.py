"""Doors that ask the configured language model; the engine itself holds none."""

# ruff: noqa: E501 - tables read best with one field or door a line

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from contract import limits
from contract import types as t
from contract.door import Door, Effect
from contract.doors.releases import STEP_8

_IDS = Meta(max_length=limits.BATCH_ITEMS_MAX)
_WORDS = Meta(ge=1, le=10_000)


class TokenCount(t.Result, kw_only=True, frozen=True):
    """What the model read and wrote."""

    in_: Annotated[int, Meta(description="Tokens read.")] = msgspec.field(name="in")
    out: Annotated[int, Meta(description="Tokens written.")]


class LanguageResult(t.Result, kw_only=True, frozen=True):
    """What every answer of a model says about itself."""

    provider: Annotated[str, Meta(description="The provider that answered.")]
    model: Annotated[str, Meta(description="The model that answered.")]
    tokens: Annotated[TokenCount, Meta(description="What it read and wrote.")]


class Label(t.Part, kw_only=True, frozen=True):
    """A label with an explanation."""

    name: Annotated[t.Text, Meta(description="The label.")]
    description: Annotated[str | None, Meta(description="What it means.")] = None


class ClassifyParams(t.Params, kw_only=True, frozen=True):
    """Parameters of lang.classify."""

    text: Annotated[t.Text, Meta(description="The text.")]
    labels: Annotated[
        Annotated[list[t.Text | Label], Meta(max_length=limits.BATCH_ITEMS_MAX)] | None,
        Meta(description="The labels; the noun types when absent."),
    ] = None
    multi: Annotated[bool, Meta(description="Whether several labels may fit.")] = False
    threshold: Annotated[t.Unit | None, Meta(description="Least score of a label.")] = None


class ScoredLabel(t.Result, kw_only=True, frozen=True):
    """A label and how well it fits."""

    label: Annotated[str, Meta(description="The label.")]
    score: Annotated[float, Meta(description="0 to 1.")]


class ClassifyResult(LanguageResult, kw_only=True, frozen=True):
    """Labels, best first."""

    labels: Annotated[list[ScoredLabel], Meta(description="Labels, best first.")]
    top: Annotated[str, Meta(description="The best label.")]


class SummarizeParams(t.Params, kw_only=True, frozen=True):
    """Parameters of lang.summarize."""

    text: Annotated[t.Text | None, Meta(description="The text …")] = None
    ids: Annotated[Annotated[list[t.Id], _IDS] | None, Meta(description="… or the entities …")] = None
    path: Annotated[t.VfsPath | None, Meta(description="… or the file.")] = None
    style: Annotated[Literal["brief", "bullets", "abstract"], Meta(description="The form of the summary.")] = "brief"
    max_words: Annotated[Annotated[int, _WORDS] | None, Meta(description="At most this many words.")] = None


class SummarizeResult(LanguageResult, kw_only=True, frozen=True):
    """A summary."""

    summary: Annotated[str, Meta(description="The summary.")]
    sources: Annotated[list[str], Meta(description="Ids or paths it rests on.")]


class ExtractParams(t.WriteParams, kw_only=True, frozen=True):
    """Parameters of lang.extract."""

    text: Annotated[t.Text, Meta(description="The text.")]
    schema: Annotated[
        str | t.JsonObject,
        Meta(description="`entities`, `relations`, or a JSON Schema of the items.", extra={"check": "json"}),
    ]
    types: Annotated[list[t.Noun | t.Verb] | None, Meta(description="Only these types.")] = None
    store: Annotated[bool, Meta(description="Also store what was found.")] = False


class ExtractResult(LanguageResult, kw_only=True, frozen=True):
    """What was found in the text."""

    items: Annotated[list[t.JsonObject], Meta(description="The items.")]
    relations: Annotated[list[t.JsonObject], Meta(description="The relations.")]


class JudgeParams(t.Params, kw_only=True, frozen=True):
    """Parameters of lang.judge."""

    question: Annotated[t.Text, Meta(description="The question.")]
    candidates: Annotated[list[t.Text], Meta(min_length=1, max_length=100, description="The answers to choose from.")]
    criteria: Annotated[str | None, Meta(description="What makes an answer good.")] = None


class JudgeResult(LanguageResult, kw_only=True, frozen=True):
    """A judgement."""

    choice: Annotated[str, Meta(description="The chosen candidate.")]
    verdict: Annotated[bool, Meta(description="Whether it satisfies the question.")]
    score: Annotated[float, Meta(description="How well, 0 to 1.")]
    reason: Annotated[str, Meta(description="Why.")]


class ImagineParams(t.Params, kw_only=True, frozen=True):
    """Parameters of lang.imagine."""

    seed: Annotated[t.Text, Meta(description="What to start from.")]
    count: Annotated[int, Meta(ge=1, le=50, description="How many ideas.")] = 3
    constraints: Annotated[str | None, Meta(description="What the ideas must respect.")] = None


class ImagineResult(LanguageResult, kw_only=True, frozen=True):
    """Ideas."""

    ideas: Annotated[list[str], Meta(description="The ideas.")]


class ComposeParams(t.Params, kw_only=True, frozen=True):
    """Parameters of lang.compose."""

    instruction: Annotated[t.Text, Meta(description="What to write.")]
    context: Annotated[
        list[t.Id] | t.Text, Meta(description="Ids of entities to write from, or a query that finds them.")
    ]
    max_words: Annotated[Annotated[int, _WORDS] | None, Meta(description="At most this many words.")] = None


class Citation(t.Result, kw_only=True, frozen=True):
    """Where a span of the text comes from."""

    id: Annotated[str, Meta(description="The entity's id; it exists.")]
    span: Annotated[list[int], Meta(description="Start and end in the text, in characters.")]


class ComposeResult(LanguageResult, kw_only=True, frozen=True):
    """A text grounded in entities."""

    text: Annotated[str, Meta(description="The text.")]
    citations: Annotated[list[Citation], Meta(description="What it rests on.")]


class RewriteParams(t.Params, kw_only=True, frozen=True):
    """Parameters of lang.rewrite."""

    text: Annotated[t.Text, Meta(description="The text.")]
    instruction: Annotated[t.Text, Meta(description="How to change it.")]
    preserve: Annotated[str | None, Meta(description="What must stay.")] = None


class RewriteResult(LanguageResult, kw_only=True, frozen=True):
    """The text, rewritten."""

    text: Annotated[str, Meta(description="The text.")]


_COMMON = (
    "LanguageProviderMissingError",
    "LanguageProviderError",
    "LanguageOutputInvalidError",
    "OutboundRefusedError",
)

DOORS = (
    Door(namespace="lang", name="classify", title="Classify a text", summary="Choose the labels that fit a text.", effect=Effect.READ, params=ClassifyParams, result=ClassifyResult, refusals=_COMMON, release=STEP_8),
    Door(namespace="lang", name="summarize", title="Summarize", summary="Summarize a text, entities or a file.", effect=Effect.READ, params=SummarizeParams, result=SummarizeResult, refusals=(*_COMMON, "EntityNotFoundError", "VfsError"), release=STEP_8),
    Door(namespace="lang", name="extract", title="Extract from a text", summary="Extract entities, relations or items of your own schema from a text, and store them if asked.", effect=Effect.WRITE, params=ExtractParams, result=ExtractResult, refusals=(*_COMMON, "UnknownNounTypeError", "UnknownVerbTypeError"), release=STEP_8),
    Door(namespace="lang", name="judge", title="Judge candidates", summary="Choose the candidate that answers a question best, with a reason.", effect=Effect.READ, params=JudgeParams, result=JudgeResult, refusals=_COMMON, release=STEP_8),
    Door(namespace="lang", name="imagine", title="Imagine ideas", summary="Think of ideas that start from a seed.", effect=Effect.READ, params=ImagineParams, result=ImagineResult, refusals=_COMMON, release=STEP_8),
    Door(namespace="lang", name="compose", title="Compose a text", summary="Write a text from entities of the brain, with citations.", effect=Effect.READ, params=ComposeParams, result=ComposeResult, refusals=(*_COMMON, "EntityNotFoundError"), release=STEP_8),
    Door(namespace="lang", name="rewrite", title="Rewrite a text", summary="Rewrite a text as told.", effect=Effect.READ, params=RewriteParams, result=RewriteResult, refusals=_COMMON, release=STEP_8),
)  # fmt: skip
