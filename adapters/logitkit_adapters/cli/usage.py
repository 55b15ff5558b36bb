"""Arguments of commands, their help as sentences, the error for wrong ones, and the files that they name."""

from __future__ import annotations

import argparse
from pathlib import Path

__all__ = ["UsageError", "sentence", "text_argument", "whole_number", "write_page"]


class UsageError(Exception):
    """The arguments of a command do not fit together, or name something that cannot be used."""


def sentence(help_text: str) -> str:
    """Return a help text as a sentence; `str.capitalize` would write JSON as "json"."""
    return f"{help_text[0].upper()}{help_text[1:]}."


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
