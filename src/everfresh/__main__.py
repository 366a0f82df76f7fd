"""`python -m everfresh`: the command line."""

import sys

from everfresh.cli import main

sys.exit(main())
