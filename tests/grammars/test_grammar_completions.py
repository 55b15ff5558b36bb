"""No text of a grammar leads to where nothing goes on, however deep it may nest: all states and stacks are tried."""

from __future__ import annotations

from typing import TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings

from logitkit.compiler.bytes.byte_dfa import FINISHED
from logitkit.compiler.bytes.pushdown_dfa import PushdownDfa
from logitkit.compiler.bytes.pushdown_step import POP, PushdownStep
from logitkit.compiler.grammars.dfa import pushdown_dfa
from logitkit.compiler.grammars.rules import Rules
from logitkit.errors import GrammarError, PatternTooLarge
from logitkit.limits import Limits
from logitkit.patterns.syntax import Call, Repeat
from tests.examples import examples
from tests.grammars.pushdowns import accepts, after_pop
from tests.grammars.test_pushdown_dfa import either, grammars, not_before, one_of, sequence

Place: TypeAlias = tuple[int, tuple[int, ...]]
DONE: Place = (FINISHED, ())

MOST = 3000


def has_room(dfa: PushdownDfa, place: Place, max_depth: int) -> bool:
    """Whether what must be opened later has room, as tokens are judged."""
    state, stack = place
    after = [int(dfa.need[dfa.return_state[dfa.return_state[:, 1] == frame, 2]].max(initial=0)) for frame in stack]
    needed = [i + more for i, more in enumerate(after)]
    return max([len(stack) + int(dfa.need[state]), *needed]) <= max_depth


def places_after(dfa: PushdownDfa, behind: dict[tuple[int, int], int], place: Place, max_depth: int) -> set[Place]:
    """Return where the symbols that are legal somewhere lead to."""
    found = set()
    for symbol in range(dfa.step.shape[1]):
        state, stack = place
        does = int(dfa.step[state, symbol])
        while does == POP and stack:
            state, stack = behind.get((state, stack[-1]), 0), stack[:-1]
            does = int(dfa.step[state, symbol])
        if PushdownStep.is_push(does):
            stack += dfa.pushed[PushdownStep.move(does)]
            does = int(dfa.target[PushdownStep.move(does)])
        if does == FINISHED:
            assert not stack
            found.add(DONE)
        elif does > FINISHED and has_room(dfa, (does, stack), max_depth):
            found.add((does, stack))
    return found


def check(dfa: PushdownDfa, max_depth: int) -> int:
    """Try all places near the start; return their number, 0 if there is no room for the start."""
    start: Place = (dfa.start, ())
    if not has_room(dfa, start, max_depth):
        return 0
    behind = after_pop(dfa)
    leads: dict[Place, set[Place]] = {}
    before: dict[Place, list[Place]] = {}
    todo = [start]
    while todo and len(leads) < MOST:
        place = todo.pop()
        if place not in leads:
            leads[place] = places_after(dfa, behind, place, max_depth)
            todo.extend(sorted(leads[place] - {DONE}))
            for following in leads[place]:
                before.setdefault(following, []).append(place)
    # Where too many were found to try all, the others count as places where a text goes on.
    live = {DONE, *todo} - (leads.keys() - {DONE})
    todo = [*live]
    while todo:
        fresh = [place for place in before.get(todo.pop(), ()) if place not in live]
        live.update(fresh)
        todo.extend(fresh)
    assert leads.keys() <= live
    return len(leads)


def check_all(rules: Rules) -> None:
    try:
        dfa = pushdown_dfa(rules, Limits(work=2_000_000))
    except (GrammarError, PatternTooLarge):
        return
    for max_depth in (0, 1, 2, 4):
        check(dfa, max_depth)


@settings(max_examples=examples(80), deadline=None, suppress_health_check=list(HealthCheck))
@given(grammars(looks=False))
def test_every_beginning_can_be_completed(rules: Rules) -> None:
    check_all(rules)


@settings(max_examples=examples(80), deadline=None, suppress_health_check=list(HealthCheck))
@given(grammars(looks=True))
def test_every_beginning_can_be_completed_with_conditions(rules: Rules) -> None:
    check_all(rules)


# Only `b` is the beginning of a text: after `ad`, neither `e` is allowed nor anything else possible.
AFTER_ALL = (either(sequence("a", Call(1), "e"), "b"), sequence("d", not_before("e")))
# As above within brackets, where the rule of the brackets calls itself.
IN_BRACKETS = (
    either(sequence("(", Call(0), ")"), sequence("a", Call(1), "e"), "b"),
    sequence("d", not_before("e"), Repeat(one_of("f"), 0, 1)),
)


@pytest.mark.parametrize("bodies", [AFTER_ALL, IN_BRACKETS], ids=["after all", "in brackets"])
def test_what_conditions_contradict_is_removed(bodies: tuple[object, ...]) -> None:
    dfa = pushdown_dfa(Rules(bodies), Limits())  # type: ignore[arg-type]
    assert check(dfa, 8) > 0
    assert accepts(dfa, b"b")
    assert not accepts(dfa, b"ade")


def test_an_empty_language_by_conditions_is_refused() -> None:
    with pytest.raises(GrammarError, match="contradict the text that must follow"):
        pushdown_dfa(Rules((sequence("a", not_before("b"), "b"),)), Limits())


def test_what_follows_a_frame_needs_room() -> None:
    # After the inner `)`, one more must be opened.
    angles = either(sequence("<", Call(2), ">", Call(0), "c"), "d")
    brackets = either(sequence("(", Call(0), ")", Call(1), "a"), "b")
    dfa = pushdown_dfa(Rules((brackets, sequence("[", Call(2), "]"), angles)), Limits())
    for max_depth in range(1, 6):
        assert check(dfa, max_depth) > 0
