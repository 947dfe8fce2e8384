"""Hits of the index that no record stands behind: told from records that were lost, left out and counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from contract.refusals import Refusal

if TYPE_CHECKING:
    from engine.view import View


def among(view: View, vers: NDArray[np.int64], refusal: Refusal) -> NDArray[np.int64]:
    """Those of the versions, whose reading ended in `refusal`, that have no row and, as the log tells, never had one.

    Raises the refusal when there is none, and when a commit made one that is not there: that is damage.
    """
    gone = [ver for ver in vers.tolist() if not view.has_version(ver)]
    if not gone or any(view.was_made(ver) for ver in gone):
        raise refusal
    return np.array(gone, dtype=np.int64)
