"""The command `logitkit`: reads arguments, and turns what goes wrong into one message and an exit status."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

__all__ = ["main"]

_INVALID, _USAGE, _INTERRUPTED, _PIPE_CLOSED = 1, 2, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command `logitkit`.

    Args:
        argv: The arguments, without the program's name; default those of the process.

    Returns:
        The exit status: 0; 1 if a constrained text came out invalid or unfinished; 2 for wrong arguments or
        a missing package; 130 after Ctrl-C; 141 if nobody reads the output any more.

    Example:
        >>> main(["demo", "--regex", "a{2,1}", "--prompt", ""])
        2
    """
    try:
        status = _run(argv)
        # Now rather than when the interpreter ends, where nobody could catch that the pipe is closed.
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
        # Only here: this loads torch.
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
        from logitkit_adapters.demo.llama_cpp_engine import LlamaCppEngine
        from logitkit_adapters.demo.mlx_lm_engine import MlxLmEngine
        from logitkit_adapters.demo.run import run_demo
        from logitkit_adapters.demo.transformers_engine import TransformersEngine
    try:
        if own:
            parse(arguments.regex)  # before an engine and its model are loaded
        cases = shipped_cases()
        if own:
            beams, most = arguments.beams or 1, arguments.max_new_tokens or 64
            cases = (own_case(arguments.regex, arguments.prompt, beams=beams, max_new_tokens=most),)
        known = (TransformersEngine(), MlxLmEngine(), LlamaCppEngine())
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
    """End the process at once on Ctrl-C: some modules, while imported, turn an interrupt into another error."""
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
    """Keep the interpreter from writing to a closed pipe once more when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            os.dup2(nowhere, stream.fileno())
        except (OSError, ValueError):  # not a stream of the operating system
            continue
    os.close(nowhere)


class _Parser(argparse.ArgumentParser):
    """Refuses wrong arguments in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(_USAGE, f"{self.prog}: {message}; see {self.prog} --help\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="logitkit", description="Logits processors for any engine.", allow_abbrev=False)
    parser.add_argument("--version", action="store_true", help="print the version")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    demo = commands.add_parser(
        "demo",
        allow_abbrev=False,
        help="show constrained beside unconstrained output of the demo model",
        description="Show constrained beside unconstrained output of the small model that comes with "
        "logitkit, and what constraints cost. Exit status 1: a constrained text is invalid or unfinished.",
    )
    demo.add_argument(
        "--regex",
        metavar="PATTERN",
        help="a pattern of your own (write --regex=PATTERN where it begins with -)",
    )
    demo.add_argument("--prompt", metavar="TEXT", help="the text that it follows")
    demo.add_argument("--max-new-tokens", type=_whole_number(1024), metavar="N", help="with --regex; default 64")
    demo.add_argument("--beams", type=_whole_number(64), metavar="N", help="with --regex; default 1, greedy search")
    return parser


def _whole_number(most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = 0
        if not 1 <= number <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {most}")
        return number

    return read


if __name__ == "__main__":
    sys.exit(main())
