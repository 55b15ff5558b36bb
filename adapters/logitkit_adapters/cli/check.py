"""The commands `logitkit check-*`: what a definition compiles to, and whether a text is legal."""

from __future__ import annotations

import argparse
from typing import Any

from logitkit_adapters.cli.definitions import KINDS, add_shared, compiled
from logitkit_adapters.cli.usage import add_command, ctrl_c_exits, text_argument, write_results

__all__ = ["add", "run"]

EXAMPLES = 3


def add(commands: Any) -> None:
    """Add the commands to a parser.

    Args:
        commands: The commands of the parser.
    """
    for kind, (value, what) in KINDS.items():
        says = f"compile {what.partition(';')[0].partition(' (')[0]}, and show its size, time, examples and warnings"
        parser = add_command(commands, f"check-{kind}", says, run)
        parser.add_argument("definition", metavar=value, type=text_argument, help=what)
        parser.add_argument(
            "--text", type=text_argument, help="check this text; the exit status is 1 if it is illegal or incomplete"
        )
        add_shared(parser, kind)
        parser.set_defaults(kind=kind)


def run(arguments: argparse.Namespace) -> int:
    """Run a command, and return its exit status.

    Args:
        arguments: The parsed arguments.

    Raises:
        UsageError: A file or folder cannot be used.
        LogitkitError: The definition does not compile.
    """
    with ctrl_c_exits():
        import logitkit as lk
        from logitkit.explaining.reason import reason_lines, verdict

    constraint, seconds, heard = compiled(arguments.kind, arguments.definition, arguments)
    vocabulary, automaton = constraint.vocabulary, constraint.automaton
    report = {
        "vocabulary": vocabulary.size,
        "states": automaton.states,
        "classes": automaton.classes,
        "bytes": automaton.nbytes,
        "compile_seconds": round(seconds, 6),
        "examples": [constraint.example(seed=seed) for seed in range(EXAMPLES)],
        "warnings": heard,
        "legal": None,
        "explanation": None,
    }
    said = []
    if arguments.text is not None:
        explanation = lk.explain(constraint, vocabulary, [], arguments.text)
        report["legal"] = explanation.complete
        report["explanation"] = explanation.to_dict()
        said = [verdict(explanation), *reason_lines(explanation)]
    write_results(arguments.json, report, [*_lines(report), *said])
    return 1 if report["legal"] is False else 0


def _lines(report: dict[str, Any]) -> list[str]:
    """Return a report as lines of text, without the explanation of a text."""
    from logitkit.explaining.token_texts import quoted

    return [
        f"states    {report['states']:,}",
        f"classes   {report['classes']:,} of {report['vocabulary']:,} tokens",
        f"memory    {report['bytes']:,} bytes",
        f"compiled  in {1000 * report['compile_seconds']:.1f} ms",
        *(f"example   {quoted(example)}" for example in report["examples"]),
        *(f"warning   {warning}" for warning in report["warnings"]),
    ]
