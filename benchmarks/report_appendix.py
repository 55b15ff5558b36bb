"""Write the tables of grammars, tools, JSONSchemaBench and GPUs into the documentation: `python -m benchmarks.report_appendix`.

Reads `benchmarks/results`, and writes the marked parts of `docs/benchmarks-grammars.md`, `docs/benchmarks.md` and
`docs/performance.md`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from statistics import median
from typing import Any

from benchmarks.report import RESULTS, ROOT, fill_in
from benchmarks.report_json_schema import table

GRAMMARS, SCHEMAS, GPU = (
    ROOT / "docs" / name for name in ("benchmarks-grammars.md", "benchmarks.md", "performance.md")
)
LIBRARIES = ("logitkit", "XGrammar", "LLGuidance")
FIRST, STEP = "first mask, ms", "step, us"
REGEX = ("Regex", "Regex, ASCII")
A_FILE = re.compile(r"\.(gbnf|ebnf|lark)$")
PEERS_OF_TOOLS = ("LLGuidance", "XGrammar")


def number(value: float | None) -> str:
    """Write a number with two or more digits; a hyphen for None."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def _fastest_in_bold(values: list[float | None]) -> list[str]:
    least = min(value for value in values if value is not None)
    return [f"**{number(value)}**" if value == least else number(value) for value in values]


def grammars(result: dict[str, Any]) -> list[str]:
    """Return the table of `bench_grammars`."""
    columns = [*((FIRST, name) for name in LIBRARIES), *((STEP, name) for name in (*LIBRARIES, *REGEX))]
    rows: dict[str, list[float | None]] = {
        name: [median(found[what][library]) if library in found[what] else None for what, library in columns]
        for name, found in result["grammars"].items()
    }
    rows["median"] = [median(v for v in column if v is not None) for column in zip(*rows.values(), strict=True)]
    head = ["grammar", f"{FIRST}: logitkit", *LIBRARIES[1:], f"visited {STEP}: logitkit", *LIBRARIES[1:]]
    return table(
        [*head, "`Regex`", "`Regex`, ASCII"],
        [
            [name, *_fastest_in_bold(row[:3]), *_fastest_in_bold(row[3:6]), *map(number, row[6:])]
            for name, row in rows.items()
        ],
    )


def published(lines: Iterator[str]) -> list[str]:
    """Return the grammars of other projects that are files and were read, from the table of `real_grammars`."""
    rows = []
    for line in lines:
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) < 8 or cells[1] != "yes" or cells[0].startswith("grammars:") or not A_FILE.search(cells[0]):
            continue
        name, _, _, stacks, states, frames, automaton, first = cells[:8]
        times = [number(float(cell.replace(",", ""))) if cell else "-" for cell in (automaton, first)]
        rows.append([name, stacks.replace(", ", " to ") or "refused", states, frames, *times])
    return table(["grammar", "stacks", "states", "frames", "automaton, ms", "first mask, ms"], rows)


def tools(result: dict[str, Any]) -> list[str]:
    """Return the table of `bench_tool_calls`."""
    ours = ("logitkit, new tools", "logitkit, known tools")
    rows = []
    for count, found in result[FIRST].items():
        cells = [number(median(found[name])) if name in found else "" for name in (*ours, *PEERS_OF_TOOLS)]
        rows.append([f"{count} tool{'s' if int(count) > 1 else ''}, ms", *cells])
    steps = result[STEP]
    for title, place, part in (
        ("a step in free text, us", "text", "median"),
        ("a step in arguments, us", "arguments", "median"),
        ("99th percentile of these, us", "arguments", "p99"),
    ):
        names = ("logitkit", "logitkit", *PEERS_OF_TOOLS)
        rows.append([title, *(number(steps[place][name][part]) for name in names)])
    return table(["", *ours, *(f"{name} {result['versions'][name]}" for name in PEERS_OF_TOOLS)], rows)


def _read(name: str) -> Any:
    return json.loads((RESULTS / name).read_text("utf-8"))


def grammars_page(page: str) -> str:
    """Return the page on grammars with the tables of the results."""
    batches = _read("grammar_batches.json")
    page = fill_in(page, "grammars", grammars(_read("grammars.json")))
    rows = [[name, number(step)] for name, step in batches["batches"]]
    page = fill_in(page, "batches", table(["32 rows of 32 grammars", STEP], rows))
    page = fill_in(page, "stacks", table(["stacks of a row", STEP], [[n, number(s)] for n, s in batches["stacks"]]))
    lines = iter((RESULTS / "real_grammars.md").read_text("utf-8").splitlines())
    return fill_in(page, "published", published(lines))


def schemas_page(page: str) -> str:
    """Return the page on schemas with the tables of JSONSchemaBench and of tools."""
    for name in ("jsonschemabench", "jsonschemabench_xgrammar", "schemastore"):
        report = (RESULTS / f"{name}.md").read_text("utf-8")
        # The page leaves out the lists of refusals.
        short = report[report.index("\n") : report.index("**Refused by logitkit**")].strip()
        page = fill_in(page, name, short.split("\n"))
    return fill_in(page, "tools", tools(_read("tool_calls.json")))


def gpu_page(page: str) -> str:
    """Return the page on performance with the table of `bench_cuda`."""
    result = _read("cuda.json")
    equality, decoding = result["equality"], result["decoding"]
    rows = [
        [name, count, *map(_microseconds, (*(found[way] for way in ("advance", "mask", "both")), host, found["pass"]))]
        for count, of_count in result["steps"].items()
        for name, found in of_count.items()
        for host in [found["host, advance"] + found["host, mask"]]
    ]
    head = ["us", "rows", "advance", "mask", "both", "the host, for both", "one pass"]
    said = f"{result['device']}, torch {result['torch']}; {equality['rows of the registry']} processors of the tests in three "
    said += f"dtypes and {equality['walked']['rows']:,} random rows, {len(equality['differences'])} differences."
    lines = [*table(head, rows), said, ""]
    lines += table(
        ["ms for a token of a model of a billion random weights", "rows", "without a JSON Schema", "with it"],
        [
            [name, count, *(f"{found[f'{constraint} a constraint, {way}']:.2f}" for constraint in ("without", "with"))]
            for count, found in decoding.items()
            for name, way in (("captured in a CUDA graph", "captured"), ("not captured", "eager"))
        ],
    )
    return fill_in(page, "gpu", lines)


def _microseconds(value: float) -> str:
    """Write a time with one digit after the point, or with none from 100 on."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def main() -> None:
    GPU.write_text(gpu_page(GPU.read_text("utf-8")), "utf-8")
    GRAMMARS.write_text(grammars_page(GRAMMARS.read_text("utf-8")), "utf-8")
    SCHEMAS.write_text(schemas_page(SCHEMAS.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
