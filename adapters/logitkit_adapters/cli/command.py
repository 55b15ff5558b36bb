"""The command `logitkit`: parses arguments, and turns errors into one message and an exit status."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr
from pathlib import Path
from typing import NoReturn

from logitkit_adapters.cli import check, demo, doctor, explain, serve
from logitkit_adapters.cli.usage import INTERRUPTED, UsageError

__all__ = ["main"]

_USAGE, _PIPE_CLOSED = 2, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command `logitkit`.

    Args:
        argv: The arguments, without the program's name; by default those of the process.

    Returns:
        The exit status: 0; 1 if a text fails, or an engine is broken; 2 for wrong arguments, a definition that does not compile,
        a missing package, or an output that cannot be written; 130 after Ctrl-C; 141 if the output pipe is closed.

    Example:
        >>> main(["demo", "--regex", "a{2,1}", "--prompt", ""])
        2
    """
    if sys.stderr is None:  # the caller has closed it, so messages go nowhere
        with Path(os.devnull).open("w") as nowhere, redirect_stderr(nowhere):
            return main(argv)
    if sys.stdout is None:
        return _refuse("standard output is closed, so nothing can be printed; open it")
    try:
        status = _run(argv)
        # Flush now: when the interpreter ends, nobody could handle a closed pipe.
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _write_no_more()
        return _PIPE_CLOSED
    except OSError as error:
        status = _refuse(f"the output cannot be written: {error}")
        _write_no_more()
    return status


def _run(argv: Sequence[str] | None) -> int:
    try:
        arguments = _parser().parse_args(argv)
    except SystemExit as stop:  # after --help, or a wrong argument
        return stop.code if isinstance(stop.code, int) else 0
    if arguments.version:
        # Imported here because it loads torch.
        from logitkit import __version__

        print(f"logitkit {__version__}")
        return 0
    if arguments.command is None:
        return _refuse("name a command, such as `logitkit demo`; see logitkit --help")
    try:
        status: int = arguments.run(arguments)
    except _errors() as error:
        return _refuse(str(error))
    return status


def _errors() -> tuple[type[Exception], ...]:
    """Return the classes of errors that have a message for users; those of logitkit if it is loaded, which takes a second."""
    errors = sys.modules.get("logitkit.errors")
    return (UsageError,) if errors is None else (UsageError, errors.LogitkitError)


def _refuse(message: str) -> int:
    print(f"logitkit: {message}", file=sys.stderr, flush=True)
    return _USAGE


def _write_no_more() -> None:
    """Keep the interpreter from writing to the output again when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            os.dup2(nowhere, stream.fileno())
        except (OSError, ValueError):  # not a stream of the operating system
            continue
    os.close(nowhere)


class _ArgumentParser(argparse.ArgumentParser):
    """A parser that refuses wrong arguments in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(_USAGE, f"{self.prog}: {message}; see {self.prog} --help\n")


def _parser() -> argparse.ArgumentParser:
    parser = _ArgumentParser(
        prog="logitkit",
        description="Structured output, stop strings and sampling as logits processors.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for command in (demo, check, explain, serve, doctor):
        command.add(commands)
    return parser
