"""Which files one step of generation enters in each engine, and how deep its calls are nested.

python -m tests.packaging.test_step_trace --write    # writes the table of docs/architecture.md
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import torch

import logitkit as lk
import logitkit_adapters
from logitkit.tracking import Room
from logitkit_adapters.demo import model_dir

ROOTS = tuple(str(Path(path).parent) for path in (lk.__file__, logitkit_adapters.__file__) if path)
PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
BEGIN, END = "<!-- step -->", "<!-- end of step -->"

# Steps before those that count: they make masks, and buffers that have room for the others.
BEFORE, STEPS = 8, 50
PROMPT = [5, 6, 7, 8]
DEEPEST = 9

Step = Callable[[], object]


@cache
def vocabulary() -> lk.Vocabulary:
    from transformers import AutoTokenizer

    from logitkit_adapters.transformers import vocabulary

    return vocabulary(AutoTokenizer.from_pretrained(model_dir()))


def regex() -> lk.Processor[Any]:
    return lk.Regex("[a-z ]*", vocabulary())


def chain() -> lk.Processor[Any]:
    return lk.chain(lk.RepetitionPenalty(1.1), regex(), lk.Temperature(0.8), lk.TopP(0.9))


@cache
def letter() -> int:
    """A token that is legal at every step."""
    return next(token for token in range(vocabulary().size) if vocabulary().tokens[token] == b"a")


def logits(rows: int) -> torch.Tensor:
    return torch.randn(rows, vocabulary().size, generator=torch.Generator().manual_seed(0))


def transformers_step(processor: lk.Processor[Any], rows: int) -> Step:
    """Call the hook as `generate` does."""
    from logitkit_adapters.transformers import logits_processor

    hook, scores = logits_processor(processor), logits(rows)
    ids = torch.tensor([PROMPT]).repeat(rows, 1)

    def step() -> None:
        nonlocal ids
        hook(ids, scores)
        ids = torch.cat((ids, torch.full((rows, 1), letter())), 1)

    return step


def mlx_lm_step(processor: lk.Processor[Any], rows: int) -> Step:
    """Let mlx-lm itself generate."""
    import mlx.core as mx
    from mlx_lm import load
    from mlx_lm.generate import generate_step

    from logitkit_adapters.mlx_lm import logits_processor

    assert rows == 1
    model, *_ = load(str(model_dir()))
    only = mx.array(np.where(np.arange(vocabulary().size) == letter(), 0, -np.inf)[None], mx.float32)
    processors: list[Any] = [logits_processor(processor), lambda _, scores: scores + only]
    tokens = generate_step(
        mx.array(PROMPT), model, max_tokens=BEFORE + STEPS + 8, logits_processors=processors, kv_bits=None
    )
    return lambda: next(tokens)


def llama_cpp_step(processor: lk.Processor[Any], rows: int) -> Step:
    """Call the hook of one generation, as its list does."""
    from logitkit_adapters.llama_cpp import LlamaCppLogitsProcessor, logits_processor

    assert rows == 1
    hook = logits_processor(processor)[0]
    assert isinstance(hook, LlamaCppLogitsProcessor)
    call = hook.for_generation(Room(4096, None), vocabulary().eos_ids)
    ids, values = np.array(PROMPT, np.intc), logits(1)[0].numpy()

    def step() -> None:
        nonlocal ids
        call(ids, values.copy())
        ids = np.append(ids, np.intc(letter()))

    return step


def traced(step: Step) -> tuple[list[str], int]:
    """Return the files that steps enter, in the order of their first calls, and the most frames of the project on the stack."""
    files, deepest = dict[str, None](), 0

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal deepest
        if event == "call" and frame.f_code.co_filename.startswith(ROOTS):
            files[frame.f_code.co_filename] = None
            depth, outer = 0, frame.f_back
            while outer is not None:
                depth += outer.f_code.co_filename.startswith(ROOTS)
                outer = outer.f_back
            deepest = max(deepest, depth + 1)

    for _ in range(BEFORE):
        step()
    sys.setprofile(note)
    try:
        for _ in range(STEPS):
            step()
    finally:
        sys.setprofile(None)
    bases = {root: Path(root).parent for root in ROOTS}
    found = [Path(f).relative_to(bases[next(root for root in ROOTS if f.startswith(root))]) for f in files]
    return [str(path.with_suffix("")) for path in found], deepest


# The engine, what it runs, rows of a call, and the most files.
CASES: dict[
    tuple[str, str], tuple[Callable[[lk.Processor[Any], int], Step], Callable[[], lk.Processor[Any]], int, int]
] = {
    ("transformers", "one row"): (transformers_step, regex, 1, 7),
    ("transformers", "four rows"): (transformers_step, regex, 4, 16),
    ("transformers", "a chain of four"): (transformers_step, chain, 1, 20),
    ("mlx-lm", "one row"): (mlx_lm_step, regex, 1, 6),
    ("mlx-lm", "a chain of four"): (mlx_lm_step, chain, 1, 22),
    ("llama.cpp", "one row"): (llama_cpp_step, regex, 1, 7),
    ("llama.cpp", "a chain of four"): (llama_cpp_step, chain, 1, 20),
}


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_a_step_enters_few_files(case: tuple[str, str]) -> None:
    start, processor, rows, most = CASES[case]
    files, deepest = traced(start(processor(), rows))
    assert len(files) <= most, files
    assert deepest <= DEEPEST


def table() -> str:
    """Return the table of the page."""
    lines = ["| engine | step | files | stack | entered, in order |", "|---|---|---|---|---|"]
    for (engine, what), (start, processor, rows, _) in CASES.items():
        files, deepest = traced(start(processor(), rows))
        names = ", ".join(f"`{name.removeprefix('logitkit/')}`" for name in files)
        lines.append(f"| {engine} | {what} | {len(files)} | {deepest} | {names} |")
    return "\n".join(lines)


def parts_of_page() -> tuple[str, str, str]:
    """Return the page before, in and after its table."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    inside, _, after = rest.partition(END)
    return before, inside.strip(), after


def test_the_page_shows_the_files() -> None:
    assert parts_of_page()[1] == table(), "run: python -m tests.packaging.test_step_trace --write"


if __name__ == "__main__" and "--write" in sys.argv:
    before, _, after = parts_of_page()
    PAGE.write_text(f"{before}{BEGIN}\n{table()}\n{END}{after}")
