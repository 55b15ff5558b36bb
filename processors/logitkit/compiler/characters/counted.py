"""A record that is repeated a number of times: its automaton is made once, and copied."""

from __future__ import annotations

from logitkit.budget import spend
from logitkit.compiler.characters.subset import SymbolDfa
from logitkit.limits import Limits
from logitkit.patterns.syntax import Node, Repeat

__all__ = ["copies_of", "is_counted", "is_record"]

# Fewer copies cost no more as positions.
FEW = 4


def is_counted(tree: Node) -> bool:
    """Whether a tree is a repetition that may be worth the way of `copies_of`."""
    return isinstance(tree, Repeat) and tree.maximum is not None and tree.maximum >= FEW


def is_record(dfa: SymbolDfa) -> bool:
    """Whether no text begins with another one, and none comes back to its beginning: one that `copies_of` takes."""
    (end, *others) = (state for state, accepts in enumerate(dfa.accepting) if accepts)
    return not others and not dfa.moves[end] and end != 0 and not any(0 in row for row in dfa.moves)


def copies_of(record: SymbolDfa, minimum: int, maximum: int, limits: Limits) -> SymbolDfa | None:
    """Return an automaton of `minimum` to `maximum` records one after another, or None where it is not made so.

    No record may begin with another one, as where each ends with a newline that it has nowhere else. Where one may be enough, the
    automaton is minimal, and numbered as `minimise` numbers: the shortest texts from a state, those that no other one begins, are
    what its record still lacks, which no other state of a minimal automaton of the record lacks; and a text consists of records
    in one way only, so that states with different numbers of records ahead differ too.

    Args:
        record: The minimal automaton of a record.
        minimum: Fewest records.
        maximum: Most records.
        limits: Bounds on the result.

    Raises:
        PatternTooLarge: There would be too many states.
    """
    # A text may end where a record has, and not where one has come back to its beginning.
    if not is_record(record):
        return None
    size, end = len(record.moves), record.accepting.index(True)
    limits.check_states((size - 1) * maximum + 1)
    rows = [sorted(row.items(), key=lambda move: move[1] & -move[1]) for row in record.moves]
    work = maximum * sum(map(len, rows))
    limits.check_work(4 * work)
    spend(4 * work)
    # A state is its record's number times `size`, and its number there. The end of one record begins the next.
    order = [0]
    number = {0: 0}
    moves: list[dict[int, int]] = []
    last = maximum * size
    for state in order:
        if state == last:
            moves.append({})
            continue
        inside = state % size
        base = state - inside
        row = {}
        for target, mask in rows[inside]:
            place = base + size if target == end else base + target
            found = number.get(place)
            if found is None:
                found = number[place] = len(order)
                order.append(place)
            row[found] = mask
        moves.append(row)
    accepting = [state % size == 0 and state // size >= minimum for state in order]
    return SymbolDfa(moves, accepting)
