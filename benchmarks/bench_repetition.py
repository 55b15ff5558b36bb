"""The processors against repetition compared with those of other engines, in turns within one run.

`NoRepeatNGram` is compared with transformers' own. `FrequencyPenalty` and `PresencePenalty` are compared with vLLM's formula,
which counts in a tensor as wide as the vocabulary. `Dry` is compared with llama.cpp's sampler, which changes candidates in
place; only that change is timed. `RepetitionPenalty` has its own file, `bench_penalties`. All get 2,000 tokens of context, in
which words recur as in text, and float32 logits of 131,072 columns on the CPU, with one thread. Ours is timed in place, as in
engines that let hooks overwrite their logits, and with a copy, which makes the two comparable. Both include the `advance` by
one token. Run `pytest benchmarks/bench_repetition.py --benchmark-json=FILE`, or `python -m benchmarks.bench_repetition`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture
from torch import Tensor

import logitkit as lk
from benchmarks.side_by_side import medians
from benchmarks.tables import Tables

COLUMNS = 131_072
CONTEXT = 2_000

# In place, a penalty is applied again and again to the same logits, which must stay ordinary numbers.
MILD = 1e-6

Reference = Callable[[Tensor, Tensor], Tensor]


@cache
def transformers_ngram(n: int) -> Reference:
    # Imported here: run as a program, this file is read before pytest, which must see plugins first.
    from transformers import NoRepeatNGramLogitsProcessor

    found: Reference = NoRepeatNGramLogitsProcessor(n)
    return found


def no_repeat_ngram(n: int) -> Reference:
    def theirs(ids: Tensor, logits: Tensor) -> Tensor:
        return transformers_ngram(n)(ids, logits)

    return theirs


def counted(penalty: float, often: bool) -> Reference:
    def theirs(ids: Tensor, logits: Tensor) -> Tensor:
        counts = torch.zeros(len(ids), logits.shape[1] + 1, dtype=torch.int64)
        counts = counts.scatter_add_(1, ids, torch.ones_like(ids))[:, :-1]
        per_row = torch.full((len(ids), 1), penalty)
        return logits - per_row * (counts if often else counts > 0)

    return theirs


def cases() -> dict[str, tuple[Callable[[float], lk.Processor[Any]], float, Reference]]:
    """Return by name: ours by its strength, the strength, and the other one."""
    return {
        "NoRepeatNGram(2)": (lambda _: lk.NoRepeatNGram(2), 0.0, no_repeat_ngram(2)),
        "NoRepeatNGram(4)": (lambda _: lk.NoRepeatNGram(4), 0.0, no_repeat_ngram(4)),
        "FrequencyPenalty": (lambda p: lk.FrequencyPenalty(p, include_prompt=True), 0.7, counted(0.7, True)),
        "PresencePenalty": (lambda p: lk.PresencePenalty(p, include_prompt=True), 0.7, counted(0.7, False)),
    }


def words(rows: int, newline: int) -> Tensor:
    """Token ids of which few are frequent and most are rare, as in text, with runs that recur and ends of lines."""
    generator = torch.Generator().manual_seed(0)
    weights = 1 / torch.arange(1, 3001, dtype=torch.float64)
    ranks = torch.multinomial(weights, rows * CONTEXT, replacement=True, generator=generator)
    ids = ranks.reshape(rows, CONTEXT) * 37 + 1000
    ids[:, 1500:1520] = ids[:, 500:520]
    ids[:, -8:] = ids[:, 507:515]
    ids[:, 20:-20:50] = newline
    return ids


@pytest.mark.parametrize("name", list(cases()))
@pytest.mark.parametrize("rows", [1, 32])
def test_against_repetition(rows: int, name: str, benchmark: BenchmarkFixture, tables: Tables) -> None:
    make, strength, theirs = cases()[name]
    ids, logits = words(rows, 10), normal(rows)
    copied, in_place = both(make(strength), make(MILD), ids, logits)
    assert torch.equal(copied(), theirs(ids, logits))
    report(f"{name}, {rows}", lambda: theirs(ids, logits), copied, in_place, rows, benchmark, tables)


@pytest.mark.parametrize("rows", [1, 32])
def test_dry(rows: int, benchmark: BenchmarkFixture, tables: Tables) -> None:
    # It skips where llama.cpp is not installed.
    from tests import llama_cpp_samplers as samplers
    from tests.llama_cpp_vocabulary import vocabulary

    def make(multiplier: float) -> lk.Dry:
        return lk.Dry(multiplier, window=CONTEXT, vocabulary=vocabulary())

    ids, logits = words(rows, vocabulary().tokens.index(b"\n")), normal(rows)
    copied, in_place = both(make(0.8), make(MILD), ids, logits)
    others = [
        (samplers.dry(0.8, 1.75, 2, CONTEXT, list(map(str, make(0.8).breakers))), samplers.candidates(row))
        for row in logits
    ]
    for (sampler, _), row in zip(others, ids.tolist(), strict=True):
        samplers.accept(sampler, row)

    def theirs() -> None:
        for sampler, found in others:
            samplers.apply(sampler, found)

    theirs()
    assert torch.equal(copied()[0], samplers.logits_of(others[0][1]))
    report(f"Dry, {rows}", theirs, copied, in_place, rows, benchmark, tables)


def normal(rows: int) -> Tensor:
    return torch.randn(rows, COLUMNS, generator=torch.Generator().manual_seed(1))


def both(
    ours: lk.Processor[Any], mild: lk.Processor[Any], ids: Tensor, logits: Tensor
) -> tuple[Callable[[], Tensor], Callable[[], Tensor]]:
    """Return a step of ours that keeps the logits, and one that does not."""
    context = lk.Context.of(ids[:, :-1].tolist(), COLUMNS)
    before, mildly = ours.init_state(context), mild.init_state(context)
    token, kept = ids[:, -1].contiguous(), logits.clone()

    def copied() -> Tensor:
        return ours.process_logits(ours.advance(before, token), logits.clone(), context)[1]

    def in_place() -> Tensor:
        return mild.process_logits(mild.advance(mildly, token), kept, context)[1]

    assert not torch.equal(copied(), logits)
    return copied, in_place


def report(
    name: str,
    theirs: Callable[[], object],
    copied: Callable[[], Tensor],
    in_place: Callable[[], Tensor],
    rows: int,
    benchmark: BenchmarkFixture,
    tables: Tables,
) -> None:
    """Time in turns, and put medians and ratios in the results and the table."""
    found = medians(
        {"theirs": theirs, "copied": copied, "in place": in_place, "clone": normal(rows).clone},
        rounds=200 if rows == 1 else 20,
    )
    benchmark.pedantic(copied, rounds=50 if rows == 1 else 10, warmup_rounds=3)
    us = {of: seconds * 1e6 for of, seconds in found.items()}
    ratios = {of: us[of] / us["theirs"] for of in ("in place", "copied")}
    benchmark.extra_info.update({f"{of}_us": value for of, value in us.items()})
    benchmark.extra_info.update({f"{of} / theirs": value for of, value in ratios.items()})
    table = tables.table(
        f"Against repetition, {CONTEXT:,} tokens, {COLUMNS:,} columns, us a step (medians)",
        *("processor, rows", "the other", "ours in place", "ours on a copy", "a copy alone"),
        *("in place / the other", "on a copy / the other"),
    )
    table.add(name, *(us[of] for of in ("theirs", "in place", "copied", "clone")), *ratios.values())


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, *sys.argv[1:]]))
