"""Arguments of commands, the error for wrong ones, what commands write, and Ctrl-C while modules are imported."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = [
    "INTERRUPTED",
    "UsageError",
    "add_command",
    "ctrl_c_exits",
    "text_argument",
    "whole_number",
    "write_page",
    "write_results",
]

INTERRUPTED = 130


@contextmanager
def ctrl_c_exits() -> Iterator[None]:
    """End the process immediately on Ctrl-C: some modules turn an interrupt during their import into another error."""
    main_thread = threading.current_thread() is threading.main_thread()
    if not main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class UsageError(Exception):
    """The arguments of a command do not fit together, or name something that cannot be used."""


def add_command(
    commands: Any, name: str, says: str, run: Callable[[argparse.Namespace], int], more: str = ""
) -> argparse.ArgumentParser:
    """Add a command to a parser, and return its own parser, which has `--json`.

    Args:
        commands: The commands of the parser.
        name: The name of the command.
        says: A phrase for the list of commands, such as "compile a pattern".
        run: Runs it and returns the exit status.
        more: A sentence that its own help adds.
    """
    # `str.capitalize` would write JSON as "json".
    description = f"{says[0].upper()}{says[1:]}. {more}"
    parser: argparse.ArgumentParser = commands.add_parser(name, allow_abbrev=False, help=says, description=description)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)
    return parser


def whole_number(most: int, text: str) -> int:
    """Read an argument from 1 to `most`, for argparse.

    Raises:
        argparse.ArgumentTypeError: It is another text.
    """
    number = int(text) if text.isdecimal() else 0
    if not 1 <= number <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {most}")
    return number


def text_argument(text: str) -> str:
    """Read an argument that must be valid text, for argparse.

    Raises:
        argparse.ArgumentTypeError: It has bytes that are not UTF-8.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not valid UTF-8 at position {error.start}") from error
    return text


def write_page(path: str, page: str) -> None:
    """Write a page for a browser.

    Raises:
        UsageError: The file cannot be written.
    """
    try:
        Path(path).write_text(page, "utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error}") from error


def write_results(as_json: bool, data: dict[str, Any], lines: Iterable[str]) -> None:
    """Write the results of a command.

    Args:
        as_json: Whether to write the data, or the lines.
        data: The results as data.
        lines: The results as lines of text.
    """
    from logitkit_adapters.demo.console import Console

    Console(sys.stdout, sys.stderr).results([json.dumps(data, indent=2)] if as_json else lines)
