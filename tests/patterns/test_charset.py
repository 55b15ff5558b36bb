"""Sets of code points behave as sets, and keep their ranges in order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from logitkit.patterns import ANY, MAX_CODE_POINT, CharSet

small = st.tuples(st.integers(0, 300), st.integers(0, 6)).map(lambda pair: (pair[0], pair[0] + pair[1]))
# Sets of very different size are joined in another way than those of like size.
ranges = st.lists(small, max_size=6) | st.sets(small, min_size=40, max_size=60).map(list)


def _expanded(pairs: list[tuple[int, int]]) -> set[int]:
    return {code_point for first, last in pairs for code_point in range(first, last + 1)}


@given(ranges)
def test_of_any_ranges(pairs: list[tuple[int, int]]) -> None:
    charset, expected = CharSet.of(pairs), _expanded(pairs)
    assert list(charset) == sorted(expected)
    assert len(charset) == len(expected)
    assert bool(charset) == bool(expected)
    assert [code_point in charset for code_point in range(320)] == [c in expected for c in range(320)]
    flat = [end for pair in charset.ranges for end in pair]
    assert all(second > first + 1 for first, second in zip(flat[1::2], flat[2::2], strict=False))


@given(ranges, ranges)
def test_operations(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> None:
    one, other = CharSet.of(left), CharSet.of(right)
    mine, others = _expanded(left), _expanded(right)
    assert one | other == CharSet.of((c, c) for c in mine | others)
    assert one | other == CharSet.union([one, other, one])
    assert one & other == CharSet.of((c, c) for c in mine & others)
    assert one - other == CharSet.of((c, c) for c in mine - others)
    assert len(~one) == MAX_CODE_POINT + 1 - len(mine)
    assert ~~one == one
    assert (~one & one) == CharSet()
    assert (~one | one) == ANY
    assert (one == other) == (mine == others)
    assert hash(one | other) == hash(other | one)


def test_single_and_from_string() -> None:
    assert CharSet.single(0x61) == CharSet.from_string("aa")
    assert CharSet.from_string("badc").ranges == ((0x61, 0x64),)


def test_edges() -> None:
    assert not ~ANY
    assert ~CharSet() == ANY
    assert MAX_CODE_POINT in ANY
    assert (~CharSet.of([(0, 5), (MAX_CODE_POINT, MAX_CODE_POINT)])).ranges == ((6, MAX_CODE_POINT - 1),)
