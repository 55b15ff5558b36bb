"""`logitkit demo`: what constraints change, and what they cost, in each engine."""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from io import StringIO
from typing import Any

from logitkit_adapters.cli.usage import UsageError, add_command, ctrl_c_exits, whole_number, write_page

__all__ = ["add", "run"]


def add(commands: Any) -> None:
    """Add the command to a parser.

    Args:
        commands: The commands of the parser.
    """
    says = "compare the output of a small model, which ships with logitkit, with and without constraints"
    status = (
        "It also shows what the constraints cost. The exit status is 1 if a constrained text is invalid or unfinished."
    )
    demo = add_command(commands, "demo", says, run, status)
    demo.add_argument(
        "--regex",
        metavar="PATTERN",
        help="constrain the output to this regular expression (write --regex=PATTERN if it begins with -)",
    )
    demo.add_argument("--prompt", metavar="TEXT", help="the prompt for --regex")
    demo.add_argument(
        "--max-new-tokens",
        type=partial(whole_number, 1024),
        metavar="N",
        help="generate at most N tokens (with --regex; default 64)",
    )
    demo.add_argument(
        "--beams",
        type=partial(whole_number, 64),
        metavar="N",
        help="use beam search with N beams (with --regex; default 1, greedy search)",
    )
    demo.add_argument(
        "--html", metavar="FILE", help="also write the texts, token by token, to this file, as a page for a browser"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the command, and return its exit status.

    Args:
        arguments: The parsed arguments.

    Raises:
        UsageError: The arguments do not fit together, or the page cannot be written.
        LogitkitError: The pattern cannot be compiled, or no engine is installed.
    """
    own = arguments.regex is not None
    if own != (arguments.prompt is not None):
        raise UsageError("give --regex and --prompt together")
    if not own and (arguments.beams is not None or arguments.max_new_tokens is not None):
        raise UsageError("--beams and --max-new-tokens go with --regex and --prompt")

    if arguments.html is not None:
        write_page(arguments.html, "")  # a file that cannot be written fails before the run

    from logitkit_adapters.demo.console import Console

    # With --json, nothing but the object is printed.
    console = Console(StringIO() if arguments.json else sys.stdout, sys.stderr)
    console.progress("importing torch and transformers")
    with ctrl_c_exits():
        from logitkit.errors import ConfigurationError
        from logitkit.patterns.parser import parse
        from logitkit_adapters.demo.cases import own_case, shipped_cases
        from logitkit_adapters.demo.llama_cpp_engine import LlamaCppDemo
        from logitkit_adapters.demo.mlx_lm_engine import MlxLmDemo
        from logitkit_adapters.demo.onnxruntime_genai_engine import OnnxRuntimeGenAiDemo
        from logitkit_adapters.demo.page import DemoPage, DemoReport
        from logitkit_adapters.demo.run import run_demo
        from logitkit_adapters.demo.transformers_engine import TransformersDemo
    try:
        if own:
            parse(arguments.regex)  # before an engine and its model are loaded
        given = {"beams": arguments.beams or 1, "max_new_tokens": arguments.max_new_tokens or 64}
        cases = (own_case(arguments.regex, arguments.prompt, **given),) if own else shipped_cases()
        known = (TransformersDemo(), MlxLmDemo(), LlamaCppDemo(), OnnxRuntimeGenAiDemo())
        engines = [engine for engine in known if engine.has_beams or any(case.beams == 1 for case in cases)]
        with ctrl_c_exits():
            missing = [engine.available() for engine in engines]
        usable = [engine for engine, what in zip(engines, missing, strict=True) if what is None]
        if not usable:
            raise ConfigurationError("; or ".join(what for what in missing if what is not None))
        page = None if arguments.html is None else DemoPage()
        report = DemoReport() if arguments.json else None
        valid = run_demo(usable, cases, console, page, report)
        if page is not None:
            write_page(arguments.html, page.html())
        if report is not None:
            print(json.dumps(report.to_dict(valid), indent=2))
        return 0 if valid else 1
    finally:
        console.done()
