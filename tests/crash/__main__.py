"""`python -m tests.crash --kills N`: see `kill_loop.py`."""

from tests.crash.kill_loop import main

main()
