"""``python -m specgen``, and the command ``specgen``."""

from __future__ import annotations

import gc
import sys

from specgen.cli.main import main

# Objects that are made before Python looks for garbage among them; its own number is 700, or 2,000.
_COLLECT_AFTER = 50_000


def run() -> int:
    """Run the command of this process and return its exit code.

    Importing torch and transformers makes a million objects, hardly one of them garbage, and Python looks for garbage
    among them again and again, and once more at the end: up to half a second before the first token, 0.7 s
    after the last.
    """
    gc.set_threshold(_COLLECT_AFTER, *gc.get_threshold()[1:])
    code = main()
    gc.freeze()
    return code


if __name__ == "__main__":
    sys.exit(run())
