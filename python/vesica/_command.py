"""The `vesica` command that comes with the wheel."""

from __future__ import annotations

import signal
import sys

from . import _core


def main() -> int:
    """Runs the command with this process's arguments, and gives its exit code."""
    # The command hears Ctrl-C by itself.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_core.command(["vesica", *sys.argv[1:]], [sys.executable, "-m", "vesica"]))
