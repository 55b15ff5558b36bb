"""Conditions on the next character that contradict what must follow: no text is lost, and no row gets stuck."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from itertools import product

import lark
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.budget import one_budget
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


# After an `ID`, a pop looks at fewer symbols than after a quote. The stack says whether a text goes on after the latter too.
VIEWS = """start: "(" u "1" | "[" u "z"
u: "!" t "q"? | "{" u "}"
t: ID | "'" | "<" t ">"
ID: /[a-z]+/
"""


def test_a_copy_knows_the_exits_after_a_pop_that_looks_at_fewer_symbols() -> None:
    parser = lark.Lark(VIEWS, parser="lalr")
    bytes_ = lk.Vocabulary([bytes([byte]) for byte in range(256)] + [None], eos_ids=[256])
    grammar = lk.Grammar(VIEWS, bytes_, syntax="lark")
    inside = ["!" + text for text in ("a", "'", "<a>", "abq", "'q", "<a>q", "aq", "")]
    inside += ["{" + text + "}" for text in inside]
    for text in [begin + text + end for begin in "([" for text in inside for end in ("1", "z", "qz")]:
        try:
            parser.parse(text)
            is_legal = True
        except lark.exceptions.LarkError:
            is_legal = False
        assert grammar.matches(text) == is_legal, text
    assert all(grammar.matches(text) for text in ("(!a1", "(!abq1", "({!a}1", "[{!a}z"))


def texts_by_definition(rules: Rules, longest: int) -> set[str]:
    """Return the texts of up to some length, as the least fixed point of the rules: it knows neither stacks nor symbols.

    Each text has the characters that must not follow it.
    """
    known: list[set[tuple[str, frozenset[str]]]] = [set() for _ in rules.bodies]

    def characters(node: Node) -> frozenset[str]:
        assert isinstance(node, Characters)
        return frozenset(chr(code) for first, last in node.charset.ranges for code in range(first, last + 1))

    def of_node(node: Node) -> set[tuple[str, frozenset[str]]]:
        match node:
            case Call():
                return known[node.rule]
            case Characters():
                return {(one, frozenset()) for one in characters(node)}
            case Look():
                return {("", characters(node.node))}
            case Alternate():
                return set().union(*map(of_node, node.options))
        assert isinstance(node, Concat | Empty), node
        found = {("", frozenset[str]())}
        for part in node.parts if isinstance(node, Concat) else ():
            found = {
                (text + more, illegal if more else excluded | illegal)
                for text, excluded in found
                for more, illegal in of_node(part)
                if len(text) + len(more) <= longest and more[:1] not in excluded
            }
        return found

    while True:
        found = [of_node(body) for body in rules.bodies]
        if found == known:
            return {text for text, _ in known[rules.start]}
        known = [set(texts) for texts in found]


def rules_of(chance: random.Random, letters: str = "abcx") -> Rules:
    """Return random rules. Some calls have an optional letter after them, so that a pop may look at fewer symbols."""
    count = chance.randint(3, 4)

    def option(rule: int) -> Node:
        parts: list[Node | str] = [chance.choice(letters if rule else "([ab")]
        called = [Call(chance.randint(1, count - 1)) for _ in range(2)]
        parts += called[:1] if not rule or chance.random() < 0.6 else []
        letter = chance.choice(letters)
        parts += [chance.choice([letter, letter, letter, either(letter, ""), either(letter, ""), called[1], ""])]
        if chance.random() < 0.4:
            parts.append(not_before("".join(chance.sample(letters, chance.randint(1, 3)))))
        return sequence(*parts)

    return Rules(tuple([Alternate(tuple([option(i) for _ in range(chance.randint(2, 3))])) for i in range(count)]))


def texts_of(dfa: PushdownDfa, alphabet: str, longest: int) -> set[str]:
    """Return the texts of up to some length."""
    follower, found = Follower(dfa), set[str]()
    todo = [("", {(dfa.start, tuple[int, ...]())})]
    for text, places in todo:
        if follower.after(places, dfa.end):
            found.add(text)
        for character in alphabet if len(text) < longest else "":
            after = follower.after(places, int(dfa.byte_class[ord(character)]))
            todo += [(text + character, after)] if after else []
    return found


# With these seeds, texts were lost when a key had only the exits of a node after any symbol.
LOST = (18, 50, 70, 128, 143, 151, 191, 210, 241, 258, 271, 378, 399, 417, 559, 568, 766, 818, 845, 867, 882, 894, 949)


def check_against_the_definition(rules: Rules, alphabet: str, longest: int) -> None:
    """Check the texts of an automaton, and that no row gets stuck, unless a limit is exceeded."""
    limits = Limits(work=200_000)
    try:
        with one_budget(limits.work):
            dfa = pushdown_dfa(rules, limits, splits=True)
    except PatternTooLarge:
        return
    except GrammarError:
        assert not texts_by_definition(rules, longest)
        return
    assert texts_of(dfa, alphabet, longest) == texts_by_definition(rules, longest)
    for depth in (1, 2, 8):
        check_that_no_row_gets_stuck(dfa, depth)


def test_the_language_is_that_of_the_definition() -> None:
    for seed in (*LOST, *range(examples(600))):
        check_against_the_definition(rules_of(random.Random(seed)), "([abcx", 5)


def test_an_optional_letter_after_a_call_loses_no_text() -> None:
    # After the optional `x`, all symbols are looked at. After a `d`, those that must not follow it are not.
    bracketed = either(sequence("{", Call(1), "}"), sequence("y", Call(2), either("x", "")))
    ended = either(sequence("<", Call(2), ">"), sequence("d", not_before("bx")), "f")
    start = either(sequence("(", Call(1), "a"), sequence("[", Call(1), "b"))
    check_against_the_definition(Rules((start, bracketed, ended)), "([abdfyx{}<>", 5)
