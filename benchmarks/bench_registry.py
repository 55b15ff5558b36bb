"""One step of 256 rows with 256 different patterns, compared with 256 rows of one pattern in different states, in turns.

The patterns differ only in their last characters, and every row is in the state of the same text. So the masks are equal, and
the difference in time comes from different automata. The logits are float32 on the CPU, with one thread. All states were
visited before. Run `pytest benchmarks/bench_registry.py --benchmark-json=FILE`, or `python -m benchmarks.bench_registry`.
"""

from __future__ import annotations

import re
import sys
import time

import numpy as np
import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture

import logitkit as lk
from benchmarks.side_by_side import medians
from benchmarks.tables import Tables
from logitkit.runtime.constraint_state import ConstraintState
from logitkit.runtime.shared import shared_by
from logitkit.vocabulary import Vocabulary

ROWS = 256
GOAL = 1.5
# A few ids, most ids, and about half of the ids allowed: the three ways of masking.
PATTERNS = {
    "digits": r"\d{{0,300}}(?: #{0})?",
    "one line": r"[^\n]{{0,300}}(?:\n#{0})?",
    "letters": r"[a-z ]{{0,300}}(?:,[a-z]{{0,3}}#{0})?",
}
LETTER = {"digits": b"7", "one line": b"x", "letters": b"x"}


@pytest.mark.parametrize("name", PATTERNS)
def test_rows_of_different_patterns(
    name: str, vocabulary: Vocabulary, vocabulary_name: str, benchmark: BenchmarkFixture, tables: Tables
) -> None:
    # Room for the masks of both: 512 dense rows, where 256 of them fit into the default.
    shared_by(vocabulary).registry.masks.limit = 2**30
    regexes = [lk.Regex(PATTERNS[name].format(i), vocabulary) for i in range(ROWS)]
    assert len({r.automaton.content_key for r in regexes}) == ROWS
    letter = next(i for i, t in enumerate(vocabulary.tokens) if t == LETTER[name])
    written = [[letter] * i for i in range(ROWS)]
    single = lk.Context.of([[]], vocabulary_size=vocabulary.size)
    context = lk.Context.of([[]] * ROWS, vocabulary_size=vocabulary.size)
    many = lk.concatenate([_after(r, r.init_state(single), ids) for r, ids in zip(regexes, written, strict=True)])
    one = lk.concatenate([_after(regexes[0], regexes[0].init_state(single), ids) for ids in written])
    assert len(set(one.at.state.tolist())) == ROWS
    assert len(set(many.at.slot.tolist())) == ROWS
    _check(regexes, many, PATTERNS[name], letter, vocabulary, context)

    tokens = torch.full((ROWS,), letter)
    logits = torch.zeros(ROWS, vocabulary.size)

    def step(state: ConstraintState) -> None:
        regexes[0].process_logits(regexes[0].advance(state, tokens), logits, context)

    added = torch.zeros(ROWS, vocabulary.size)
    subjects = {"many": lambda: step(many), "one": lambda: step(one), "bare": lambda: logits.add_(added)}
    found = medians(subjects, rounds=40, warmup=3, clock=time.thread_time)
    benchmark.pedantic(lambda: step(many), rounds=10, warmup_rounds=1)
    many_us, one_us, bare_us = (found[k] * 1e6 for k in ("many", "one", "bare"))
    benchmark.extra_info.update(many_us=many_us, one_us=one_us, bare_us=bare_us, ratio=many_us / one_us, goal=GOAL)
    table = tables.table(
        f"A step of {ROWS} rows, {vocabulary_name}, us (medians; goal: ratio at most {GOAL})",
        *("allowed", f"{ROWS} patterns", "one pattern", "ratio", "one bare pass"),
    )
    table.add(name, many_us, one_us, many_us / one_us, bare_us)


def _after(regex: lk.Regex, state: ConstraintState, ids: list[int]) -> ConstraintState:
    return regex.advance(state, torch.tensor([ids], dtype=torch.int64)) if ids else state


def _check(
    regexes: list[lk.Regex],
    state: ConstraintState,
    pattern: str,
    letter: int,
    vocabulary: Vocabulary,
    context: lk.Context,
) -> None:
    """Assert that each row's mask is that of its own pattern: by its ending, which `re` knows."""
    single = {t: i for i, t in enumerate(vocabulary.tokens) if t and len(t) == 1}
    text = vocabulary.decode([letter]).decode()
    _, masked = regexes[0].process_logits(state, torch.zeros(len(regexes), vocabulary.size), context)
    assert torch.isfinite(masked[:, letter]).all()
    for row in (0, 9, 100, 255):
        matches = re.compile(pattern.format(row)).fullmatch
        ending = {"7": " #", "x": "\n#"}[text] if matches(text + f"\n#{row}") or text == "7" else ",#"
        right, wrong = f"{text}{ending}{row}", f"{text}{ending}{row + 1}"
        assert matches(right)
        assert not matches(wrong)
        for whole in (right, wrong):
            alone = regexes[row].init_state(lk.Context.of([[]], vocabulary_size=vocabulary.size))
            last = _after(regexes[row], alone, [single[bytes([b])] for b in whole.encode()])
            assert bool(regexes[row].is_dead(last)) == (whole == wrong)
        alone_masked = regexes[row].process_logits(
            lk.select(state, torch.tensor([row])), torch.zeros(1, vocabulary.size), context
        )[1]
        assert np.array_equal(alone_masked[0].numpy(), masked[row].numpy())


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, *sys.argv[1:]]))
