"""`python -m workers.mcp --endpoint EP`: the stdio worker."""

import sys

from workers.lean import keep_lean

if __name__ == "__main__":
    keep_lean()
    from workers.mcp.process import main

    sys.exit(main())
