"""How the rankings of the legs become one. Pure arithmetic over aligned arrays: one entry a candidate.

Scores are decided by the whole of both legs and never by how many rows were asked for, so that two pages of one query
are slices of one ranking.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Mask = NDArray[np.bool_]
Strategy = Literal["rrf", "weighted", "adaptive"]

MEANING_SHARE: Final = 0.55
"""Weight of meaning in a fixed mix: of the weights tried on four sets (docs/bench.md), the best that is one for all."""

ADAPTIVE_SHARE: Final = 0.6
SHARE_MIN: Final = 0.2
SHARE_MAX: Final = 0.9
"""The same where the legs decide: it moves from `ADAPTIVE_SHARE`, and each leg always keeps a say."""

MEANING_LEAD: Final = 0.4
MEANING_NEAR: Final = 0.6
WORDS_LEAD: Final = 0.4
"""How much of it the legs move: by how far the best cosine stands out, by how near it is, and, away from meaning, by
how far the best text score stands out. Tuned on WordNet glosses and examples, held on its words and on FOLDOC."""

LEAD_DEPTH: Final = 10
"""The best row stands out from the row at this rank."""

RRF_OFFSET: Final = 60.0
"""The constant of reciprocal rank fusion (Cormack, Clarke and Büttcher 2009)."""

SPREAD_DEPTH: Final = 100
"""The cosine at this rank is the zero of the meaning leg: a rank that every query reaches, whatever page is asked."""

FEW_TOP: Final = 0.3
"""Where fewer vectors than that are known, no cosine below this one counts as a full hit."""

TAIL_SHARE: Final = 1e-3
"""What is left to tell apart cosines below that zero: less than any difference that matters above it."""


@dataclass(frozen=True, slots=True)
class Mix:
    """How to fuse. `meaning` and `words` are the weights of the two legs, not negative and not both zero; `graph` that
    of the relations, beside theirs."""

    strategy: Strategy = "adaptive"
    meaning: float = MEANING_SHARE
    words: float = 1.0 - MEANING_SHARE
    graph: float = 0.0
    given: bool = False
    """Whether the caller gave the weights of words and meaning: then they stay, whatever the legs say."""


@dataclass(frozen=True, slots=True)
class Shares:
    """What each leg gives a candidate, 0 to 1, and the weight of each leg as it was used."""

    words: NDArray[np.float64]
    meaning: NDArray[np.float64]
    words_weight: float
    meaning_weight: float

    def total(self) -> NDArray[np.float64]:
        """The score of each candidate."""
        weighed = self.meaning_weight * self.meaning + self.words_weight * self.words
        return np.asarray(weighed / (self.meaning_weight + self.words_weight))


def fused(text: Floats, cosine: Floats, has_vector: Mask, mix: Mix) -> NDArray[np.float64]:
    """Gives one score a candidate, 0 to 1, higher is better; see `shares`."""
    return shares(text, cosine, has_vector, mix).total()


def shares(text: Floats, cosine: Floats, has_vector: Mask, mix: Mix) -> Shares:
    """Gives what each leg says of each candidate.

    `text` is 0 where no query term occurs; `cosine` counts only where `has_vector`. A candidate that is in neither leg
    is no match: what it gets here means nothing.
    """
    if mix.strategy == "rrf":
        found = text > 0
        words, meaning = np.zeros(len(text)), np.zeros(len(text))
        words[found], meaning[has_vector] = by_rank(text[found]), by_rank(cosine[has_vector])
        return Shares(words, meaning, mix.words, mix.meaning)
    words, meaning = scaled(text), spread(cosine, has_vector)
    if mix.strategy == "adaptive" and not text.any():
        # Words that occur nowhere say nothing about the rows: the mix is then the meaning alone, at full scale.
        return Shares(words, meaning, 0.0, 1.0)
    if mix.strategy == "adaptive" and not mix.given:
        share = meaning_share(words, cosine[has_vector])
        return Shares(words, meaning, 1.0 - share, share)
    return Shares(words, meaning, mix.words, mix.meaning)


def meaning_share(words: Floats, known: Floats) -> float:
    """Gives the weight of meaning that the legs themselves speak for. `words` are shares of the best text score.

    A leg whose best row stands out from its tenth has found something; one whose rows are all alike has not. A query
    whose nearest row is far away means nothing that is here.
    """
    if not len(known):
        return SHARE_MIN
    words_lead = 1.0 - _at_rank(words, LEAD_DEPTH)
    top, low = float(known.max()), _at_rank(known, SPREAD_DEPTH)
    # Too few vectors to tell what stands out: their lead is left as it usually is.
    lead = (top - _at_rank(known, LEAD_DEPTH)) / (top - low) if len(known) > LEAD_DEPTH and top > low else 0.5
    share = ADAPTIVE_SHARE + MEANING_LEAD * (lead - 0.5) + MEANING_NEAR * (top - 0.6) - WORDS_LEAD * (words_lead - 0.35)
    return min(SHARE_MAX, max(SHARE_MIN, share))


def _at_rank(values: Floats, rank: int) -> float:
    """The value at a rank from 1, or the least one where there are fewer; 0 without any."""
    if not len(values):
        return 0.0
    place = min(rank, len(values)) - 1
    return float(-np.partition(-values, place)[place])


def scaled(text: Floats) -> NDArray[np.float64]:
    """Gives text scores as shares of the best one."""
    best = float(text.max(initial=0.0))
    return text.astype(np.float64) / best if best > 0 else np.zeros(len(text))


def spread(cosine: Floats, has_vector: Mask) -> NDArray[np.float64]:
    """Gives cosines on a scale from the hundredth best (0) to the best (1); below it they still differ, by little."""
    scores = np.zeros(len(cosine))
    known = cosine[has_vector].astype(np.float64)
    if not len(known):
        return scores
    place = min(SPREAD_DEPTH, len(known)) - 1
    top = float(known.max())
    low = float(-np.partition(-known, place)[place])
    if len(known) < SPREAD_DEPTH:
        # Too few to tell from each other what is near and what is not: unrelated texts scatter around 0.
        top, low = max(top, FEW_TOP), min(low, 0.0)
    head = np.clip((known - low) / (top - low), 0.0, 1.0) if top - low > 1e-9 else (known >= low).astype(np.float64)
    scores[has_vector] = (1 - TAIL_SHARE) * head + TAIL_SHARE * np.maximum(known, 0.0)
    return scores


def with_graph(scores: Floats, hops: Floats, mix: Mix, *, legs: Sequence[float]) -> NDArray[np.float64]:
    """Gives relevance and nearness in the graph as one score, 0 to 1.

    `hops` is 1 for a direct relation and falls with the distance; `legs` are the weights of the legs behind `scores`.
    """
    relevance = sum(legs)
    if mix.strategy == "rrf":
        hops = by_rank(hops)
        scores = by_rank(scores) if len(legs) == 1 else scores
    return np.asarray((relevance * scores + mix.graph * hops) / (relevance + mix.graph))


def by_rank(values: Floats) -> NDArray[np.float64]:
    """Gives the share of each value's rank in reciprocal rank fusion: 1 for the best. Equal values share the better
    rank: ties are no evidence."""
    ranks = np.searchsorted(np.sort(-values), -values, side="left") + 1
    return np.asarray((RRF_OFFSET + 1) / (RRF_OFFSET + ranks))
