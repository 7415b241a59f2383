"""`python -m privstats` is the command `privstats`."""

import sys

from privstats.command import main

sys.exit(main())
