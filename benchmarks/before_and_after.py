"""Compare this checkout with an older one: `python -m benchmarks.before_and_after BEFORE [--repeats 10]`.

BEFORE is a checkout of the older commit (`git worktree add ../before COMMIT`). In each repeat, a fresh process times the cases of
`compared_cases` in this checkout, in BEFORE, and in this checkout again; the order rotates. The second run here is the
control, and shows what chance does. Printed are the ratios after : before with their 95% intervals. The exit
status is 1 if an interval lies above 1.05 as a whole.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.checkouts import HERE, answer_of
from benchmarks.suite import SUITE

# The 97.5% quantile of Student's t by degrees of freedom.
QUANTILES = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26, 14: 2.14, 19: 2.09}
SLOWER = 1.05


def timed(checkout: Path, patterns: Path) -> dict[str, float]:
    """Return the seconds of all cases in a checkout."""
    found: dict[str, float] = answer_of(checkout, "compared_cases.py", str(patterns))
    return found


def interval(ratios: list[float]) -> tuple[float, float, float]:
    """Return the geometric mean of ratios, and its 95% interval."""
    logs = [math.log(ratio) for ratio in ratios]
    mean, half = statistics.mean(logs), math.inf
    if len(logs) > 1:
        quantile = QUANTILES[max(n for n in QUANTILES if n <= len(logs) - 1)]
        half = quantile * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def main(before: Path, repeats: int, patterns: int) -> int:
    """Print a line for each case; return the exit status."""
    sides = {"after": HERE, "before": before, "control": HERE}
    times: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "patterns.json"
        file.write_text(json.dumps([entry.pattern for entry in SUITE[:patterns]]), encoding="utf-8")
        for repeat in range(repeats):
            names = list(sides)
            for name in names[repeat % 3 :] + names[: repeat % 3]:
                times[name].append(timed(sides[name], file))
            print(f"repeat {repeat + 1} of {repeats}", file=sys.stderr, flush=True)
    slower = []
    print("| case | before, us | after : before | control |\n|---|---|---|---|")
    for case in times["after"][0]:
        after, older, control = ([run[case] for run in times[side]] for side in ("after", "before", "control"))
        mean, low, high = interval([a / b for a, b in zip(after, older, strict=True)])
        noise = interval([c / a for a, c in zip(after, control, strict=True)])
        print(
            f"| {case} | {statistics.median(older) * 1e6:,.0f} | {mean:.2f} ({low:.2f} to {high:.2f}) | "
            f"{noise[0]:.2f} ({noise[1]:.2f} to {noise[2]:.2f}) |"
        )
        if low > SLOWER:
            slower.append(case)
    print(f"\nSlower: {', '.join(slower) or 'none'}.")
    return 1 if slower else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Compare the speed of this checkout with that of an older one.")
    parser.add_argument("before", type=Path, help="a checkout of the older commit")
    parser.add_argument("--repeats", type=int, default=10, help="how often each checkout is timed (default: 10)")
    parser.add_argument(
        "--patterns", type=int, default=24, help="how many patterns of the suite are compiled (default: 24)"
    )
    given = parser.parse_args()
    sys.exit(main(given.before.resolve(), given.repeats, given.patterns))
