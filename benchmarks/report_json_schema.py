"""Write what `bench_json_schema` found as tables: benchmarks/results/json_schema.md, and a section of docs/benchmarks.md.

python -m benchmarks.report_json_schema
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.bench_json_schema import RESULTS
from tests.json_schema.corpus import Case, cases
from tests.json_schema.judge import LISTS, NAMED, ONE

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
BEGIN, END = "<!-- peers -->\n", "<!-- end of peers -->\n"
OURS = "logitkit"
NO_KEYWORDS = {
    "$comment",
    "$schema",
    "default",
    "deprecated",
    "description",
    "discriminator",
    "example",
    "examples",
    "title",
}
Record = dict[str, Any]
Records = dict[str, dict[str, Record]]


def keywords(schema: Any) -> set[str]:
    """Return the keywords that a schema and those in it have, annotations left out."""
    if not isinstance(schema, dict):
        return set()
    found = {keyword for keyword in schema if keyword not in NO_KEYWORDS and not keyword.startswith("x-")}
    for keyword, value in schema.items():
        inside: Iterable[Any] = ()
        if keyword in NAMED and isinstance(value, dict):
            inside = value.values()
        elif keyword in LISTS and isinstance(value, list):
            inside = value
        elif keyword in ONE:
            inside = (value,)
        for schema_inside in inside:
            found |= keywords(schema_inside)
    return found


def compiled(record: Record) -> bool:
    """Whether a library took a schema, and came to an end."""
    return "documents" in record


def right(record: Record) -> bool:
    """Whether it then judged every document rightly."""
    return compiled(record) and not record["wrong_accepts"] and not record["wrong_rejects"]


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    lines = [f"| {' | '.join(head)} |", f"|---|{'---:|' * (len(head) - 1)}"]
    return [*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows), ""]


def coverage(names: list[str], records: Records) -> list[str]:
    rows = []
    for name in names:
        mine = records[name].values()
        taken = [r for r in mine if compiled(r)]
        rows.append(
            [
                name,
                f"{len(taken)} of {len(mine)}",
                sum("refused" in r for r in mine),
                sum("unfinished" in r and not compiled(r) for r in mine),
                f"{sum(map(right, mine))}",
                _of_documents(taken, "wrong_accepts"),
                _of_documents(taken, "wrong_rejects"),
                sum(r["documents"] for r in taken),
            ]
        )
    head = (
        "library",
        "schemas compiled",
        "refused",
        "not finished",
        "all documents right",
        "wrong accepts (in schemas)",
    )
    return table((*head, "wrong rejects (in schemas)", "documents shown"), rows)


def _of_documents(records: list[Record], kind: str) -> str:
    return f"{sum(len(r[kind]) for r in records)} ({sum(bool(r[kind]) for r in records)})"


def times(names: list[str], records: Records, key: str, unit: float, digits: int) -> list[str]:
    rows = []
    ours = records[OURS]
    for name in names:
        found = {case: r[key] * unit for case, r in records[name].items() if key in r}
        if not found:
            rows.append([name, 0, *[""] * 6])
            continue
        row = [name, len(found), *(f"{value:.{digits}f}" for value in spread(list(found.values())))]
        both = [case for case in found if key in ours[case]]
        beside = [found[case] / (ours[case][key] * unit) for case in both]
        quicker = sum(ratio < 1 for ratio in beside)
        rows.append(
            [
                *row,
                *(
                    ["", ""]
                    if name == OURS or not both
                    else [f"{statistics.median(beside):.2f}x", f"{quicker} of {len(both)}"]
                ),
            ]
        )
    return table(("library", "schemas", "median", "p95", "worst", "sum", "peer / ours: median", "ahead of us on"), rows)


def spread(values: list[float]) -> tuple[float, float, float, float]:
    """Return the median, the 95th percentile, the most and the sum."""
    ordered = sorted(values)
    return (
        statistics.median(ordered),
        ordered[min(int(len(ordered) * 0.95), len(ordered) - 1)],
        ordered[-1],
        sum(ordered),
    )


def by_keyword(names: list[str], records: Records, corpus: dict[str, Case]) -> list[str]:
    """Say of each keyword in how many schemas it stands, and of how many each library judged all documents rightly."""
    of: dict[str, list[str]] = {}
    for case in records[OURS]:
        for keyword in keywords(corpus[case].schema):
            of.setdefault(keyword, []).append(case)
    rows: list[list[object]] = []
    for keyword in sorted(of, key=lambda k: (-len(of[k]), k)):
        row: list[object] = [f"`{keyword}`", len(of[keyword])]
        for name in names:
            mine = [records[name][case] for case in of[keyword]]
            row.append(f"{sum(map(right, mine))} ({sum(map(compiled, mine))})")
        rows.append(row)
    return table(("keyword", "schemas", *names), rows)


def losses(names: list[str], records: Records) -> list[str]:
    lines = []
    ours = records[OURS]
    refused = {case: r["refused"] for case, r in ours.items() if not compiled(r)}
    for case, reason in refused.items():
        takers = [name for name in names if name != OURS and compiled(records[name][case])]
        judged = "; ".join(
            f"{name} takes it{'' if right(records[name][case]) else ', with wrong verdicts'}" for name in takers
        )
        lines.append(f"- We refuse `{case}`: {reason}. {judged or 'No peer takes it'}.")
    lines += [f"- We have {line}" for line in wrong_verdicts(ours, 3)]
    for key, unit, what, digits in (
        ("first_mask_s", 1e3, "Schema to first masked row, ms", 1),
        ("step_1_s", 1e6, "Step of one row, us", 0),
        ("step_32_s", 1e6, "Step of 32 rows, us", 0),
    ):
        for name in names:
            if name == OURS:
                continue
            theirs = records[name]
            ahead = [c for c in ours if key in ours[c] and key in theirs[c] and theirs[c][key] < ours[c][key]]
            if not ahead:
                continue
            both = sum(key in ours[c] and key in theirs[c] for c in ours)
            ahead.sort(key=lambda c: theirs[c][key] / ours[c][key])
            pairs = (f"{c} ({ours[c][key] * unit:.{digits}f} : {theirs[c][key] * unit:.{digits}f})" for c in ahead)
            lines.append(f"- {what}, {name} is ahead on {len(ahead)} of {both}: {', '.join(pairs)}.")
    return [*lines, ""]


def wrong_verdicts(records: dict[str, Record], most: int) -> list[str]:
    return [
        f"{kind.replace('_', ' ')} in `{case}`: {', '.join(f'`{text}`' for text in record[kind][:most])}"
        for case, record in records.items()
        for kind in ("wrong_accepts", "wrong_rejects")
        if record.get(kind)
    ]


def steps(found: dict[str, dict[str, dict[str, float]]]) -> list[str]:
    rows = []
    for name, batches in found.items():
        for batch, of in batches.items():
            micro = {kind: seconds * 1e6 for kind, seconds in of.items()}
            ratios = [f"{micro[kind] / micro['Regex']:.2f}x" for kind in ("flat", "nested")]
            rows.append(
                [
                    name,
                    batch.replace("_", " "),
                    *(f"{micro[kind]:.1f}" for kind in ("Regex", "flat", "nested")),
                    *ratios,
                ]
            )
    return table(("text", "rows", "Regex", "flat", "recursive", "flat / Regex", "recursive / Regex"), rows)


def write(result: Record) -> tuple[str, str]:
    """Return the report, and the section for the documentation."""
    records: Records = {}
    for record in result["records"]:
        records.setdefault(record["subject"], {})[record["case"]] = record
    names = list(records)
    corpus = {case.name: case for case in cases()}
    machine, versions = result["machine"], result["versions"]
    tables = [record["table_bytes"] / 1e3 for record in records[OURS].values() if "table_bytes" in record]
    middle, p95, most, _ = spread(tables)
    libraries = ", ".join(f"{name} {version}" for name, version in versions.items())
    head = (
        f"{libraries}; {machine['processor']}, one thread; vocabulary {result['vocabulary']}; {len(records[OURS])} schemas. "
        f"outlines-core is stopped after {result['cap_s']:g} s of a compilation."
    )
    short = [
        f"{head} {result.get('note', '')}".rstrip(),
        "",
        *coverage(names, records),
        "**Schema to first masked row, ms**",
        "",
        *times(names, records, "first_mask_s", 1e3, 1),
        "**A mask and a step, one row, us**",
        "",
        *times(names, records, "step_1_s", 1e6, 0),
        "**A mask and a step, 32 rows, us**",
        "",
        *times(names, records, "step_32_s", 1e6, 0),
        f"Our tables: median {middle:.0f} kB, 95th percentile {p95:.0f} kB, worst {most:.0f} kB.",
        "",
    ]
    if "steps" in result:
        short += ["**A step of `Regex` and of schemas for the same texts, us**", "", *steps(result["steps"])]
    keyword_table = [
        "**Schemas with all documents right, by keyword (in brackets: compiled)**",
        "",
        *by_keyword(names, records, corpus),
    ]
    lost = ["**Every loss** (ours : theirs)", "", *losses(names, records)]
    before, behind = machine["load_before"], machine["load_after"]
    load = f"Load {before:.1f} at the beginning and {behind:.1f} at the end; commit {result['commit']}."
    wrong = ["## Wrong verdicts", ""]
    for name in names:
        wrong += [f"- {name}, {line}" for line in wrong_verdicts(records[name], 99)]
    refused = ["", "## Refused", ""]
    for name in names:
        refused += [f"- {name}, {case}: {r['refused']}" for case, r in records[name].items() if "refused" in r]
    section = "\n".join([*short, *keyword_table, *lost])
    return "\n".join(
        ["# JSON Schema beside the peers", "", *short, load, "", *keyword_table, *lost, *wrong, *refused, ""]
    ), section


def main() -> None:
    report, section = write(json.loads(RESULTS.read_text("utf-8")))
    RESULTS.with_suffix(".md").write_text(report, "utf-8")
    before, rest = PAGE.read_text("utf-8").split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(f"{before}{BEGIN}\n{section}\n{END}{after}", "utf-8")


if __name__ == "__main__":
    main()
