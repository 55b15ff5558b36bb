"""A step of the processors against repetition after 500 and after 20,000 tokens, beside transformers' own.

The tokens are those of the pages in docs, where about 1,600 of 20,000 are distinct. Or they are drawn by Zipf's law, which makes
5,400 distinct ones. Logits have 131,072 columns, in float32 on the CPU, with one thread. A step is `advance` by one token and
`process_logits` in place; transformers' return new scores. Both lengths take turns, and the shorter one has two, which shows the
noise. Run `pytest benchmarks/bench_long_histories.py --benchmark-json=FILE`, or `python -m benchmarks.bench_long_histories`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from itertools import cycle
from typing import Any

import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture
from torch import Tensor

import logitkit as lk
from benchmarks.side_by_side import medians
from benchmarks.tables import Tables
from tests.docs.pages import ROOT

COLUMNS = 131_072
SHORT, LONG = 500, 20_000

# In place, a penalty is applied again and again to the same logits, which must stay ordinary numbers.
MILD = 1e-6

PROCESSORS: dict[str, lk.Processor[Any]] = {
    "RepetitionPenalty": lk.RepetitionPenalty(1 + MILD),
    "FrequencyPenalty": lk.FrequencyPenalty(MILD, include_prompt=True),
    "PresencePenalty": lk.PresencePenalty(MILD, include_prompt=True),
    "NoRepeatNGram(4)": lk.NoRepeatNGram(4),
    "NoRepeatNGram(4, window=1024)": lk.NoRepeatNGram(4, window=1024),
    "Dry": lk.Dry(MILD, breakers=()),
    "Dry, window=1024": lk.Dry(MILD, breakers=(), window=1024),
}


def documentation(rows: int, length: int) -> Tensor:
    """Return the tokens of the pages in docs, from another page on in each row."""
    ids = torch.tensor(_documentation())
    begins = range(0, len(ids), len(ids) // rows)
    return torch.stack([ids.roll(-begin)[:length] for begin in begins][:rows])


@cache
def _documentation() -> list[int]:
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    from tests.adapters.tokenizer_zoo import shipped

    pages = [page.read_text("utf-8") for page in sorted((ROOT / "docs").glob("*.md"))]
    encoded: list[int] = Tekkenizer.from_file(str(shipped("tekken_240911.json"))).encode("\n".join(pages), False, False)
    return encoded


def drawn(rows: int, length: int) -> Tensor:
    """Return token ids whose frequencies fall with their rank, as those of words do."""
    weights = 1 / torch.arange(1, 20_001, dtype=torch.float64)
    ids = torch.multinomial(weights, rows * length, replacement=True, generator=torch.Generator().manual_seed(length))
    return ids.reshape(rows, length) * 5 + 1000


TEXTS = {"pages": documentation, "drawn": drawn}


def ours(processor: lk.Processor[Any], ids: Tensor) -> Callable[[], object]:
    """Return a step after some tokens; each call commits another token to the same state."""
    context = lk.Context.of(ids.tolist(), COLUMNS)
    state, logits = processor.init_state(context), torch.randn(len(ids), COLUMNS)
    # Of sixteen tokens, half have occurred.
    tokens = cycle([*ids[:, :8].T.contiguous(), *torch.randint(COLUMNS, (8, len(ids)))])
    return lambda: processor.process_logits(processor.advance(state, next(tokens)), logits, context)


def theirs(name: str, ids: Tensor) -> Callable[[], object] | None:
    """Return a step of transformers' processor, if it has such a one."""
    from transformers import NoRepeatNGramLogitsProcessor, RepetitionPenaltyLogitsProcessor

    known = {
        "RepetitionPenalty": lambda: RepetitionPenaltyLogitsProcessor(1.1),
        "NoRepeatNGram(4)": lambda: NoRepeatNGramLogitsProcessor(4),
    }
    if name not in known:
        return None
    hook, logits = known[name](), torch.randn(len(ids), COLUMNS)
    context = lk.Context.of(ids.tolist(), COLUMNS)
    same: lk.Processor[Any] = lk.RepetitionPenalty(1.1) if name == "RepetitionPenalty" else PROCESSORS[name]
    assert torch.equal(
        same.process_logits(same.init_state(context), logits.clone(), context)[1], hook(ids, logits.clone())
    )
    return lambda: hook(ids, logits)


@pytest.mark.parametrize("name", PROCESSORS)
@pytest.mark.parametrize("rows", [1, 8])
@pytest.mark.parametrize("text", TEXTS)
def test_long_histories(text: str, rows: int, name: str, benchmark: BenchmarkFixture, tables: Tables) -> None:
    ids = {length: TEXTS[text](rows, length) for length in (SHORT, LONG)}
    functions: dict[str, Callable[[], object]] = {
        "short": ours(PROCESSORS[name], ids[SHORT]),
        "long": ours(PROCESSORS[name], ids[LONG]),
        "short again": ours(PROCESSORS[name], ids[SHORT]),
    }
    others = {f"transformers, {length}": theirs(name, tokens) for length, tokens in ids.items()}
    rounds = 200 if rows == 1 else 60
    # Apart, because a step of transformers moves the logits of the next step out of the processor's caches.
    times = medians(functions, rounds) | medians({key: step for key, step in others.items() if step}, rounds)
    found = {key: seconds * 1e6 for key, seconds in times.items()}
    benchmark.pedantic(functions["long"], rounds=20, warmup_rounds=3)
    benchmark.extra_info.update({f"{key}_us": value for key, value in found.items()})
    table = tables.table(
        f"A step after {SHORT} and {LONG:,} tokens, us (medians)",
        *("processor, text, rows", f"{SHORT}", f"{LONG:,}", "ratio", "A/A"),
        *(f"transformers, {length:,}" for length in ids),
    )
    table.add(
        f"{name}, {text}, {rows}",
        *(found["short"], found["long"], found["long"] / found["short"], found["short again"] / found["short"]),
        *(found.get(f"transformers, {length}", float("nan")) for length in ids),
    )


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, *sys.argv[1:]]))
