"""Conditions on the next character that contradict what must follow: no text is lost, and no row gets stuck."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from logitkit.compiler.bytes.byte_dfa import DEAD, FINISHED
from logitkit.compiler.bytes.pushdown_dfa import PushdownDfa
from logitkit.compiler.bytes.pushdown_step import POP, PushdownStep
from logitkit.compiler.grammars.dfa import pushdown_dfa
from logitkit.compiler.grammars.rules import Rules
from logitkit.errors import GrammarError, PatternTooLarge
from logitkit.limits import Limits
from logitkit.patterns.charset import CharSet
from logitkit.patterns.syntax import Alternate, Call, Characters, Concat, Empty, Look, Node
from tests.examples import examples
from tests.grammars.derivations import derives
from tests.grammars.pushdowns import Follower, accepts

LIMITS = Limits()
# A state and the frames on the stack.
Place = tuple[int, tuple[int, ...]]


def sequence(*parts: Node | str) -> Node:
    nodes = [
        n for p in parts for n in ([p] if not isinstance(p, str) else map(Characters, map(CharSet.from_string, p)))
    ]
    return Concat(tuple(nodes)) if len(nodes) > 1 else nodes[0] if nodes else Empty()


def either(*options: Node | str) -> Node:
    return Alternate(tuple([sequence(option) for option in options]))


def not_before(characters: str) -> Look:
    return Look(Characters(CharSet.from_string(characters)), False, True, 0)


# The rule 1 ends with a `d`, which a bracket must not follow, or with a brace.
END = sequence("d", not_before(")]"))
NESTED = either(sequence("{", Call(1), "}"), END)


def test_the_stack_says_which_symbols_are_left() -> None:
    rules = Rules(
        (either(sequence("(", Call(1), ")"), sequence("[", Call(1), "f]"), sequence("<", Call(1), ">")), NESTED)
    )
    dfa = pushdown_dfa(rules, LIMITS)
    follower = Follower(dfa)
    for opening, legal in {
        "(": "{",
        "[": "{d",
        "<": "{d",
        "({": "{d",
        "({{": "{d",
        "({d}": ")",
        "[d": "f",
        "[{d}": "f",
    }.items():
        places = {(dfa.start, tuple[int, ...]())}
        for byte in opening.encode():
            places = follower.after(places, int(dfa.byte_class[byte]))
        assert {c for c in "{d}()[]<>f" if follower.after(places, int(dfa.byte_class[ord(c)]))} == {*legal}, opening
    for text in ("({d})", "[df]", "<d>", "[{{d}}f]", "(d)", "[d]", "({{d})"):
        assert accepts(dfa, text.encode()) == derives(rules, text), text


def test_nothing_is_left_inside_of_two_rules() -> None:
    # Below the innermost frame, too: a `d` at the end of the rules 1 and 2 must have no bracket after it.
    start = either(sequence("(", Call(2), ")"), sequence("<", Call(2), ">"))
    rules = Rules((start, NESTED, either(Call(1), sequence("-", Call(2)))))
    dfa = pushdown_dfa(rules, LIMITS)
    texts = ["".join(text) for size in range(5) for text in product("(<{d})>-", repeat=size)]
    assert {text for text in texts if accepts(dfa, text.encode())} == {text for text in texts if derives(rules, text)}


def test_a_grammar_without_texts_is_refused() -> None:
    with pytest.raises(GrammarError, match="contradict the text that must follow"):
        pushdown_dfa(Rules((sequence("(", Call(1), ")"), either(sequence("{", Call(1), ")"), END))), LIMITS)


class WithNeeds(Follower):
    """Takes only symbols after which there is room for the frames that are needed, as the runtime does."""

    def steps(self, place: Place, depth: int) -> Iterator[Place]:
        """Yield where each symbol leads from a place; the state after the end of the text is `FINISHED`."""
        dfa, need, frame_need = self.dfa, self.dfa.need, self.dfa.frame_need
        assert frame_need is not None
        for symbol in range(1, dfa.end + 1):
            todo = [place]
            for state, stack in todo:
                for does in (int(dfa.step[state, symbol]), *self.further.get((state, symbol), ())):
                    if does == POP:
                        todo += [(self.return_state.get((state, stack[-1]), DEAD), stack[:-1])] if stack else []
                        continue
                    frames = dfa.pushed[PushdownStep.move(does)] if PushdownStep.is_push(does) else ()
                    target = int(dfa.target[PushdownStep.move(does)]) if frames else does
                    heights = [len(frames) + int(need[target]), *[i + int(frame_need[f]) for i, f in enumerate(frames)]]
                    if target != DEAD and len(stack) + max(heights) <= depth:
                        yield target, stack + frames


def check_that_no_row_gets_stuck(dfa: PushdownDfa, depth: int) -> None:
    """Check that some symbol leads on from each of the first places that are reached."""
    follower, todo, seen = WithNeeds(dfa), deque[Place](), {(dfa.start, tuple[int, ...]())}
    todo += seen if dfa.need[dfa.start] <= depth else ()
    while todo and len(seen) < 80:
        place = todo.popleft()
        after = {*follower.steps(place, depth)}
        assert after, place
        todo += [one for one in after if one not in seen and one[0] != FINISHED]
        seen |= after


@st.composite
def grammars(draw: st.DrawFn) -> Rules:
    """Rules with conditions that are used in several places, so that some of these contradict the conditions."""
    letters, conditions = st.sampled_from(["a", "b", "c", ""]), st.sampled_from(["a", "b", "ab", "bc", "abc"])
    count = draw(st.integers(2, 4))

    def option(rule: int) -> Node:
        called: list[Node | str] = [Call(draw(st.integers(max(1, rule - 1), count - 1)))] if draw(st.booleans()) else []
        ended: list[Node | str] = [not_before(draw(conditions))] if draw(st.booleans()) else []
        begin = draw(st.sampled_from(["a", "b", "c"])) if rule else draw(st.sampled_from(["(", "a"]))
        return sequence(begin, *called, draw(letters), *ended)

    bodies = [Alternate(tuple([option(rule) for _ in range(draw(st.integers(2, 3)))])) for rule in range(count)]
    return Rules(tuple(bodies))


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(grammars())
def test_the_language_is_exact_and_no_row_gets_stuck(rules: Rules) -> None:
    texts = ["".join(text) for size in range(5) for text in product("abc(", repeat=size)]
    language = {text for text in texts if derives(rules, text)}
    try:
        dfa = pushdown_dfa(rules, LIMITS, splits=True)
    except PatternTooLarge:
        return
    except GrammarError:
        assert not language
        return
    assert {text for text in texts if accepts(dfa, text.encode())} == language
    for depth in (1, 2, 8):
        check_that_no_row_gets_stuck(dfa, depth)
