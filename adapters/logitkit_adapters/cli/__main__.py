"""The command `logitkit`, for `python -m logitkit_adapters.cli`."""

import sys

from logitkit_adapters.cli.command import main

if __name__ == "__main__":
    sys.exit(main())
