"""One step of `Regex` (advance and mask) compared with one bare pass over the logits, in turns within one run.

The logits are float32 on the CPU, with one thread. Run `pytest benchmarks/bench_step.py --benchmark-json=FILE`, or
`python -m benchmarks.bench_step`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture
from torch import Tensor

import logitkit as lk
from benchmarks.side_by_side import medians, seconds
from benchmarks.suite import SUITE, Entry
from benchmarks.tables import Tables
from logitkit.compiler.bytes.byte_dfa import DEAD
from logitkit.runtime.automaton_registry import AutomatonRegistry
from logitkit.runtime.automaton_state import AutomatonState
from logitkit.runtime.constraint import mask_rows
from logitkit.runtime.constraint_state import ConstraintState
from logitkit.vocabulary import Vocabulary

CPU = torch.device("cpu")
LIMITS = lk.Limits(states=200_000, work=30_000_000)


@dataclass(frozen=True)
class Case:
    """A state to measure: what is allowed in it, the pattern, the text before it, and the token that is committed."""

    allowed: str
    pattern: str
    before: bytes
    token: bytes


CASES = (
    Case("digits", r"\d{4}-\d{2}-\d{2}", b"2024-", b"1"),
    Case("lower case", r"[a-z ]*", b"", b"a"),
    Case("words", r"[A-Za-z]+(?: [A-Za-z]+)*", b"", b"a"),
    Case("any text", r"\w+(?:\W+\w+)*", b"", b"a"),
    Case("no newline", r"[^\n]*", b"", b"a"),
    Case("only EOS", r"ab", b"a", b"b"),
)


def tokens_of(vocabulary: Vocabulary, text: bytes) -> list[int]:
    """Spell a text byte by byte."""
    single = {t: i for i, t in enumerate(vocabulary.tokens) if t and len(t) == 1}
    return [single[bytes([b])] for b in text]


def reached(regex: lk.Regex, rows: int, text: bytes) -> tuple[lk.Context, ConstraintState]:
    """Return a batch of which every row has this text."""
    context = lk.Context.of([[]] * rows, vocabulary_size=regex.vocabulary.size)
    state = regex.init_state(context)
    for token in tokens_of(regex.vocabulary, text):
        state = regex.advance(state, torch.full((rows,), token))
    return context, state


def check_mask(regex: lk.Regex, state: ConstraintState, processed: Tensor, before: Tensor) -> int:
    """Assert that exactly the legal tokens keep their logits, all rows being in one state; return how many there are."""
    current = int(state.at.state[0])
    assert (state.at.state == current).all()
    legal = torch.tensor([regex.automaton.next(current, t) != DEAD for t in range(regex.vocabulary.size)])
    assert torch.equal(processed, torch.where(legal, before, -torch.inf))
    return int(legal.sum())


@pytest.mark.parametrize("rows", [1, 32])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.allowed)
def test_step_in_a_visited_state(
    case: Case,
    rows: int,
    vocabulary: Vocabulary,
    vocabulary_name: str,
    benchmark: BenchmarkFixture,
    tables: Tables,
) -> None:
    regex = lk.Regex(case.pattern, vocabulary)
    context, before = reached(regex, rows, case.before)
    token = torch.full((rows,), tokens_of(vocabulary, case.token)[0])
    logits = torch.randn(1, vocabulary.size, generator=torch.Generator().manual_seed(0)).repeat(rows, 1)
    after = regex.advance(before, token)
    _, processed = regex.process_logits(after, logits.clone(), context)
    allowed = check_mask(regex, after, processed, logits)

    def step() -> None:
        regex.process_logits(regex.advance(before, token), logits, context)

    bare = _bare_pass(rows, vocabulary.size)
    found = medians({"step": step, "bare": bare}, rounds=60 if rows == 1 else 15, warmup=2, calls=8)
    benchmark.pedantic(step, rounds=100 if rows == 1 else 20, warmup_rounds=5)
    step_us, bare_us = found["step"] * 1e6, found["bare"] * 1e6
    benchmark.extra_info.update(step_us=step_us, bare_add_us=bare_us, over_us=step_us - bare_us, allowed=allowed)
    table = tables.table(
        f"Step at batch {rows}, {vocabulary_name}, us (medians; one bare pass is logits.add_(rows) of the same size)",
        *("allowed in the state", "ids allowed", "step", "one bare pass", "step - pass", "step / pass"),
    )
    table.add(case.allowed, allowed, step_us, bare_us, step_us - bare_us, step_us / bare_us)


def _bare_pass(rows: int, size: int) -> Callable[[], Tensor]:
    target, added = torch.randn(rows, size), torch.zeros(rows, size)
    return lambda: target.add_(added)


def test_batch_of_different_patterns(
    vocabulary: Vocabulary, vocabulary_name: str, benchmark: BenchmarkFixture, tables: Tables
) -> None:
    """32 rows of 32 patterns, against 32 rows of one pattern, all in visited states."""
    patterns = [entry.pattern for entry in SUITE if entry.name not in ("capped Unicode word", "up to 2000, any")][:32]
    regexes = [lk.Regex(p, vocabulary, limits=LIMITS) for p in patterns]
    context = lk.Context.of([[]] * 32, vocabulary_size=vocabulary.size)
    single = lk.Context.of([[]], vocabulary_size=vocabulary.size)
    mixed = lk.concatenate([r.init_state(single) for r in regexes])
    logits = torch.randn(32, vocabulary.size)
    _, processed = regexes[0].process_logits(mixed, logits.clone(), context)
    for row, regex in enumerate(regexes):
        _, alone = regex.process_logits(regex.init_state(single), logits[row : row + 1].clone(), single)
        assert torch.equal(processed[row], alone[0])
    nothing = torch.full((32,), -1)

    def step() -> None:
        regexes[0].process_logits(regexes[0].advance(mixed, nothing), logits, context)

    bare = _bare_pass(32, vocabulary.size)
    found = medians({"step": step, "bare": bare}, rounds=15, warmup=2, calls=8)
    benchmark.pedantic(step, rounds=20, warmup_rounds=3)
    step_us, bare_us = found["step"] * 1e6, found["bare"] * 1e6
    benchmark.extra_info.update(step_us=step_us, bare_add_us=bare_us)
    tables.table(
        "32 rows of 32 patterns in their first states, us", "vocabulary", "step", "one bare pass", "ratio"
    ).add(vocabulary_name, step_us, bare_us, step_us / bare_us)


@pytest.mark.parametrize("entry", SUITE, ids=lambda entry: entry.name)
def test_first_visit(
    entry: Entry, vocabulary: Vocabulary, vocabulary_name: str, benchmark: BenchmarkFixture, tables: Tables
) -> None:
    """The mask of a state that no row was in before, in states spread over the automaton."""
    automaton = lk.Regex(entry.pattern, vocabulary, limits=LIMITS).automaton
    states = np.unique(np.linspace(2, automaton.states - 1, 40).astype(int)).tolist()
    logits = torch.zeros(1, vocabulary.size)
    assert automaton.by_class[0].size == vocabulary.size
    cold = AutomatonRegistry()
    handle = cold.register(automaton)
    at = iter(states)

    def visit() -> None:
        values = (torch.tensor([v]) for v in (handle.slot, handle.generation, next(at)))
        mask_rows(cold, AutomatonState(*values), logits)

    benchmark.pedantic(visit, rounds=len(states), warmup_rounds=0)
    taken = seconds(benchmark)
    table = tables.table(
        f"First visit of a state, {vocabulary_name}, us", *("pattern", "median", "worst", "states visited")
    )
    table.add(entry.name, taken[len(taken) // 2] * 1e6, taken[-1] * 1e6, len(states))


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, *sys.argv[1:]]))
