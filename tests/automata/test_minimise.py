"""The minimiser against Moore's algorithm, on graphs full of cycles."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from logitkit.compiler.characters.components import components
from logitkit.compiler.characters.minimise import minimise
from logitkit.compiler.characters.subset import SymbolDfa
from logitkit.limits import DEFAULT_LIMITS
from tests.automata.moore import live, matrix, moore, reachable, same_language
from tests.examples import examples

SYMBOLS = 3
Edges = list[list[int]]  # for each state, the target of each symbol; -1 is dead


def _dfa(edges: Edges, accepting: list[bool]) -> SymbolDfa:
    moves: list[dict[int, int]] = []
    for row in edges:
        masks: dict[int, int] = {}
        for symbol, target in enumerate(row):
            if target >= 0:
                masks[target] = masks.get(target, 0) | 1 << symbol
        moves.append(masks)
    return SymbolDfa(moves, accepting)


def _check(edges: Edges, accepting: list[bool]) -> SymbolDfa | None:
    dfa = _dfa(edges, accepting)
    small = minimise(dfa, DEFAULT_LIMITS)
    step, accepts = matrix(dfa, SYMBOLS)
    if small is None:
        assert not live(step, accepts)[0]
        return None
    small_step, small_accepts = matrix(small, SYMBOLS)
    assert same_language((step, accepts), 0, (small_step, small_accepts), 0)
    wanted = moore(step, accepts)[reachable(step, 0) & live(step, accepts)]
    assert len(small.moves) == len(np.unique(wanted))
    return small


@st.composite
def _graphs(draw: st.DrawFn) -> tuple[Edges, list[bool]]:
    count = draw(st.integers(1, 7))
    target = st.integers(-1, count - 1)
    edges = [[draw(target) for _ in range(SYMBOLS)] for _ in range(count)]
    return edges, [draw(st.booleans()) for _ in range(count)]


@st.composite
def _unfolded(draw: st.DrawFn) -> tuple[Edges, list[bool]]:
    """A graph in which each state has several copies, and each edge leads to any copy: cycles fold and repeat."""
    edges, accepting = draw(_graphs())
    copies = [draw(st.integers(1, 4)) for _ in edges]
    first = np.cumsum([0, *copies]).tolist()
    result = [
        [-1 if t < 0 else first[t] + draw(st.integers(0, copies[t] - 1)) for t in edges[state]]
        for state, many in enumerate(copies)
        for _ in range(many)
    ]
    return result, [accepting[state] for state, many in enumerate(copies) for _ in range(many)]


@st.composite
def _rings(draw: st.DrawFn) -> tuple[Edges, list[bool]]:
    """Rings of the same repeated word, with spokes between them: whole cycles equal others or fold onto themselves."""
    edges: Edges = []
    accepting: list[bool] = []
    word = draw(st.lists(st.tuples(st.integers(0, 1), st.booleans()), min_size=1, max_size=3))
    for _ in range(draw(st.integers(1, 4))):
        begin, times = len(edges), draw(st.integers(1, 3))
        size = len(word) * times
        for i in range(size):
            symbol, accepts = word[i % len(word)]
            row = [-1] * SYMBOLS
            row[symbol] = begin + (i + 1) % size
            edges.append(row)
            accepting.append(accepts)
    for _ in range(draw(st.integers(0, 6))):
        row = edges[draw(st.integers(0, len(edges) - 1))]
        symbol = draw(st.integers(0, SYMBOLS - 1))
        if row[symbol] < 0:
            row[symbol] = draw(st.integers(0, len(edges) - 1))
    start = draw(st.integers(0, len(edges) - 1))
    swap = {0: start, start: 0}
    order = [swap.get(i, i) for i in range(len(edges))]
    return [[swap.get(t, t) for t in edges[i]] for i in order], [accepting[i] for i in order]


EXAMPLES = settings(max_examples=examples(600), deadline=None, suppress_health_check=list(HealthCheck))


@EXAMPLES
@given(_graphs())
def test_any_graph(graph: tuple[Edges, list[bool]]) -> None:
    _check(*graph)


@EXAMPLES
@given(_unfolded())
def test_states_in_many_copies(graph: tuple[Edges, list[bool]]) -> None:
    _check(*graph)


@EXAMPLES
@given(_rings())
def test_rings(graph: tuple[Edges, list[bool]]) -> None:
    _check(*graph)


def test_a_loop_that_equals_a_state_with_a_loop_on_a_larger_cycle() -> None:
    # 1 and 2 form a cycle, and 1 also loops on itself; 0 does just what 1 does, from outside.
    small = _check([[0, 2, -1], [1, 2, -1], [-1, -1, 1]], [True, True, False])
    assert small is not None
    assert len(small.moves) == 2


def test_a_loop_that_its_target_swallows() -> None:
    # 0 loops on a and moves to 1 on b; 1 loops on both: one state.
    small = _check([[0, 1, -1], [1, 1, -1]], [True, True])
    assert small is not None
    assert len(small.moves) == 1


def test_equal_languages_have_equal_automata() -> None:
    one = minimise(
        _dfa([[1, 2, -1], [3, -1, -1], [-1, 3, -1], [-1, -1, -1]], [False, False, False, True]), DEFAULT_LIMITS
    )
    other = minimise(
        _dfa([[3, 1, -1], [-1, 2, -1], [-1, -1, -1], [2, -1, -1]], [False, False, True, False]), DEFAULT_LIMITS
    )
    assert one is not None
    assert other is not None
    assert (one.moves, one.accepting) == (other.moves, other.accepting)


def test_components_come_in_reverse_topological_order() -> None:
    dfa = _dfa([[1, -1, -1], [2, 3, -1], [1, -1, -1], [3, -1, -1], [0, -1, -1]], [False] * 5)
    assert [sorted(c) for c in components(dfa.moves)] == [[3], [1, 2], [0]]


def test_long_chains_and_rings_need_no_recursion() -> None:
    count = 20_000
    chain = _dfa([[i + 1, -1, -1] for i in range(count)] + [[-1, -1, -1]], [False] * count + [True])
    assert len((minimise(chain, DEFAULT_LIMITS) or chain).moves) == count + 1
    ring = _dfa([[(i + 1) % count, -1, -1] for i in range(count)], [i % 4 == 0 for i in range(count)])
    small = minimise(ring, DEFAULT_LIMITS)
    assert small is not None
    assert len(small.moves) == 4
