"""``python -m specgen``."""

from __future__ import annotations

import sys

from specgen.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
