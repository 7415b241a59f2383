"""Entry point of ``python -m privstats``, which runs the command `privstats`."""

import sys

from privstats.command import main

if __name__ == "__main__":
    sys.exit(main())
