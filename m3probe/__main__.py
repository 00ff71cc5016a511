"""The console command, and ``python -m m3probe`` from an installed copy.

Nothing is imported at module level but what Python has loaded anyway: Ctrl-C within the first moments, while the
command line is being imported, must end like any later one.
"""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line and return its exit status."""
    try:
        from m3probe.cli import main as run

        return run()
    except KeyboardInterrupt:
        if sys.stderr is not None:
            sys.stderr.write("m3probe: interrupted\n")
        return 130


if __name__ == "__main__":
    sys.exit(main())
