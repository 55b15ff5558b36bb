"""How many marked texts are found, by their length, from the results of the benchmark."""

from __future__ import annotations

import json

from pictures.svg import MARGIN, WIDTH, Picture

from benchmarks.bench_watermark_detection import ALARM, LENGTHS, RESULT

__all__ = ["draw"]

TOP, HEIGHT, LEFT, RIGHT, GAP = 120, 220, 60, 30, 70

NAMES = {"free": "Free text", "constrained": "JSON under a schema"}
SHAPES = ("m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z", "m-3.5-3.5h7v7h-7z", "m0-4.5 4.5 8h-9z")


def draw() -> str:
    """Return the picture."""
    result = json.loads(RESULT.read_text("utf-8"))
    picture = Picture(
        "Power of the detectors by the length of a text",
        f"Share of marked texts whose p-value is below {ALARM:g}, without tokens that the constraint forced. The table of "
        "the page has the same numbers.",
    )
    picture.text(MARGIN, 34, f"Marked texts that are found, at a rate of false alarms of {ALARM:.0%}", "title")
    names = list(next(iter(result.values())))
    for number, name in enumerate(names):
        picture.raw(f'<path class="m{number}" d="M{MARGIN + 8 + 180 * number} 60{SHAPES[number]}"/>')
        picture.text(MARGIN + 20 + 180 * number, 65, name)
    width = (WIDTH - LEFT - RIGHT - GAP * (len(NAMES) - 1)) / len(NAMES)
    for panel, (kind, title) in enumerate(NAMES.items()):
        left = LEFT + panel * (width + GAP)
        picture.text(left, TOP - 20, title, "name")
        for share in (0, 0.25, 0.5, 0.75, 1):
            y = TOP + (1 - share) * HEIGHT
            picture.path(f"M{left:.1f} {y:.1f}H{left + width:.1f}", "grid")
            picture.text(left - 8, y + 4, f"{share:.0%}", "small end faint")
        for length in LENGTHS:
            picture.text(_across(left, width, length), TOP + HEIGHT + 20, str(length), "small middle faint")
        for number, name in enumerate(names):
            powers = [*result[kind][name]["power"].values()][-1]
            points = [
                (_across(left, width, length), TOP + (1 - powers[str(length)]["power"]) * HEIGHT) for length in LENGTHS
            ]
            picture.path("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points))
            for x, y in points:
                picture.raw(f'<path class="m{number}" d="M{x:.1f} {y:.1f}{SHAPES[number]}"/>')
    picture.text(MARGIN, TOP + HEIGHT + 46, "Tokens of the text", "faint small")
    return picture.finish()


def _across(left: float, width: float, length: int) -> float:
    return left + width * length / LENGTHS[-1]
