"""The ``eraseblock`` command."""

from __future__ import annotations

import os
import signal
import sys

from . import _native


def main() -> int:
    """Run the command with the arguments of this process."""
    # The command never comes back to Python's handler, which would only take note of the signal.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _native.cli(os.path.realpath(sys.argv[0]), sys.argv)
