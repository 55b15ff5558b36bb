"""How the bias of particles falls with their number, beside that of plain masking, from the results of the benchmark."""

from __future__ import annotations

import json
import math

from pictures.svg import MARGIN, WIDTH, Picture

from benchmarks.bench_particles import RESULT

__all__ = ["draw"]

TOP, HEIGHT, LEFT, RIGHT, GAP = 120, 240, 70, 30, 80
# The ends of the logarithmic axis of total variations, and its ticks.
MOST, LEAST, TICKS = 1.0, 0.002, (1, 0.1, 0.01, 0.002)

NAMES = {"colours": "Colours: 5 texts", "times": "Times: 12 texts"}
CIRCLE, DIAMOND = "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z", "m0-5 5 5-5 5-5-5z"


def draw() -> str:
    """Return the picture."""
    result = json.loads(RESULT.read_text("utf-8"))["languages"]
    picture = Picture(
        "Distance to the true conditional by the number of particles",
        "Total variation between the distribution of one sampled text and that of the model given the language, for plain "
        "masking and for particles, on logarithmic axes. The table of the page has the same numbers.",
    )
    picture.text(MARGIN, 34, "Total variation to the model given the language", "title")
    picture.raw(f'<path class="m0" d="M{MARGIN + 8} 60{DIAMOND}"/>')
    picture.text(MARGIN + 20, 65, "plain masking, one particle")
    picture.raw(f'<path class="m1" d="M{MARGIN + 268} 60{CIRCLE}"/>')
    picture.text(MARGIN + 280, 65, "particles")
    picture.path(f"M{MARGIN + 380} 60H{MARGIN + 410}", "grid")
    picture.text(MARGIN + 420, 65, "1 / N, from plain masking")
    width = (WIDTH - LEFT - RIGHT - GAP * (len(NAMES) - 1)) / len(NAMES)
    for panel, (name, title) in enumerate(NAMES.items()):
        one, left = result[name], LEFT + panel * (width + GAP)
        picture.text(left, TOP - 20, title, "name")
        for tick in TICKS:
            picture.path(f"M{left:.1f} {_down(tick):.1f}H{left + width:.1f}", "grid")
            picture.text(left - 8, _down(tick) + 4, f"{tick:g}", "small end faint")
        measured = {int(number): found["total_variation"] for number, found in one["particles"].items()}
        masked, most = one["masked_total_variation"], max(measured)
        for number in (1, *measured):
            picture.text(_across(left, width, number, most), TOP + HEIGHT + 20, str(number), "small middle faint")
        begin, end = _across(left, width, 1, most), _across(left, width, most, most)
        picture.path(f"M{begin:.1f} {_down(masked):.1f}L{end:.1f} {_down(masked / most):.1f}", "grid")
        points = [(_across(left, width, number, most), _down(value)) for number, value in measured.items()]
        picture.path("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in [(begin, _down(masked)), *points]))
        picture.raw(f'<path class="m0" d="M{begin:.1f} {_down(masked):.1f}{DIAMOND}"/>')
        for x, y in points:
            picture.raw(f'<path class="m1" d="M{x:.1f} {y:.1f}{CIRCLE}"/>')
    picture.text(
        MARGIN,
        TOP + HEIGHT + 46,
        f"Number of particles. Values below {LEAST:g} stand on the lowest line.",
        "faint small",
    )
    return picture.finish()


def _across(left: float, width: float, number: int, most: int) -> float:
    return left + 12 + (width - 24) * math.log(number) / math.log(most)


def _down(value: float) -> float:
    return TOP + HEIGHT * math.log(MOST / max(value, LEAST)) / math.log(MOST / LEAST)
