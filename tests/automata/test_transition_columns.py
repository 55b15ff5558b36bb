"""Tables of columns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from logitkit.compiler.bytes.byte_dfa import FIRST_STATE
from logitkit.compiler.bytes.occurrences import Occurrences
from logitkit.compiler.bytes.transition_columns import Moves, TransitionColumns, merge, of_bytes, starts, then_byte
from logitkit.compiler.language import byte_dfa_of
from logitkit.compiler.tokens.effects import column_store
from logitkit.compiler.tokens.effects.token_classes import token_classes
from logitkit.limits import DEFAULT_LIMITS
from logitkit.patterns import parse
from logitkit.vocabulary import Vocabulary
from tests.automata.brute_force import targets_by_bytes
from tests.examples import examples

EXAMPLES = settings(max_examples=examples(300), deadline=None, suppress_health_check=list(HealthCheck))
STATES = 6


def _key(table: TransitionColumns, i: int) -> tuple[int, tuple[tuple[int, int], ...]]:
    place = slice(int(table.start[i]), int(table.start[i + 1]))
    return int(table.default[i]), tuple(zip(table.source[place].tolist(), table.target[place].tolist(), strict=True))


@st.composite
def _tables(draw: st.DrawFn) -> TransitionColumns:
    rows = []
    for _ in range(draw(st.integers(1, 12))):
        default = draw(st.sampled_from((0, 0, 2, 3)))
        sources = sorted(draw(st.sets(st.integers(FIRST_STATE, STATES - 1), max_size=3)))
        pairs = [(s, draw(st.integers(0, STATES - 1))) for s in sources]
        rows.append((default, [(s, t) for s, t in pairs if t != default]))
    flat = np.array([pair for _, pairs in rows for pair in pairs], np.int64).reshape(-1, 2)
    counts = np.array([len(pairs) for _, pairs in rows])
    return TransitionColumns(np.array([d for d, _ in rows]), starts(counts), flat[:, 0], flat[:, 1])


def _check_merge(table: TransitionColumns) -> None:
    merged, number = merge(table)
    keys = [_key(merged, i) for i in range(len(merged))]
    assert len(set(keys)) == len(keys)
    assert keys[0] == (0, ())
    assert [keys[n] for n in number] == [_key(table, i) for i in range(len(table))]
    assert set(range(1, len(merged))) <= set(number.tolist())


@EXAMPLES
@given(_tables())
def test_merging_keeps_one_of_each(table: TransitionColumns) -> None:
    _check_merge(table)


@pytest.mark.parametrize(
    "pattern", ["[a-z]*", "(ab)*", r"[^\n]*", r"\d{4}-\d{2}", "é+|ab", ".{0,150}", "[a-z]{3,140}x?"]
)
def test_classes_are_as_few_as_can_be(pattern: str, sentencepiece_32k: Vocabulary) -> None:
    dfa = byte_dfa_of(parse(pattern), DEFAULT_LIMITS)
    found = token_classes(dfa, sentencepiece_32k, DEFAULT_LIMITS)
    keys = [_key(found.transitions, i) for i in range(len(found.transitions))]
    assert len(set(keys)) == len(keys)
    assert keys[0] == (0, ())
    assert set(np.unique(found.class_of).tolist()) | {0} == set(range(len(keys)))
    for state in np.unique(np.linspace(FIRST_STATE, len(dfa.step) - 1, 30).astype(int)).tolist():
        target = found.transitions.default.astype(np.int64)
        owner = np.repeat(np.arange(len(found.transitions)), np.diff(found.transitions.start))
        here = found.transitions.source == state
        target[owner[here]] = found.transitions.target[here]
        expected = targets_by_bytes(dfa, sentencepiece_32k, state)
        expected[list(sentencepiece_32k.eos_ids)] = 0
        assert np.array_equal(target[found.class_of], expected)


@pytest.mark.parametrize("banned", [False, True])
def test_long_columns_are_stepped_alike(
    banned: bool, sentencepiece_32k: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [b"the", b"hen", b"end", b"\xc3\xa9t"]
    dfa = (
        Occurrences.of(texts, DEFAULT_LIMITS).without() if banned else byte_dfa_of(parse("(the|end)*"), DEFAULT_LIMITS)
    )
    several = token_classes(dfa, sentencepiece_32k, DEFAULT_LIMITS)
    monkeypatch.setattr(column_store, "LONG", -1)
    singly = token_classes(dfa, sentencepiece_32k, DEFAULT_LIMITS)
    one, other = several.transitions, singly.transitions
    # The same columns, perhaps in another order.
    number = {_key(other, i): i for i in range(len(other))}
    assert sorted(number) == sorted(_key(one, i) for i in range(len(one)))
    assert np.array_equal(np.array([number[_key(one, i)] for i in range(len(one))])[several.class_of], singly.class_of)


@EXAMPLES
@given(_tables(), st.data())
def test_taking_and_joining(table: TransitionColumns, data: st.DataObject) -> None:
    which = np.array(data.draw(st.lists(st.integers(0, len(table) - 1), min_size=1, max_size=8)))
    taken = table.take(which)
    assert [_key(taken, i) for i in range(len(taken))] == [_key(table, i) for i in which]
    joined = TransitionColumns.joined([table, taken])
    assert [_key(joined, i) for i in range(len(joined))] == [
        *(_key(table, i) for i in range(len(table))),
        *(_key(table, i) for i in which),
    ]


def test_one_byte_after_another() -> None:
    dfa = byte_dfa_of(parse(r"[\s\S]*ab|a{3}"), DEFAULT_LIMITS)
    moves = Moves.of(dfa)
    table = of_bytes(moves)
    width = dfa.step.shape[1]
    which, symbol = np.divmod(np.arange(width * width), width)
    both = then_byte(moves, table, which, symbol)
    for i in range(width * width):
        default, pairs = _key(both, i)
        for state in range(FIRST_STATE, len(dfa.step)):
            expected = int(dfa.step[dfa.step[state, which[i]], symbol[i]])
            assert dict(pairs).get(state, default) == expected
        assert all(target != default for _, target in pairs)
