"""The command `logitkit` in a Python of its own, and what it may print to."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import logitkit
import logitkit_adapters

__all__ = ["ANSWER_CTRL_C", "NO_NETWORK", "Screen", "own", "start"]

ROOTS = [str(Path(module.__file__).parents[1]) for module in (logitkit, logitkit_adapters) if module.__file__]
# A test runner in the background ignores Ctrl-C, and would hand that down.
ANSWER_CTRL_C = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
NO_NETWORK = """
import socket
def refuse(*_): raise AssertionError("the demo asked for the network")
socket.socket.connect = socket.getaddrinfo = refuse
"""
MAIN = "import sys; from logitkit_adapters.cli import main; sys.exit(main())"


def start(*arguments: str, before: str = "", **environment: str) -> subprocess.Popen[str]:
    """Start the command in a Python of its own, with code that runs before."""
    return subprocess.Popen(
        [sys.executable, "-W", "error::UserWarning", "-c", f"{before}\n{MAIN}", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": os.pathsep.join(ROOTS), "PYTHONIOENCODING": "utf-8", **environment},
    )


def own(*arguments: str, regex: str = "a", prompt: str = "x") -> list[str]:
    return ["demo", f"--regex={regex}", f"--prompt={prompt}", *arguments]


class Screen(io.StringIO):
    """A terminal, or none, in some encoding."""

    encoding = "utf-8"

    def __init__(self, terminal: bool, encoding: str = "utf-8") -> None:
        super().__init__()
        self.terminal, self.encoding = terminal, encoding

    def isatty(self) -> bool:
        return self.terminal
