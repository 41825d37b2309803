"""A shell in a window, for pipelines."""

import os
import sys

if __name__ == "__main__":
    sys.exit(os.waitstatus_to_exitcode(os.system(os.environ["SHELL_COMMAND"])))
