"""``python -m m3probe`` from an installed copy."""

import sys

from m3probe.cli import main

sys.exit(main())
