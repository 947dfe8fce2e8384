"""`python -m workers.http --endpoint EP --fd N [--fd N] [--host NAME] [--origin ORIGIN]`: the http worker."""

import sys

from workers.lean import keep_lean

if __name__ == "__main__":
    keep_lean()
    from workers.http.process import main

    sys.exit(main())
