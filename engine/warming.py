"""Loading ahead of the first question: what a part of a brain is, and how it comes into memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from engine.store import Store

PARTS: Final = ("metadata", "vectors", "graph", "model")
PAGE_BYTES: Final = 4096


def warm_metadata(store: Store, check: Callable[[], None]) -> None:
    """The index of fields and words: load it, and read its mapped files once."""
    index = store.index()
    check()
    for array in index.mapped_arrays(("fields", "texts")):
        check()
        _touch(array)


def warm_vectors(store: Store, check: Callable[[], None]) -> None:
    """The vectors: read their mapped files once, a byte a page."""
    index = store.index()
    check()
    for array in index.mapped_arrays(("vectors",)):
        check()
        _touch(array)


def warm_graph(store: Store, check: Callable[[], None]) -> None:
    """The adjacency indexes: walk their pages."""
    with store.view() as view:
        check()
        view.warm_edges()


def _touch(array: NDArray[Any]) -> None:
    data = array.reshape(-1).view(np.uint8)
    int(data[::PAGE_BYTES].max(initial=0))
