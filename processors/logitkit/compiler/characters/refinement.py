"""Partition refinement: which states of one strongly connected component accept the same texts.

In `(ac|bc)*`, for example, the states after `a` and after `b` are one. States are first grouped by whether they accept and by
how they leave the component. A group splits if its states move into different groups. When none splits any more, each group is
one state of the minimal automaton.
"""

from __future__ import annotations

from collections import defaultdict

from logitkit.budget import spend
from logitkit.compiler.characters.subset import SymbolDfa
from logitkit.limits import Limits

__all__ = ["DEAD", "refine"]

# Stands for every state from which no text is accepted.
DEAD = -1

# The cost of a move, in steps.
REFINING_MOVE = 4


def refine(
    dfa: SymbolDfa, component: list[int], members: set[int], state_of: list[int], limits: Limits
) -> dict[int, int]:
    """Group the states of one component that accept the same texts, given that all outside it is minimal.

    Partition refinement: when a group splits, its largest part keeps the group's number, and only states that move to the other
    parts are looked at again, so each state is looked at a logarithmic number of times for each of its moves.
    """
    group = _by_exits(dfa, component, members, state_of)
    groups: dict[int, set[int]] = {}
    for s in component:
        groups.setdefault(group[s], set()).add(s)
    # Most states differ from all others already.
    unsure = [s for s in component if len(groups[group[s]]) > 1]
    inner = {s: [(t, m) for t, m in dfa.moves[s].items() if t in members] for s in unsure}
    sources: dict[int, list[int]] = defaultdict(list)
    for s in unsure:
        for target, _ in inner[s]:
            sources[target].append(s)
    steps = 0
    dirty = set(unsure)
    while dirty:
        steps += sum(len(inner[s]) for s in dirty)
        limits.check_work(REFINING_MOVE * steps)
        touched: dict[int, list[int]] = defaultdict(list)
        for s in dirty:
            touched[group[s]].append(s)
        moved: list[int] = []
        for g, looked_at in touched.items():
            if len(groups[g]) > 1:
                moved += _split(g, looked_at, group, groups, inner)
        dirty = {s for target in moved for s in sources[target]}
    spend(REFINING_MOVE * steps)
    return group


def _by_exits(dfa: SymbolDfa, component: list[int], members: set[int], state_of: list[int]) -> dict[int, int]:
    """Group states by whether they accept, what they read inside of the component, and how they leave it."""
    group: dict[int, int] = {}
    number: dict[object, int] = {}
    for s in component:
        row: dict[int, int] = {}
        # All states of the component are alive, so that equal ones read the same symbols.
        inside = 0
        for target, mask in dfa.moves[s].items():
            if target in members:
                inside |= mask
            elif state_of[target] != DEAD:
                row[state_of[target]] = row.get(state_of[target], 0) | mask
        group[s] = number.setdefault((dfa.accepting[s], inside, frozenset(row.items())), len(number))
    return group


def _split(
    g: int,
    looked_at: list[int],
    group: dict[int, int],
    groups: dict[int, set[int]],
    inner: dict[int, list[tuple[int, int]]],
) -> list[int]:
    """Split a group by the groups that some of its states move to, and return the states that get another number."""
    parts: dict[object, set[int]] = defaultdict(set)
    for s in looked_at:
        row: dict[int, int] = {}
        for target, mask in inner[s]:
            row[group[target]] = row.get(group[target], 0) | mask
        parts[frozenset(row.items())].add(s)
    # Those not looked at still agree with each other, and with none that was: its moves have changed. In place, as they may be
    # very many.
    rest = groups[g]
    rest.difference_update(looked_at)
    split = [*parts.values(), *([rest] if rest else [])]
    split.sort(key=len)
    groups[g] = split.pop()
    moved: list[int] = []
    for part in split:
        new = len(groups)
        groups[new] = part
        moved.extend(part)
        for s in part:
            group[s] = new
    return moved
