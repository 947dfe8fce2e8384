"""What a worker process does before its first heavy import, so that it stays small."""

import ctypes
import sys

# Names of malloc.h. Without them glibc raises its own thresholds after the first large body and keeps the memory.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGE_BYTES = 128 * 1024


def keep_lean() -> None:
    """Hide `typing_extensions`, and let the memory of large bodies go back to the system.

    msgspec would import `typing_extensions` for names that Python 3.11 has itself: 50 ms of the start and 1 to 3 MiB.
    Three bodies of 11 MiB left a worker at 62 MiB; with fixed thresholds it is back at its 40.
    """
    sys.modules.setdefault("typing_extensions", None)  # type: ignore[arg-type]  # None is how Python spells "not there"
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc has it; other C libraries do without
    if mallopt is not None:
        mallopt(_M_TRIM_THRESHOLD, _LARGE_BYTES)
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
