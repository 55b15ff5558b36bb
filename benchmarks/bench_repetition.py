"""The processors against repetition beside those of other engines, in turns within one run.

`NoRepeatNGram` meets transformers' own; `FrequencyPenalty` and `PresencePenalty` meet vLLM's formula, which counts in a tensor
as wide as the vocabulary; `Dry`, which neither has, meets `NoRepeatNGram` of transformers, that looks for repeats of one
length alone. `RepetitionPenalty` has its own file, `bench_penalties`. All get 2,000 tokens of context, in which words recur as
they do in text, and float32 logits of 131,072 columns on the CPU, with one thread. Ours is timed in place, as engines that give
up their logits run it, and with the copy that makes it the same contract; both with the `advance` by one token. Run
`pytest benchmarks/bench_repetition.py --benchmark-json=FILE`, or `python -m benchmarks.bench_repetition`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture
from torch import Tensor

import logitkit as lk
from benchmarks.side_by_side import medians
from benchmarks.tables import Tables
from tests.vocabularies import tekken

CONTEXT = 2_000

# In place, a penalty is applied again and again to the same logits, which must stay ordinary numbers.
MILD = 1e-6

Reference = Callable[[Tensor, Tensor], Tensor]


def no_repeat_ngram(n: int) -> Reference:
    # Imported here: run as a program, this file is read before pytest, which must see plugins first.
    from transformers import NoRepeatNGramLogitsProcessor

    found: Reference = NoRepeatNGramLogitsProcessor(n)
    return found


def counted(penalty: float, often: bool) -> Reference:
    def theirs(ids: Tensor, logits: Tensor) -> Tensor:
        counts = torch.zeros(len(ids), logits.shape[1] + 1, dtype=torch.int64)
        counts = counts.scatter_add_(1, ids, torch.ones_like(ids))[:, :-1]
        per_row = torch.full((len(ids), 1), penalty)
        return logits - per_row * (counts if often else counts > 0)

    return theirs


def cases() -> dict[str, tuple[Callable[[float], lk.Processor[Any]], float, Reference, bool]]:
    """Return by name: ours by its strength, the strength, the other one, and whether both give the same."""
    return {
        "NoRepeatNGram(2)": (lambda _: lk.NoRepeatNGram(2), 0.0, no_repeat_ngram(2), True),
        "NoRepeatNGram(4)": (lambda _: lk.NoRepeatNGram(4), 0.0, no_repeat_ngram(4), True),
        "FrequencyPenalty": (lambda p: lk.FrequencyPenalty(p, include_prompt=True), 0.7, counted(0.7, True), True),
        "PresencePenalty": (lambda p: lk.PresencePenalty(p, include_prompt=True), 0.7, counted(0.7, False), True),
        "Dry": (lambda p: lk.Dry(p, vocabulary=tekken()), 0.8, no_repeat_ngram(3), False),
    }


def words(rows: int) -> Tensor:
    """Token ids of which few are frequent and most are rare, as in text, with runs that recur and ends of lines."""
    plain = [i for i, token in enumerate(tekken().tokens) if token and token.isalpha()][:3000]
    generator = torch.Generator().manual_seed(0)
    weights = 1 / torch.arange(1, len(plain) + 1, dtype=torch.float64)
    ranks = torch.multinomial(weights, rows * CONTEXT, replacement=True, generator=generator)
    ids = torch.tensor(plain)[ranks].reshape(rows, CONTEXT)
    ids[:, 1500:1520] = ids[:, 500:520]
    ids[:, -8:] = ids[:, 507:515]
    ids[:, 20:-20:50] = tekken().tokens.index(b"\n")
    return ids


@pytest.mark.parametrize("name", list(cases()))
@pytest.mark.parametrize("rows", [1, 32])
def test_against_repetition(rows: int, name: str, benchmark: BenchmarkFixture, tables: Tables) -> None:
    make, strength, theirs, equal = cases()[name]
    columns = tekken().size
    ids = words(rows)
    logits = torch.randn(rows, columns, generator=torch.Generator().manual_seed(1))
    context = lk.Context.of(ids[:, :-1].tolist(), columns)
    ours, mild = make(strength), make(MILD)
    before, mildly = ours.init_state(context), mild.init_state(context)
    token, kept = ids[:, -1].contiguous(), logits.clone()

    def copied() -> Tensor:
        return ours.process_logits(ours.advance(before, token), logits.clone(), context)[1]

    def in_place() -> Tensor:
        return mild.process_logits(mild.advance(mildly, token), kept, context)[1]

    assert torch.equal(copied(), theirs(ids, logits)) or not equal
    assert not torch.equal(copied(), logits)
    found = medians(
        {"theirs": lambda: theirs(ids, logits), "copied": copied, "in place": in_place, "clone": logits.clone},
        rounds=200 if rows == 1 else 20,
    )
    benchmark.pedantic(copied, rounds=50 if rows == 1 else 10, warmup_rounds=3)
    us = {of: seconds * 1e6 for of, seconds in found.items()}
    ratios = {of: us[of] / us["theirs"] for of in ("in place", "copied")}
    benchmark.extra_info.update({f"{of}_us": value for of, value in us.items()})
    benchmark.extra_info.update({f"{of} / theirs": value for of, value in ratios.items()})
    table = tables.table(
        f"Against repetition, {CONTEXT:,} tokens, {columns:,} columns, us a step (medians)",
        *("processor, rows", "the other", "ours in place", "ours on a copy", "a copy alone"),
        *("in place / the other", "on a copy / the other"),
    )
    table.add(f"{name}, {rows}", *(us[of] for of in ("theirs", "in place", "copied", "clone")), *ratios.values())


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, *sys.argv[1:]]))
