"""One brain: durable store, history, derived indexes, the doors that read and write it."""

import os

# Read by numpy's BLAS when it is first imported, which is after this line. A product of a matrix and a vector is bound
# by memory: a second thread gains little on an idle machine and, spinning, loses a factor of six at p99 on a busy one.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
