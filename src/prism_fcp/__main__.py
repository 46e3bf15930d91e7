"""Make `python -m prism_fcp` the command line."""

import sys

from prism_fcp.cli import main

if __name__ == "__main__":
    sys.exit(main())
