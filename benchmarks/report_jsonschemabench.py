"""Print what `bench_json_schema --corpus` or `bench_schemastore` found: python -m benchmarks.report_jsonschemabench RESULTS"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from pathlib import Path

from benchmarks.report_json_schema import OURS, Record, Records, coverage, spread, table, times, wrong_verdicts


def reason_of(refused: str) -> str:
    """Return a refusal without what differs from schema to schema: places, names, texts and numbers."""
    text = re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\S*#\S*", "...", refused)
    return re.sub(r"\d[\d,.]*", "N", text)[:110]


def refusals(record_of: dict[str, Record]) -> list[str]:
    """Count the refusals of a library by reason."""
    reasons = Counter(reason_of(record["refused"]) for record in record_of.values() if "refused" in record)
    return table(("reason", "schemas"), [(reason.replace("|", "/"), count) for reason, count in reasons.most_common()])


def report(result: Record) -> str:
    """Return the report as Markdown."""
    records: Records = {}
    for record in result["records"]:
        records.setdefault(record["subject"], {})[record["case"]] = record
    names, machine = list(records), result["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    drawn = f", drawn with the seed {result['seed']}" if "seed" in result else ""
    head = (
        f"{len(records[OURS])} schemas of snapshot {result['snapshot']}{drawn}; {versions}; "
        f"{machine['processor']}, one thread, load {machine['load_before']:.1f} at the beginning; vocabulary "
        f"{result['vocabulary']}; compiling is stopped after {result['cap_s']:g} s; logitkit's commit {result['commit']}."
    )
    lines = [f"# {result.get('corpus', 'JSONSchemaBench')}", "", head, "", *coverage(names, records)]
    if others := sum(record.get("other_order", 0) for record in records[OURS].values()):
        lines += [f"{others} documents are taken by {OURS} with their members in another order.", ""]
    if result.get("not_judged"):
        names_of = ", ".join(f"`{name}`" for name in result["not_judged"])
        lines += [f"`jsonschema` gives no verdict on documents of {names_of}.", ""]
    for title, key, unit, digits in (
        ("Schema to first masked row, ms", "first_mask_s", 1e3, 1),
        ("Schema to refusal, ms", "refused_s", 1e3, 1),
        ("A mask and a step, one row, us", "step_1_s", 1e6, 0),
        ("A mask and a step, 32 rows, us", "step_32_s", 1e6, 0),
    ):
        if any(key in record for record in records[OURS].values()):
            lines += [f"**{title}**", "", *times(names, records, key, unit, digits)]
    tables = [record["table_bytes"] / 1e6 for record in records[OURS].values() if "table_bytes" in record]
    if tables:
        middle, p95, most, _ = spread(tables)
        lines += [f"Our tables: median {middle:.2f} MB, 95th percentile {p95:.1f} MB, worst {most:.0f} MB.", ""]
    for name in names:
        if any("refused" in record for record in records[name].values()):
            lines += [f"**Refused by {name}**", "", *refusals(records[name])]
        if wrong := wrong_verdicts(records[name], 3):
            lines += [f"**Wrong verdicts of {name}**", "", *(f"- {line}" for line in wrong), ""]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    print(report(json.loads(parser.parse_args().results.read_text("utf-8"))))


if __name__ == "__main__":
    main()
