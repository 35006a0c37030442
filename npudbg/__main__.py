"""`python -m npudbg`."""

from __future__ import annotations

import sys

from npudbg.cli import main

if __name__ == "__main__":
    sys.exit(main())
