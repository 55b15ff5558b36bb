"""Whether explanations slow a hook that does not use them, and what an explanation costs: `python -m benchmarks.bench_explain`.

In each repeat, fresh processes time the same steps of the hook for transformers: one that has never explained anything, one
that has explained, printed and saved a refusal of the same constraint before, and another that has not. The order rotates. The
last one is an A/A control: its ratio to the first shows what chance does. Processor time counts, on one thread, over Tekken
(131,072 ids). Printed are the ratios to the first with their 95% intervals; the exit status is 1 if explaining made steps
slower by more than 5%, with all of its interval above that, or if an explanation of 1,000 tokens takes more than a second.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.before_and_after import SLOWER, interval
from benchmarks.circumstances import commit, processor

RESULTS = Path(__file__).with_name("results") / "explain.json"
SIDES = ("never explained", "explained before", "control")
# Steps by rows.
STEPS = {1: 400, 32: 60}
WARMUP = 10
EXPLAINED = 1_000
MOST_SECONDS = 1.0
REASONS = "logitkit.explaining.refusals"


def hook_seconds(constraint: Any, text: list[int], rows: int) -> float:
    """Return the median of the processor seconds of a hook's steps, each with one token of a text more."""
    import torch

    from logitkit_adapters.transformers import logits_processor

    hook = logits_processor(constraint)
    width, prompt = constraint.vocabulary.size, torch.zeros(rows, 4, dtype=torch.int64)
    ids = torch.cat([prompt, torch.tensor(text).expand(rows, -1)], 1)
    scores, took = torch.zeros(rows, width), []
    for step in range(WARMUP + STEPS[rows]):
        shown = ids[:, : prompt.shape[1] + step]
        begin = time.thread_time()
        masked = hook(shown, scores)
        took.append(time.thread_time() - begin)
        assert bool((masked[:, ids[0, prompt.shape[1] + step]] == 0).all()), "a legal token is masked"
    return statistics.median(took[WARMUP:])


def explain_everything(constraint: Any, text: list[int]) -> float:
    """Explain a long text that is refused at its end, in all views; return the processor seconds of the explanation alone."""
    import logitkit as lk

    vocabulary = constraint.vocabulary
    refused = next(i for i, data in enumerate(vocabulary.tokens) if data == b"!")
    begin = time.process_time()
    found = lk.explain(constraint, vocabulary, [], [*text[: EXPLAINED - 1], refused])
    took = time.process_time() - begin
    assert len(found.steps) == EXPLAINED
    assert found.refusal is not None
    assert found.refusal is found.steps[-1].refusal
    assert str(found)
    assert found.to_html()
    assert found.to_dict()
    assert constraint.matches(constraint.example())
    return took


def texts(vocabulary: Any) -> dict[str, tuple[Any, list[int]]]:
    """Return constraints, each with the beginning of a legal text of 1,000 tokens."""
    import logitkit as lk

    ids = {data: i for i, data in enumerate(vocabulary.tokens)}
    words = [ids[b" the"], ids[b" tea"], ids[b"s"]]
    long = (words * EXPLAINED)[:EXPLAINED]
    schema = {"type": "array", "items": {"type": "integer"}}
    numbers = [ids[b"["], *([ids[b"7"], ids[b","]] * EXPLAINED)][:EXPLAINED]
    return {
        "Regex": (lk.Regex("[a-z ]*", vocabulary), long),
        "JsonSchema": (lk.JsonSchema(schema, vocabulary), numbers),
    }


def timed(side: str) -> dict[str, float]:
    """Return what one process measures: the seconds of a step by constraint and rows, and of an explanation."""
    import torch

    from tests.vocabularies import tekken

    torch.set_num_threads(1)
    found: dict[str, float] = {}
    for name, (constraint, text) in texts(tekken()).items():
        if side == "explained before":
            found[f"explain, {name}"] = explain_everything(constraint, text)
        for rows in STEPS:
            found[f"{name}, rows {rows}"] = hook_seconds(constraint, text, rows)
    assert (REASONS in sys.modules) == (side == "explained before"), "reasons are loaded only where they are used"
    return found


def in_a_process(side: str) -> dict[str, float]:
    """Return what a fresh process measures."""
    command = [sys.executable, "-m", "benchmarks.bench_explain", "--side", side]
    done = subprocess.run(
        command, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def compared(repeats: int, run: Callable[[str], dict[str, float]] = in_a_process) -> dict[str, Any]:
    """Return the medians and ratios of all steps, and the seconds of explanations."""
    times: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    for repeat in range(repeats):
        for turn in range(len(SIDES)):
            side = SIDES[(repeat + turn) % len(SIDES)]
            times[side].append(run(side))
    first, explained, control = (times[side] for side in SIDES)
    steps = {
        case: {
            "step_us": 1e6 * statistics.median(one[case] for one in first),
            "explained_before": interval([b[case] / a[case] for a, b in zip(first, explained, strict=True)]),
            "control": interval([b[case] / a[case] for a, b in zip(first, control, strict=True)]),
        }
        for case in first[0]
    }
    own = [case for case in explained[0] if case not in steps]
    return {
        "commit": commit(),
        "processor": processor(),
        "repeats": repeats,
        "steps": steps,
        "explain_seconds": {case: statistics.median(one[case] for one in explained) for case in own},
    }


def main(repeats: int) -> int:
    """Measure, print and write the results; return the exit status."""
    found = compared(repeats)
    for case, step in found["steps"].items():
        used, control = ("{:.3f} [{:.3f}, {:.3f}]".format(*step[side]) for side in ("explained_before", "control"))
        print(f"{case:22} {step['step_us']:8.1f} us   explained before {used}   control {control}")
    for case, seconds in found["explain_seconds"].items():
        print(f"{case:22} {seconds:8.3f} s for {EXPLAINED:,} tokens")
    RESULTS.write_text(json.dumps(found, indent=2) + "\n")
    slower = any(step["explained_before"][1] > SLOWER for step in found["steps"].values())
    return int(slower or max(found["explain_seconds"].values()) > MOST_SECONDS)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measure what explanations cost a hook, and themselves.")
    parser.add_argument("--repeats", type=int, default=10, help="how often each side is timed (default: 10)")
    parser.add_argument("--side", choices=SIDES, help="measure one side in this process, and print it as JSON")
    given = parser.parse_args()
    if given.side is not None:
        print(json.dumps(timed(given.side)))
        sys.exit()
    sys.exit(main(given.repeats))
