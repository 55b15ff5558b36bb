"""The times of logitkit and of its peers for each pattern, from the results of the benchmark."""

from __future__ import annotations

import json
from itertools import count
from math import ceil, floor, log10

from pictures.svg import MARGIN, WIDTH, Picture

from benchmarks.report import LABELS, MEASURES, OURS, PEERS, RESULTS, by_pattern

__all__ = ["draw"]

PANELS = {
    "compile": "Compile, to the first mask (ms)",
    "step_1": "One step, 1 row (µs)",
    "step_32": "One step, 32 rows (µs)",
}
ROW, TOP, LEFT, RIGHT, GAP = 20, 136, 180, 36, 46


def _mark(library: int, x: float, y: float) -> str:
    """Return the mark of a library: circle, square, triangle, diamond."""
    shapes = ("m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z", "m-3.5-3.5h7v7h-7z", "m0-4.5 4.5 8h-9z", "m0-5 5 5-5 5-5-5z")
    return f'<path class="m{library}" d="M{x:.1f} {y:.1f}{shapes[library]}"/>'


def draw() -> str:
    """Return the picture."""
    result = json.loads((RESULTS / "peers.json").read_text("utf-8"))
    key, found = next(iter(result["vocabularies"].items()))
    patterns = by_pattern(found["records"])
    names = sorted((n for n in result["suite"] if n in patterns), key=lambda n: patterns[n][OURS]["first_mask_s"])
    picture = Picture(
        "Compile time and step time by pattern and library",
        f"{len(names)} patterns, {LABELS[key]}; {', '.join((OURS, *PEERS))}. The tables of the page have the same numbers.",
    )
    picture.text(MARGIN, 34, f"{len(names)} patterns, {LABELS[key]}, one thread; further left is faster", "title")
    for library, who in enumerate((OURS, *PEERS)):
        picture.raw(_mark(library, MARGIN + 8 + 150 * library, 60))
        picture.text(MARGIN + 20 + 150 * library, 65, who)
    picture.text(MARGIN + 620, 65, "no mark: refused, or not within the limit", "faint small")
    for row, name in enumerate(names):
        y = TOP + ROW * row
        picture.text(LEFT - 12, y + 4, name, "small end")
        picture.path(f"M{LEFT} {y}H{WIDTH - RIGHT}", "grid")
    width = (WIDTH - RIGHT - LEFT - GAP * (len(PANELS) - 1)) / len(PANELS)
    for panel, (which, title) in zip(count(), PANELS.items()):
        _, scale, measure = MEASURES[which]
        left = LEFT + panel * (width + GAP)
        points = [
            (library, row, log10(value * scale))
            for row, name in enumerate(names)
            for library, who in enumerate((OURS, *PEERS))
            if (value := measure(patterns[name][who])) is not None
        ]
        low, high = floor(min(p[2] for p in points)), ceil(max(p[2] for p in points))
        picture.text(left, TOP - 38, title, "name")
        for power in range(low, high + 1):
            x = left + (power - low) / (high - low) * width
            picture.path(f"M{x:.1f} {TOP - 10}V{TOP + ROW * len(names) - 8}", "grid")
            picture.text(x, TOP - 16, _short(10.0**power), "small middle faint")
        for library, row, value in sorted(points, reverse=True):
            # Each library has a height of its own, so that equal times do not hide each other.
            picture.raw(_mark(library, left + (value - low) / (high - low) * width, TOP + ROW * row + 4 * library - 6))
    picture.text(
        MARGIN,
        TOP + ROW * len(names) + 14,
        "Logarithmic scales. Patterns are in the order of logitkit's compile time.",
        "faint small",
    )
    return picture.finish()


def _short(value: float) -> str:
    for limit, unit in ((1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:g}{unit}"
    return f"{value:g}"
