"""The command `logitkit`: parses arguments, and turns errors into one message and an exit status."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NoReturn

__all__ = ["main"]

_INVALID, _USAGE, _INTERRUPTED, _PIPE_CLOSED = 1, 2, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command `logitkit`.

    Args:
        argv: The arguments, without the program's name; by default those of the process.

    Returns:
        The exit status: 0; 1 if a constrained text is invalid or unfinished; 2 for wrong arguments or a missing package; 130
        after Ctrl-C; 141 if the output pipe is closed.

    Example:
        >>> main(["demo", "--regex", "a{2,1}", "--prompt", ""])
        2
    """
    try:
        status = _run(argv)
        # Flush now: when the interpreter ends, nobody could handle a closed pipe.
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        _write_no_more()
        return _PIPE_CLOSED
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
    return _demo(arguments)


def _demo(arguments: argparse.Namespace) -> int:
    own = arguments.regex is not None
    if own != (arguments.prompt is not None):
        return _refuse("give --regex and --prompt together")
    if not own and (arguments.beams is not None or arguments.max_new_tokens is not None):
        return _refuse("--beams and --max-new-tokens go with --regex and --prompt")

    from logitkit_adapters.demo.console import Console

    console = Console(sys.stdout, sys.stderr)
    console.progress("importing torch and transformers")
    with _ctrl_c_exits():
        from logitkit.errors import ConfigurationError, LogitkitError
        from logitkit.patterns.parser import parse
        from logitkit_adapters.demo.cases import own_case, shipped_cases
        from logitkit_adapters.demo.llama_cpp_engine import LlamaCppDemo
        from logitkit_adapters.demo.mlx_lm_engine import MlxLmDemo
        from logitkit_adapters.demo.run import run_demo
        from logitkit_adapters.demo.transformers_engine import TransformersDemo
    try:
        if own:
            parse(arguments.regex)  # before an engine and its model are loaded
        cases = shipped_cases()
        if own:
            beams, most = arguments.beams or 1, arguments.max_new_tokens or 64
            cases = (own_case(arguments.regex, arguments.prompt, beams=beams, max_new_tokens=most),)
        known = (TransformersDemo(), MlxLmDemo(), LlamaCppDemo())
        engines = [engine for engine in known if engine.has_beams or any(case.beams == 1 for case in cases)]
        with _ctrl_c_exits():
            missing = [engine.available() for engine in engines]
        usable = [engine for engine, what in zip(engines, missing, strict=True) if what is None]
        if not usable:
            raise ConfigurationError("; or ".join(what for what in missing if what is not None))
        return 0 if run_demo(usable, cases, console) else _INVALID
    except LogitkitError as error:
        console.done()
        return _refuse(str(error))
    finally:
        console.done()


@contextmanager
def _ctrl_c_exits() -> Iterator[None]:
    """End the process immediately on Ctrl-C: some modules turn an interrupt during their import into another error."""
    main_thread = threading.current_thread() is threading.main_thread()
    if not main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: os._exit(_INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _refuse(message: str) -> int:
    print(f"logitkit: {message}", file=sys.stderr, flush=True)
    return _USAGE


def _write_no_more() -> None:
    """Keep the interpreter from writing to the closed pipe again when it ends."""
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
    demo = commands.add_parser(
        "demo",
        allow_abbrev=False,
        help="compare the output of a small model with and without constraints",
        description="Compare the output of a small model, which ships with logitkit, with and without constraints, and "
        "show what the constraints cost. The exit status is 1 if a constrained text is invalid or unfinished.",
    )
    demo.add_argument(
        "--regex",
        metavar="PATTERN",
        help="constrain the output to this pattern (write --regex=PATTERN if it begins with -)",
    )
    demo.add_argument("--prompt", metavar="TEXT", help="the prompt for --regex")
    demo.add_argument(
        "--max-new-tokens",
        type=partial(_whole_number, 1024),
        metavar="N",
        help="generate at most N tokens (with --regex; default 64)",
    )
    demo.add_argument(
        "--beams",
        type=partial(_whole_number, 64),
        metavar="N",
        help="search with N beams (with --regex; default 1, greedy search)",
    )
    return parser


def _whole_number(most: int, text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if not 1 <= number <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {most}")
    return number


if __name__ == "__main__":
    sys.exit(main())
