"""Chats of 20 turns with and without a session: time to the first token of an answer, and positions that are fed, in each engine.

Each turn asks with the whole conversation so far, and the likeliest answer becomes a part of it. Beside a session stand the
engines' own ways: a cache that is kept and trimmed by hand (transformers, mlx-lm), the match of the prefix in `generate` of
llama-cpp-python, and its `LlamaRAMCache`. One conversation, and three that take turns. All ways write the same answers, which is
asserted first, and are timed in turns, on one thread. The model is the small one that ships, so that what is not the model weighs
more than with others. Run `pytest benchmarks/bench_sessions.py`, or `python -m benchmarks.bench_sessions`, which writes
`benchmarks/results/sessions.json` and `sessions.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.chats import ENGINES, Chats
from benchmarks.tables import Tables

RESULTS = Path(__file__).parent / "results"
TURNS = 20
ROUNDS = 7
CASES = {"one conversation": 1, "three conversations in turns": 3}
PACKAGES = {"transformers": "transformers", "mlx-lm": "mlx-lm", "llama.cpp": "llama-cpp-python"}


def measure(engine: Chats, turns: int, chats: int, rounds: int) -> dict[str, dict[str, Any]]:
    """Return the positions and the times of each way."""
    found: dict[str, dict[str, Any]] = {}
    expected = None
    for name, way in engine.ways.items():
        answers, positions = way.positions(engine.encode, turns, chats)
        assert expected in (None, answers), f"{name} writes something else"
        expected = answers
        found[name] = {"positions": positions}
    times: dict[str, list[list[tuple[float, float]]]] = {name: [] for name in found}
    for _ in range(rounds):
        for name, way in engine.ways.items():
            times[name].append([(first, last) for _, first, last in way.talk(engine.encode, turns, chats)])
    for name, runs in times.items():
        firsts = [statistics.median(run[turn][0] for run in runs) for turn in range(turns * chats)]
        found[name] |= {
            "first_token_s": firsts,
            "median_first_token_s": statistics.median(firsts),
            "last_turn_first_token_s": statistics.median(firsts[-chats:]),
            "total_s": statistics.median(sum(last for _, last in run) for run in runs),
        }
    return found


@pytest.mark.parametrize("chats", CASES.values(), ids=CASES)
@pytest.mark.parametrize("engine", ENGINES)
def test_chat(engine: str, chats: int, tables: Tables) -> None:
    found = measure(ENGINES[engine](), TURNS, chats, rounds=3)
    ours = found["logitkit Session"]["median_first_token_s"]
    columns = ("positions fed", "first token, median ms", "in the last turn, ms", "over the session's", "all turns, s")
    table = tables.table(f"A chat of {TURNS} turns in {engine}, {chats} at a time", "way", *columns)
    for name, row in found.items():
        median, last = row["median_first_token_s"], row["last_turn_first_token_s"]
        table.add(name, row["positions"], median * 1e3, last * 1e3, median / ours, row["total_s"])


def report(result: dict[str, Any]) -> str:
    """Write the results as Markdown."""
    lines = ["# Chats with and without a session", "", result["conditions"], ""]
    for engine, cases in result["engines"].items():
        for case, found in cases.items():
            ours = found["logitkit Session"]
            lines += [
                f"## {engine}, {case}",
                "",
                "| way | positions fed | first token, median ms | in the last turn, ms | over the session's | all turns, s |",
                "|---|---:|---:|---:|---:|---:|",
            ]
            for name, row in found.items():
                median, last = row["median_first_token_s"], row["last_turn_first_token_s"]
                over = median / ours["median_first_token_s"]
                times = f"{median * 1e3:.2f} | {last * 1e3:.2f} | {over:.2f}x | {row['total_s']:.2f}"
                lines.append(f"| {name} | {row['positions']:,} | {times} |")
            lines.append("")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=ENGINES, help="one engine")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--out", type=Path, default=RESULTS / "sessions.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    load = os.getloadavg()[0]
    engines = {
        name: {title: measure(make(), arguments.turns, chats, arguments.rounds) for title, chats in CASES.items()}
        for name, make in ENGINES.items()
        if arguments.only in (None, name)
    }
    versions = ", ".join(f"{name} {version(package)}" for name, package in PACKAGES.items())
    git = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    conditions = (
        f"logitkit {version('logitkit')}, {versions}, torch {torch.__version__}; {processor()}, one thread",
        f"load {load:.1f} at the beginning and {os.getloadavg()[0]:.1f} at the end; commit {git.stdout.strip()}",
        f"{arguments.turns} turns, medians of {arguments.rounds} rounds.",
    )
    result = {
        "conditions": "; ".join(conditions),
        "engines": engines,
    }
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    arguments.out.with_suffix(".md").write_text(report(result))
    print(report(result))


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


if __name__ == "__main__":
    main()
