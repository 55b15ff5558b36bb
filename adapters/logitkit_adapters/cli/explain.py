"""`logitkit explain`: what a constraint does at each token of a text, and why it refuses one."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from logitkit_adapters.cli.definitions import KINDS, add_shared, compiled
from logitkit_adapters.cli.usage import add_command, ctrl_c_exits, text_argument, write_page, write_results

__all__ = ["add", "run"]


def add(commands: Any) -> None:
    """Add the command to a parser.

    Args:
        commands: The commands of the parser.
    """
    says = "explain a text token by token: how many tokens were legal, and why one was refused"
    parser = add_command(commands, "explain", says, run)
    given = parser.add_mutually_exclusive_group(required=True)
    for kind, (value, what) in KINDS.items():
        given.add_argument(f"--{kind}", metavar=value, type=text_argument, help=what)
    parser.add_argument("--text", required=True, type=text_argument, help="the text to explain")
    parser.add_argument(
        "--html", metavar="FILE", help="also write the explanation to this file, as a page for a browser"
    )
    add_shared(parser, *KINDS)


def run(arguments: argparse.Namespace) -> int:
    """Run the command, and return its exit status.

    Args:
        arguments: The parsed arguments.

    Raises:
        UsageError: A file or folder cannot be used.
        LogitkitError: The definition does not compile.
    """
    with ctrl_c_exits():
        import logitkit as lk

    kind = next(kind for kind in KINDS if getattr(arguments, kind) is not None)
    constraint, _, heard = compiled(kind, getattr(arguments, kind), arguments)
    explanation = lk.explain(constraint, constraint.vocabulary, [], arguments.text)
    if arguments.html is not None:
        write_page(arguments.html, explanation.to_html())
    shown = [] if arguments.json or _in_colour(explanation) else str(explanation).splitlines()
    data = {"legal": explanation.complete, "warnings": heard, **explanation.to_dict()}
    write_results(arguments.json, data, [*shown, *(f"warning   {warning}" for warning in heard)])
    return 0 if explanation.complete else 1


def _in_colour(explanation: Any) -> bool:
    """Print an explanation with rich, on a terminal and if rich is installed; return whether that was done."""
    if not sys.stdout.isatty() or (sys.stdout.encoding or "").lower() != "utf-8":
        return False
    try:
        from rich.console import Console
    except ImportError:
        return False
    Console().print(explanation)
    return True
