"""What `purpose` stands for: defaults for the parameters of a find that the caller left out.

answer    the spans that answer, three of about 300 characters a row
context   longer spans to reason over, three of about 1,000 characters a row
dedupe    what means the same: meaning alone, a cosine of at least 0.85
browse    what is new first
"""

from __future__ import annotations

from typing import Final

from msgspec import UNSET, UnsetType, structs

from contract.doors.queries import FindParams, PassageChoice
from contract.refusals import Refusal

DEDUPE_THRESHOLD: Final = 0.85
CONTEXT_PASSAGES: Final = PassageChoice(max=3, size=1000)


def with_purpose(params: FindParams) -> FindParams:
    """The parameters that a call means. `ValidationError` for `dedupe` with nothing that could mean the same."""
    asked = params.query is not None or params.vector is not None
    match params.purpose:
        case "answer":
            return _filled(params, passages=True if asked else UNSET)
        case "context":
            return _filled(params, passages=CONTEXT_PASSAGES if asked else UNSET)
        case "browse":
            if params.order_by is None:
                return structs.replace(params, order_by="updatedAt", order="desc")
        case "dedupe":
            if not asked and params.near is None:
                raise Refusal(
                    "ValidationError",
                    "purpose: `dedupe` looks for what means the same, and there is nothing to compare with.",
                    cure="Give a `query`, a `vector` or `near`.",
                    details={"path": "purpose"},
                )
            return _deduping(params, asked=asked)
    return params


def _deduping(params: FindParams, *, asked: bool) -> FindParams:
    if not asked:
        assert params.near is not None, "something is given to compare with"
        threshold = DEDUPE_THRESHOLD if params.near.threshold is None else params.near.threshold
        return structs.replace(params, near=structs.replace(params.near, threshold=threshold))
    mode = params.search_mode
    if mode == "auto":
        mode = "semantic" if params.vector is None else "vector"
    meant = mode != "text" and params.threshold is None
    return structs.replace(params, search_mode=mode, threshold=DEDUPE_THRESHOLD if meant else params.threshold)


def _filled(params: FindParams, *, passages: bool | PassageChoice | UnsetType) -> FindParams:
    if isinstance(passages, UnsetType) or params.passages is not False:
        return params
    return structs.replace(params, passages=passages)
