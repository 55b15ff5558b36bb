"""Constraints on text with the vocabulary Tekken: banned strings, alone and with a pattern, sections, and their steps.

Nothing is cached from an earlier compilation. Run `pytest benchmarks/bench_text_constraints.py --benchmark-json=FILE`, or
`python -m benchmarks.bench_text_constraints`.
"""

from __future__ import annotations

import random
import statistics
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from functools import cache

import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture

import logitkit as lk
from benchmarks.cold import forget
from benchmarks.side_by_side import seconds
from benchmarks.tables import Tables
from logitkit.compiler.bytes.byte_dfa import DEAD
from logitkit.constraints.then import Then
from logitkit.runtime.constraint import Constraint
from tests import vocabularies

STRING = r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"'
PATTERNS = {
    "a date": r"\d{4}-\d{2}-\d{2}",
    "any text": r"[\s\S]*",
    "JSON, 2 strings": rf'\{{"name": {STRING}, "text": {STRING}\}}',
}


@cache
def banned(count: int) -> tuple[str, ...]:
    """Two words each, 12 characters on average."""
    rng = random.Random(3)
    tokens = (
        t.decode().strip()
        for t in vocabularies.tekken().tokens
        if t is not None and t.strip().isalpha() and t.isascii()
    )
    words = [w for w in tokens if 4 <= len(w) <= 9]
    return tuple(f"{rng.choice(words)} {rng.choice(words)}" for _ in range(count))


def read(constraint: Constraint, text: str) -> int:
    """Return the state after a text, byte by byte."""
    ids = {t: i for i, t in enumerate(constraint.vocabulary.tokens) if t}
    state = constraint.automaton.start
    for byte in text.encode():
        state = constraint.automaton.next(state, ids[bytes([byte])])
    return state


def peak_mb(make: Callable[[], object], vocabulary: lk.Vocabulary) -> float:
    """Return the most memory that a construction takes at once, its result included."""
    forget(vocabulary)
    tracemalloc.start()
    make()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / 1e6


def measure(
    name: str,
    make: Callable[[], Constraint],
    vocabulary: lk.Vocabulary,
    benchmark: BenchmarkFixture,
    tables: Tables,
) -> None:
    made = make()
    benchmark.pedantic(make, setup=lambda: forget(vocabulary), rounds=3, warmup_rounds=1)
    automaton = made.automaton
    median = statistics.median(seconds(benchmark)) * 1e3
    peak = peak_mb(make, vocabulary)
    benchmark.extra_info.update(
        states=automaton.states, classes=automaton.classes, table_bytes=automaton.nbytes, peak_mb=peak
    )
    tables.table("Construction on Tekken 131k", "constraint", "ms", "states", "classes", "table MB", "peak MB").add(
        name, median, automaton.states, automaton.classes, automaton.nbytes / 1e6, peak
    )


@pytest.mark.parametrize("ignore_case", [False, True], ids=["one case", "any case"])
@pytest.mark.parametrize("count", [10, 300, 3000])
def test_banned_strings(count: int, ignore_case: bool, benchmark: BenchmarkFixture, tables: Tables) -> None:
    vocabulary, strings = vocabularies.tekken(), banned(count)
    bans = lk.BannedStrings(strings, vocabulary, ignore_case)
    for string in strings[:: max(1, count // 20)]:
        assert read(bans, f"x{string}") == DEAD
        assert (read(bans, string.swapcase()) == DEAD) == ignore_case
        assert read(bans, string[:-1]) != DEAD
    name = f"{count} banned strings, {'any' if ignore_case else 'one'} case"
    measure(name, lambda: lk.BannedStrings(strings, vocabulary, ignore_case), vocabulary, benchmark, tables)


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("count", [100, 1000])
def test_banned_strings_beside_a_pattern(count: int, name: str, benchmark: BenchmarkFixture, tables: Tables) -> None:
    vocabulary = vocabularies.tekken()
    parts = lk.BannedStrings(banned(count), vocabulary, ignore_case=True), lk.Regex(PATTERNS[name], vocabulary)
    both = lk.Intersection(parts)
    begin = '{"name": "' if "JSON" in name else ""
    if name != "a date":
        assert read(both, begin + banned(count)[0][:-1]) != DEAD
        assert read(both, begin + banned(count)[0]) == DEAD
    measure(f"{count} banned strings beside {name}", lambda: lk.Intersection(parts), vocabulary, benchmark, tables)


@pytest.mark.parametrize("name", PATTERNS)
def test_sections(name: str, benchmark: BenchmarkFixture, tables: Tables) -> None:
    vocabulary = vocabularies.tekken()
    second = lk.Regex(PATTERNS[name], vocabulary)

    def sections() -> Then:
        made = lk.then(None, second, "</think>")
        assert isinstance(made, Then)
        return made

    last = vocabulary.tokens.index(b">")
    assert read(sections(), "hm</think>") == sections().automaton.next(read(sections(), "hm</think"), last)
    measure(f"</think>, then {name}", sections, vocabulary, benchmark, tables)


@pytest.mark.parametrize("rows", [1, 32])
@pytest.mark.parametrize("count", [10, 3000])
def test_step(count: int, rows: int, benchmark: BenchmarkFixture, tables: Tables) -> None:
    vocabulary = vocabularies.tekken()
    bans = lk.BannedStrings(banned(count), vocabulary, ignore_case=True)
    rng = random.Random(1)
    context = lk.Context.of([[]] * rows, vocabulary.size)
    logits = torch.randn(rows, vocabulary.size)
    tokens = [torch.tensor(rng.choices(range(1000, vocabulary.size), k=rows)) for _ in range(200)]
    steps: Sequence[torch.Tensor] = tokens

    def generate() -> None:
        state = bans.init_state(context)
        for column in steps:
            state = bans.advance(state, column)
            bans.process_logits(state, logits, context)

    benchmark.pedantic(generate, rounds=3, warmup_rounds=1)
    each = statistics.median(seconds(benchmark)) / len(steps) * 1e6
    benchmark.extra_info["step_us"] = each
    tables.table("A step of banned strings in any case, in place, us", "strings, rows", "us").add(
        f"{count}, {rows}", each
    )


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, *sys.argv[1:]]))
