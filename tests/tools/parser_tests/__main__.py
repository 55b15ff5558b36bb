"""Print how our formats read the texts in the tests of other projects' parsers, and each difference."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from logitkit import ToolFormat
from tests.tools.parser_tests.parser_formats import as_json, derived_formats
from tests.tools.parser_tests.suites import PLACES

Judgement = Literal["equal", "equal, other text", "not written", "text only", "different"]
# A text that several tests read is counted once, by the first of these.
ORDER: tuple[Judgement, ...] = ("different", "not written", "text only", "equal, other text", "equal")


def judgements(judged: Mapping[str, Mapping[str, Any]]) -> dict[tuple[str, str], tuple[Judgement, str]]:
    """Return what the tests of a project say of each text, by parser and text, with the name of a test.

    Args:
        judged: The results of `judging`, by the name of the test.
    """
    found: dict[tuple[str, str], tuple[Judgement, str]] = {}

    def add(reading: Mapping[str, Any], judgement: Judgement, name: str) -> None:
        key = reading["parser"], reading["text"]
        if key not in found or ORDER.index(judgement) < ORDER.index(found[key][0]):
            found[key] = judgement, name

    for name, test in judged.items():
        readings = test["readings"]
        if test["result"] == "passed":
            for reading in readings:
                add(reading, "equal" if test["texts"] == "read" else "equal, other text", name)
        elif test["result"] == "failed" and readings:
            # The test stopped at what it read last.
            last = readings[-1]
            if not last["writable"]:
                add(last, "not written", name)
            else:
                add(last, "different" if last["has marker"] else "text only", name)
        for reading in readings:
            if not reading["in pieces"]:
                add(reading, "different", f"{name}: in pieces, another turn is read")
    return found


def judge(suite: str, folder: Path, derived: Mapping[str, ToolFormat]) -> dict[str, dict[str, Any]]:
    """Run the tests of a project in a process of their own.

    Args:
        suite: The name of the project.
        folder: Its checkout.
        derived: The formats that were derived from chat templates.
    """
    with tempfile.TemporaryDirectory() as place:
        formats, result = Path(place) / "formats.json", Path(place) / "result.json"
        formats.write_text(as_json(derived), "utf-8")
        command = [
            sys.executable,
            "-m",
            "tests.tools.parser_tests.judging",
            suite,
            *map(str, (folder, formats, result)),
        ]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if not result.exists():
            raise SystemExit(f"the tests of {suite} did not run:\n{done.stdout[-2000:]}")
        found: dict[str, dict[str, Any]] = json.loads(result.read_text("utf-8"))
        return found


def show(suite: str, judged: Mapping[str, Mapping[str, Any]]) -> None:
    """Print the rows of a project, and its differences."""
    found = judgements(judged)
    counts: dict[str, Counter[str]] = {}
    for (parser, _), (judgement, _) in found.items():
        counts.setdefault(parser, Counter())[judgement] += 1
    for parser, row in sorted(counts.items()):
        equal = row["equal"] + row["equal, other text"]
        cells = (suite, parser, row.total(), equal, row["not written"], row["text only"], row["different"])
        print(f"| {' | '.join(map(str, cells))} |")
    missing = Counter(parser for test in judged.values() for parser in test["missing"])
    print(
        f"\n{suite}: "
        + ", ".join(f"no format for {parser} ({count} tests)" for parser, count in sorted(missing.items()))
    )
    print(f"{suite}: {json.dumps(Counter(test['result'] for test in judged.values()))}")
    for (parser, text), (judgement, name) in sorted(found.items()):
        if judgement == "different":
            test = judged[name.partition(": in pieces")[0]]
            said = f"{text[:200]!r} is read as {test['readings'][-1]['calls']}: {test['why'][:200]}"
            print(f"- {parser}, {name.rpartition('/')[2]}: {said}")
    print()


def main() -> None:
    """Run the tests of the projects that are given."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.parser_tests", description=__doc__)
    for suite in PLACES:
        parser.add_argument(f"--{suite}", type=Path, metavar="FOLDER", help=f"a checkout of {suite}")
    parser.add_argument(
        "--templates", type=Path, nargs="*", default=[], metavar="FOLDER", help="folders of chat templates"
    )
    given = parser.parse_args()
    derived = derived_formats([one.resolve() for one in given.templates])
    print("| tests of | parser | texts | read equal | cannot be written | text only | different |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for suite in PLACES:
        folder: Path | None = getattr(given, suite.replace("-", "_"))
        if folder is not None:
            show(suite, judge(suite, folder.resolve(), derived))


if __name__ == "__main__":
    main()
