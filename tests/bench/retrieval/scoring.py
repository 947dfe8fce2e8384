"""How good a ranking is, and whether one is better than another beyond chance."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Mapping, Sequence

ROUNDS = 2_000


def ndcg(found: Sequence[str], relevant: Mapping[str, float], depth: int = 10) -> float:
    """Normalised discounted cumulative gain at a depth, gains as they are graded (Järvelin and Kekäläinen 2002)."""
    gains = [relevant.get(identity, 0.0) for identity in found[:depth]]
    ideal = sorted(relevant.values(), reverse=True)[:depth]
    best = sum(gain / math.log2(place + 2) for place, gain in enumerate(ideal))
    return sum(gain / math.log2(place + 2) for place, gain in enumerate(gains)) / best


def recall(found: Sequence[str], relevant: Mapping[str, float], depth: int) -> float:
    """The share of what is relevant in the first `depth`: of evidence, where several documents are."""
    return len(set(found[:depth]) & relevant.keys()) / len(relevant)


def paired_interval(left: Sequence[float], right: Sequence[float], seed: int = 3) -> tuple[float, float, float]:
    """The mean of left - right over the same questions, and its 95 % interval by the bootstrap (Efron 1979)."""
    differences = [a - b for a, b in zip(left, right, strict=True)]
    dice = random.Random(seed)
    means = sorted(statistics.fmean(dice.choices(differences, k=len(differences))) for _ in range(ROUNDS))
    return statistics.fmean(differences), means[int(0.025 * ROUNDS)], means[int(0.975 * ROUNDS)]
