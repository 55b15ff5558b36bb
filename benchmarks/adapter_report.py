"""Publish the cost of adapters: `python -m benchmarks.adapter_report` writes `adapters.json` and `adapters.md`.

It repeats each measurement of `bench_adapters` and takes the median. With `--tables` it only rewrites the tables from the
numbers in `adapters.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from benchmarks.adapter_calls import ADAPTERS
from benchmarks.bench_adapters import GENERATIONS, NARROW, RECORDS, RUNS, WIDTH, both, check, measured, speeds
from benchmarks.circumstances import processor

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "benchmarks-engines.md"
BEGIN, END = "<!-- speed -->", "<!-- end of speed -->"
LENGTHS = (100, 2000)
PACKAGES = ("transformers", "mlx-lm", "mlx", "llama-cpp-python", "torch", "outlines", "xgrammar", "llguidance")


def step_costs(repetitions: int) -> Iterator[dict[str, Any]]:
    """Yield the cost of a step of each adapter, in us, beyond core and forced copies."""
    for kind, one in both().items():
        for adapter in ADAPTERS:
            for rows in adapter.rows:
                check(adapter, rows, WIDTH, one)
                for length in LENGTHS:
                    runs = [measured(adapter, rows, length, WIDTH, one)[0] for _ in range(repetitions)]
                    found = {
                        "processor": kind,
                        "adapter": adapter.name,
                        "rows": rows,
                        "history": length,
                        "call_us": statistics.median(run["call"] for run in runs),
                        "core_and_copy_us": statistics.median(run["bare"] for run in runs),
                        "adds_us": statistics.median(run["call"] - run["bare"] for run in runs),
                        "budget_us": adapter.budget(rows, length),
                    }
                    if kind == "nothing":
                        narrow = [measured(adapter, rows, length, NARROW, one)[0] for _ in range(repetitions)]
                        found["narrow_adds_us"] = statistics.median(run["call"] - run["bare"] for run in narrow)
                    yield found


def engine_speeds(generations: int, only: str | None) -> Iterator[dict[str, Any]]:
    """Yield the tokens per second of each engine, or of one, with each hook."""
    for engine, rows in RUNS:
        if only not in (None, engine.name):
            continue
        run = engine(RECORDS, rows)
        steps, took, broken = speeds(run, generations)
        yield {
            "engine": run.name,
            "rows": rows,
            "steps": steps,
            "tokens_per_second": {name: steps * rows / total for name, total in took.items()},
            "does_not_run": broken,
        }


def report(result: dict[str, Any]) -> str:
    """Write the results as Markdown."""
    lines = ["# The cost of adapters", "", result["conditions"], ""]
    lines += ["## Tokens per second", "", *speed_lines(result), ""]
    for row in result["engines"]:
        for name, reason in row["does_not_run"].items():
            lines.append(f"- {name} does not run in {row['engine']} here: {reason.splitlines()[0]}")
    lines += ["", f"## A step beside the bare core, {WIDTH:,} columns of float32, us", "", *step_lines(result), ""]
    return "\n".join(lines)


def speed_lines(result: dict[str, Any]) -> Iterator[str]:
    names = list(dict.fromkeys(name for row in result["engines"] for name in row["tokens_per_second"]))
    yield "| engine | " + " | ".join(names) + " |"
    yield "|---|" + "---:|" * len(names)
    for row in result["engines"]:
        found = row["tokens_per_second"]
        cells = []
        for name in names:
            speed, ahead = found.get(name), name not in ("logitkit", "without a hook")
            lost = speed is not None and ahead and speed > found["logitkit"]
            cells.append("" if speed is None else f"**{speed:,.0f}**" if lost else f"{speed:,.0f}")
        yield f"| {row['engine']}, {row['rows']} row{'s' * (row['rows'] > 1)} | " + " | ".join(cells) + " |"


def step_lines(result: dict[str, Any]) -> Iterator[str]:
    yield "| adapter, rows x history | around | call | core and forced copy | the adapter adds | with 8 columns | budget |"
    yield "|---|---|---:|---:|---:|---:|---:|"
    for row in result["steps"]:
        adds, budget, narrow = row["adds_us"], row["budget_us"], row.get("narrow_adds_us")
        over = f"**{adds:,.0f}**" if adds > budget else f"{adds:,.0f}"
        yield (
            f"| {row['adapter']}, {row['rows']} x {row['history']} | {row['processor']} | {row['call_us']:,.0f} "
            f"| {row['core_and_copy_us']:,.0f} | {over} | {'' if narrow is None else f'{narrow:,.0f}'} | {budget:,.0f} |"
        )


def publish(result: dict[str, Any], out: Path) -> None:
    """Write the results, their tables, and those of the page."""
    out.write_text(json.dumps(result, indent=1) + "\n")
    out.with_suffix(".md").write_text(report(result))
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    body = "\n".join(["", "", *speed_lines(result), "", *step_lines(result), "", ""])
    PAGE.write_text(before + BEGIN + body + END + after)


def moment(load: float) -> str:
    """Say how busy the machine was, and what was measured."""
    git = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return f"load {load:.1f} at the beginning and {os.getloadavg()[0]:.1f} at the end; commit {git.stdout.strip()}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=3, help="how often each step is measured")
    parser.add_argument(
        "--generations", type=int, default=GENERATIONS, help="how often each hook of an engine generates"
    )
    parser.add_argument("--out", type=Path, default=RESULTS / "adapters.json")
    parser.add_argument(
        "--only", choices=sorted({engine.name for engine, _ in RUNS}), help="measure only this engine's speed again"
    )
    parser.add_argument("--tables", action="store_true", help="only rewrite the tables")
    arguments = parser.parse_args()
    if arguments.tables:
        publish(json.loads(arguments.out.read_text()), arguments.out)
        return
    torch.set_num_threads(1)
    load = os.getloadavg()[0]
    engines = list(engine_speeds(arguments.generations, arguments.only))
    if arguments.only:
        result = json.loads(arguments.out.read_text())
        updated = {(row["engine"], row["rows"]): row for row in engines}
        result["engines"] = [updated.get((row["engine"], row["rows"]), row) for row in result["engines"]]
        result["conditions"] += (
            f" {arguments.only} measured again: {moment(load)}; medians of {arguments.generations} generations."
        )
        publish(result, arguments.out)
        return
    steps = list(step_costs(arguments.repetitions))
    conditions = (
        ", ".join(f"{name} {version(name)}" for name in ("logitkit", *PACKAGES)),
        f"{processor()}, CPU time of one thread",
        moment(load),
        f"medians of {arguments.generations} generations and of {arguments.repetitions} runs of a step.",
    )
    publish({"conditions": "; ".join(conditions), "engines": engines, "steps": steps}, arguments.out)
    print(report(json.loads(arguments.out.read_text())))


if __name__ == "__main__":
    main()
