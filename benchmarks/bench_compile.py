"""The time from a pattern to its first mask, by stage, without anything cached from an earlier compilation.

Run `pytest benchmarks/bench_compile.py --benchmark-json=FILE`, or `python -m benchmarks.bench_compile`.
"""

from __future__ import annotations

import itertools
import re
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.cold import forget
from benchmarks.side_by_side import seconds
from benchmarks.suite import SUITE, Entry, check
from benchmarks.tables import Tables
from logitkit.compiler.bytes.byte_dfa import ByteDfa
from logitkit.compiler.bytes.word_list import word_list_dfa
from logitkit.compiler.language import byte_dfa_of
from logitkit.compiler.tokens.compile import token_automaton
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.constraints.dfa import Dfa
from logitkit.constraints.json_schema import JsonSchema
from logitkit.limits import Limits
from logitkit.patterns.parser import parse
from logitkit.runtime.row_mask import RowMask
from logitkit.vocabulary import Vocabulary
from logitkit.vocabulary.trie import Trie

# Entries beyond the default limits are measured all the same; the table says which they are.
LIMITS = Limits(states=200_000, work=30_000_000)
ROUNDS = 7
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "born": {"type": "string", "format": "date"},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 8},
        "score": {"type": "number"},
    },
    "required": ["name"],
}


@dataclass(frozen=True)
class Compiled:
    """An automaton, and the seconds that it took: to a byte automaton, to a token automaton, to a masked row."""

    dfa: ByteDfa
    automaton: TokenAutomaton
    stages: tuple[float, float, float]


def compile_fresh(pattern: str, vocabulary: Vocabulary, row: np.ndarray[tuple[int], np.dtype[np.float32]]) -> Compiled:
    """Compile a pattern and mask one row of logits."""
    clock = time.perf_counter
    begin = clock()
    dfa = byte_dfa_of(parse(pattern), LIMITS)
    built = clock()
    automaton = token_automaton(dfa, vocabulary, LIMITS, "the pattern")
    grouped = clock()
    RowMask.of(automaton, automaton.start).apply(row, -np.inf, 0.0)
    return Compiled(dfa, automaton, (built - begin, grouped - built, clock() - grouped))


def accepts(automaton: TokenAutomaton, vocabulary: Vocabulary, ids: dict[bytes, int], text: bytes) -> bool:
    """Read a text in its longest tokens, then EOS."""
    state, at = automaton.start, 0
    while at < len(text):
        width = next(w for w in range(min(32, len(text) - at), 0, -1) if text[at : at + w] in ids)
        state = automaton.next(state, ids[text[at : at + width]])
        at += width
    return automaton.next(state, vocabulary.eos_ids[0]) == 1


@pytest.mark.parametrize("entry", SUITE, ids=lambda entry: entry.name)
def test_pattern_to_first_mask(
    entry: Entry, vocabulary: Vocabulary, vocabulary_name: str, benchmark: BenchmarkFixture, tables: Tables
) -> None:
    check(entry)
    row = np.zeros(vocabulary.size, np.float32)
    compiled = compile_fresh(entry.pattern, vocabulary, row)
    ids = {t: i for i, t in enumerate(vocabulary.tokens) if t}
    for text in (*entry.matching, *entry.other):
        expected = re.fullmatch(entry.pattern, text) is not None
        assert accepts(compiled.automaton, vocabulary, ids, text.encode()) == expected, text
    stages = []

    def measured() -> None:
        stages.append(compile_fresh(entry.pattern, vocabulary, row).stages)

    benchmark.pedantic(measured, setup=lambda: forget(vocabulary), rounds=ROUNDS, warmup_rounds=1)
    to_dfa, to_tokens, to_mask = np.median(np.array(stages[1:]), axis=0) * 1e3
    automaton = compiled.automaton
    total = float(np.median(np.array(stages[1:]).sum(axis=1)) * 1e3)
    benchmark.extra_info.update(
        dfa_ms=to_dfa,
        token_classes_ms=to_tokens,
        mask_ms=to_mask,
        total_ms=total,
        states=automaton.states,
        classes=automaton.classes,
        table_bytes=automaton.nbytes,
    )
    table = tables.table(
        f"Pattern to first mask, {vocabulary_name}, ms (medians of {ROUNDS})",
        *(
            "pattern",
            "byte automaton",
            "token classes",
            "first mask",
            "total",
            "states",
            "classes",
            "table kB",
        ),
    )
    table.add(
        *(
            entry.name,
            to_dfa,
            to_tokens,
            to_mask,
            total,
            automaton.states,
            automaton.classes,
            automaton.nbytes / 1000,
        )
    )


def test_vocabulary_trie(
    vocabulary: Vocabulary, vocabulary_name: str, benchmark: BenchmarkFixture, tables: Tables
) -> None:
    trie = benchmark.pedantic(lambda: Trie.of(vocabulary.tokens), rounds=5, warmup_rounds=1)
    assert len(trie.tokens) == sum(t is not None for t in vocabulary.tokens)
    assert len(trie) == len({t[:i] for t in vocabulary.tokens if t for i in range(len(t) + 1)})
    median = statistics.median(seconds(benchmark)) * 1e3
    tables.table("Once per vocabulary", "vocabulary", "trie, ms", "prefixes").add(vocabulary_name, median, len(trie))


def test_first_schema_of_a_fresh_vocabulary(
    vocabulary: Vocabulary, vocabulary_name: str, benchmark: BenchmarkFixture, tables: Tables
) -> None:
    """Time a schema with a vocabulary that nothing is known of, not even its key; then again, when only the schema is new."""
    numbers, end = itertools.count(), vocabulary.eos_ids[0]

    def fresh() -> tuple[tuple[Vocabulary], dict[str, Any]]:
        # Another name of a special token is another vocabulary.
        return (Vocabulary(vocabulary.tokens, vocabulary.eos_ids, special={f"<{next(numbers)}>": end}),), {}

    benchmark.pedantic(lambda given: JsonSchema(SCHEMA, given), setup=fresh, rounds=ROUNDS, warmup_rounds=1)
    first, again = statistics.median(seconds(benchmark)) * 1e3, []
    for _ in range(ROUNDS):
        forget(vocabulary)
        begin = time.perf_counter()
        JsonSchema(SCHEMA, vocabulary)
        again.append((time.perf_counter() - begin) * 1e3)
    table = tables.table("First schema of a vocabulary, ms", "vocabulary", "first", "later", "difference")
    table.add(vocabulary_name, first, statistics.median(again), first - statistics.median(again))


@pytest.mark.parametrize("count", [1000, 20_000])
def test_choice(
    count: int, vocabulary: Vocabulary, vocabulary_name: str, benchmark: BenchmarkFixture, tables: Tables
) -> None:
    texts = [f"{i * 7919 % 1_000_003}-item {i % 97}".encode() for i in range(count)]

    def measured() -> TokenAutomaton:
        automaton = token_automaton(word_list_dfa(texts, LIMITS), vocabulary, LIMITS, "the choice")
        RowMask.of(automaton, automaton.start)
        return automaton

    automaton = benchmark.pedantic(measured, rounds=3, warmup_rounds=1)
    ids = {t: i for i, t in enumerate(vocabulary.tokens) if t}
    for text in texts[:: count // 50]:
        assert accepts(automaton, vocabulary, ids, text)
        assert not accepts(automaton, vocabulary, ids, text + b"x")
    median = statistics.median(seconds(benchmark)) * 1e3
    tables.table("Choice to first mask", "texts", "ms", "states", "classes", "table kB").add(
        *(
            f"{count} on {vocabulary_name}",
            median,
            automaton.states,
            automaton.classes,
            automaton.nbytes / 1000,
        )
    )


@pytest.mark.parametrize("shape", ["a chain", "a chain of names", "1,000 states"])
def test_dfa_of_a_million_transitions(shape: str, benchmark: BenchmarkFixture, tables: Tables) -> None:
    count = 10**6
    shapes: dict[str, Callable[[], dict[Any, Any]]] = {
        "a chain": lambda: {(i, i % 1000): i + 1 for i in range(count)},
        "a chain of names": lambda: {(f"s{i}", i % 1000): f"s{i + 1}" for i in range(count)},
        "1,000 states": lambda: {(i // 1000, i % 1000): i * 7919 % 1000 for i in range(count)},
    }
    moves = shapes[shape]()
    start, end = next(iter(moves))[0], [*moves.values()][-1]
    small = Vocabulary([*[b"a"] * 1000, None], eos_ids=[1000])
    dfa = benchmark.pedantic(lambda: Dfa(moves, start, {end}, small), rounds=3)
    table = tables.table("Dfa of a million transitions", "shape", "s", "states")
    table.add(shape, statistics.median(seconds(benchmark)), dfa.automaton.states)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, *sys.argv[1:]]))
