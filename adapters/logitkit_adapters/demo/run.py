"""The demo: for each engine and case, the text without and with the constraint, then the cost.

Plain-text tables with fixed columns; text that is too wide continues on the next line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import NamedTuple

import torch

import logitkit
from logitkit.explaining.token_texts import quoted, visible, width
from logitkit_adapters.demo.case_texts import CaseTexts
from logitkit_adapters.demo.cases import DemoCase
from logitkit_adapters.demo.console import Console
from logitkit_adapters.demo.engine import Engine
from logitkit_adapters.demo.measurement import StepCost, compile_seconds, step_cost
from logitkit_adapters.demo.page import DemoPage, DemoReport

__all__ = ["WIDTH", "Cell", "columns", "quoted", "run_demo", "visible", "width"]

WIDTH = 100
_GAP = 2


class Cell(NamedTuple):
    """The text of a cell, a style for `Console.styled`, and whether the text is right-aligned."""

    text: str
    style: str = ""
    right: bool = False


def columns(cells: Sequence[Cell], widths: Sequence[int], styled: Callable[[str, str], str]) -> list[str]:
    """Place cells side by side.

    Args:
        cells: One per column, of printable characters.
        widths: The widths of the columns, in terminal cells; columns are two blanks apart.
        styled: A function that returns a text in a style.

    Returns:
        The number of lines that the longest cell needs.

    Example:
        >>> columns([Cell("one two"), Cell("3", right=True)], [4, 3], lambda text, style: text)
        ['one     3', 'two']
    """
    pieces = [_wrapped(cell.text, size) for cell, size in zip(cells, widths, strict=True)]
    lines = []
    for texts in zip_longest(*pieces, fillvalue=""):
        placed = [_placed(*line, styled) for line in zip(texts, cells, widths, strict=True)]
        lines.append((" " * _GAP).join(placed).rstrip(" "))
    return lines


def _placed(text: str, cell: Cell, size: int, styled: Callable[[str, str], str]) -> str:
    """Return a line of a cell, filled up with blanks to the width of its column."""
    blanks = " " * (size - width(text))
    shown = styled(text, cell.style) if text else ""
    return blanks + shown if cell.right else shown + blanks


def _wrapped(text: str, size: int) -> list[str]:
    """Cut text into lines, after a blank if there is one far enough to the right."""
    lines = []
    while width(text) > size:
        end, used = 1, width(text[0])
        while used + width(text[end]) <= size:
            used += width(text[end])
            end += 1
        blank = text.rfind(" ", end // 4, end + 1)
        end = end if blank < 0 else blank
        lines.append(text[:end])
        text = text[end:].removeprefix(" ") if blank >= 0 else text[end:]
    return [*lines, text] if text or not lines else lines


_TEXTS = (31, 32, 33)
_COSTS = (20, 6, 6, 11, 11, 11, 11, 10)
_LEGEND = (
    "Medians of CPU time. compile: once per constraint. without, with: one step of generate without and",
    "with the constraint, measured in turns. logitkit: the part of the step that logitkit takes. It",
    "depends on the batch and on the vocabulary, but not on the model, which is very small here.",
)


def run_demo(
    engines: Sequence[Engine],
    cases: Sequence[DemoCase],
    console: Console,
    page: DemoPage | None = None,
    report: DemoReport | None = None,
) -> bool:
    """Run every case in every engine that supports it, on one thread.

    Args:
        engines: The available engines.
        cases: The cases to generate.
        console: The output.
        page: A page that shows each text token by token, or None.
        report: Collects the texts and costs as data, or None.

    Returns:
        Whether every constrained text is valid.

    Raises:
        LogitkitError: A case cannot be compiled, or its prompts are too long.
    """
    valid = True
    with _one_thread():
        for engine in engines:
            costs: list[list[Cell]] = []
            able = [case for case in cases if case.beams == 1 or engine.has_beams]
            console.progress(f"loading {engine.name} and the demo model")
            release = engine.load()
            head = _head(release, engine, console)
            console.results(head)
            if page is not None:
                page.add_engine(head[0])
            if report is not None:
                report.add_engine(release, engine.vocabulary)
            for number, case in enumerate(able, 1):
                console.progress(f"{number} of {len(able)}: {case.name}")
                texts = CaseTexts.of(engine, case)
                valid = valid and all(texts.valid)
                console.results(_texts(texts, console))
                if page is not None:
                    page.add_case(texts)
                cost = step_cost(engine, case, texts.constraint, console.step)
                compilation = compile_seconds(case.constraint, engine.vocabulary)
                costs.append(_cost(case, compilation, cost))
                if report is not None:
                    report.add_case(texts, compilation, cost)
            console.results([*_cost_table(costs, console), ""])
    console.results(_LEGEND)
    return valid


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread, to measure the processor instead of the scheduler."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _head(release: str, engine: Engine, console: Console) -> list[str]:
    size = engine.vocabulary.size
    about = f"logitkit {logitkit.__version__} in {release}: demo model with {size} tokens, one CPU thread"
    titles = [Cell("prompt", "title"), Cell("without logitkit", "title"), Cell("with logitkit", "title")]
    return [about, "", *columns(titles, _TEXTS, console.styled), "-" * WIDTH]


def _texts(texts: CaseTexts, console: Console) -> list[str]:
    case, free, held = texts.case, texts.free, texts.held
    wide = len(case.name)
    language = [Cell(case.name, "title"), Cell(visible(case.language), "faint")]
    lines = columns(language, [wide, WIDTH - wide - 2], console.styled)
    for row, prompt in enumerate(case.prompts):
        cells = [
            Cell(quoted(prompt)),
            _judged(free.texts[row], texts.in_language(free.ids[row]), console),
            _judged(held.texts[row], texts.valid[row], console),
        ]
        lines += columns(cells, _TEXTS, console.styled)
        if not texts.in_language(held.ids[row]):
            lines.append(f"  not finished within {case.max_new_tokens} tokens; --max-new-tokens allows more")
    if case.check is None:
        lines.append("  checked by logitkit alone: Python's re does not read this pattern")
    return [*lines, ""]


def _judged(text: str, valid: bool, console: Console) -> Cell:
    return Cell(f"{console.good if valid else console.bad} {quoted(text)}", "good" if valid else "bad")


def _cost(case: DemoCase, compilation: float, cost: StepCost) -> list[Cell]:
    numbers = [
        f"{cost.rows}",
        f"{cost.steps}",
        f"{compilation * 1e3:.1f} ms",
        f"{cost.bare * 1e3:.2f} ms",
        f"{cost.constrained * 1e3:.2f} ms",
        f"{cost.hook * 1e6:.0f} us",
        f"{(cost.constrained - cost.bare) / cost.bare:+.1%}",
    ]
    return [Cell(case.name), *(Cell(number, right=True) for number in numbers)]


def _cost_table(costs: Sequence[Sequence[Cell]], console: Console) -> list[str]:
    titles = ["cost", "rows", "steps", "compile", "without", "with", "logitkit", "overhead"]
    head = [Cell(title, "title", right=i > 0) for i, title in enumerate(titles)]
    return [
        *columns(head, _COSTS, console.styled),
        "-" * WIDTH,
        *(line for row in costs for line in columns(row, _COSTS, console.styled)),
    ]
