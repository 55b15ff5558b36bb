"""Sequences that share their beginnings, bounded by tokens."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import example, given
from hypothesis import strategies as st

from logitkit.sessions import prefix_tree
from logitkit.sessions.prefix_tree import PrefixTree
from logitkit.sessions.reuse import common_prefix
from tests.sessions.work import lines_of

SEQUENCES = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=8).map(tuple), max_size=10)


def counted(sequences: list[tuple[int, ...]]) -> int:
    """The number of different beginnings: the nodes of a tree without joined edges."""
    return len({s[:n] for s in sequences for n in range(1, len(s) + 1)})


@given(SEQUENCES, SEQUENCES, st.lists(st.integers(0, 2), max_size=8))
def test_it_finds_what_looking_through_all_would_and_counts_what_is_shared_once(
    put: list[tuple[int, ...]], gone: list[tuple[int, ...]], wanted: list[int]
) -> None:
    tree: PrefixTree[int] = PrefixTree()
    for number, sequence in enumerate(put):
        tree.put(sequence, number)
    for sequence in gone:
        tree.discard(sequence)
    left = [s for s in dict.fromkeys(reversed(put)) if s not in gone]
    assert [e.tokens for e in tree.entries()] == left
    assert tree.tokens == counted(left)
    found = [(m.entry.tokens, m.shared) for m in tree.matches(wanted)]
    # Sorting keeps the order of equal ones, which is that of their last use.
    assert found == sorted(((s, n) for s in left if (n := common_prefix(s, wanted))), key=lambda pair: -pair[1])
    whole = [(m.entry.tokens, m.shared) for m in tree.beginnings(wanted)]
    assert whole == [(s, n) for s, n in found if n == len(s)]


@given(SEQUENCES, st.integers(0, 12))
def test_it_never_holds_more_than_it_may_and_lets_the_least_recently_used_go(
    put: list[tuple[int, ...]], limit: int
) -> None:
    tree: PrefixTree[int] = PrefixTree(limit)
    kept: list[tuple[int, ...]] = []
    for sequence in put:
        gone = [e.tokens for e in tree.put(sequence, 0)]
        assert tree.tokens <= limit
        if len(sequence) <= limit:
            kept = [s for s in kept if s != sequence] + [sequence]
            expected = []
            while counted(kept) > limit:
                expected.append(kept.pop(0))
            assert gone == expected
    assert [e.tokens for e in tree.entries()] == kept[::-1]


@given(SEQUENCES, st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=12), st.lists(st.integers(0, 2)))
@example([(0, 1, 2), (0, 2), (0, 1)], [(0, False)], [0])
def test_matches_come_in_the_order_of_their_last_use_whatever_was_used_or_let_go(
    put: list[tuple[int, ...]], done: list[tuple[int, bool]], wanted: list[int]
) -> None:
    tree: PrefixTree[int] = PrefixTree()
    for sequence in put:
        tree.put(sequence, 0)
    left = [*dict.fromkeys(reversed(put))]
    for place, is_used in done:
        if not left:
            break
        sequence = left.pop(place % len(left))
        if is_used:
            left.insert(0, sequence)
            entry = tree.get(sequence)
            assert entry is not None
            tree.touch(entry)
        else:
            tree.discard(sequence)
    assert [e.tokens for e in tree.entries()] == left
    found = [(m.entry.tokens, m.shared) for m in tree.matches(wanted)]
    assert found == sorted(((s, n) for s in left if (n := common_prefix(s, wanted))), key=lambda pair: -pair[1])


def test_no_step_takes_more_work_the_more_sequences_there_are() -> None:
    def work(number: int) -> list[int]:
        tree: PrefixTree[int] = PrefixTree(3 + 2 * number)
        for i in range(number):
            tree.put([7, 7, 7, i, i], i)
        assert (len(tree), tree.tokens) == (number, tree.max_tokens)
        steps: list[Callable[[], object]] = [
            lambda: next(tree.matches([7, 7, 7, -1])),
            lambda: next(tree.matches([7, 7, 7, 0, 0])),
            lambda: tree.beginnings([7, 7, 7, 0, 0]),
            lambda: tree.touch(next(tree.matches([7, 7, 7, 0])).entry),
            lambda: tree.put([7, 7, 7, number, number], 0),
            lambda: tree.discard([7, 7, 7, number, number]),
        ]
        return [lines_of(step, prefix_tree) for step in steps]

    assert work(3000) == work(30)


def test_a_use_saves_from_going() -> None:
    tree: PrefixTree[str] = PrefixTree(max_tokens=6)
    tree.put([1, 1, 1], "a")
    tree.put([2, 2, 2], "b")
    entry = tree.get([1, 1, 1])
    assert entry is not None
    tree.touch(entry)
    tree.put([3, 3], "c")
    assert [e.value for e in tree.entries()] == ["c", "a"]


def test_a_sequence_longer_than_the_bound_is_not_kept_and_drives_out_none() -> None:
    tree: PrefixTree[str] = PrefixTree(max_tokens=3)
    tree.put([1, 2, 3], "a")
    tree.put([4, 5, 6, 7], "b")
    assert [e.value for e in tree.entries()] == ["a"]


def test_cleared_it_holds_nothing() -> None:
    tree: PrefixTree[str] = PrefixTree()
    tree.put([1, 2], "a")
    tree.clear()
    assert (len(tree), tree.tokens, tree.entries(), list(tree.matches([1, 2]))) == (0, 0, [], [])
