"""Rules of a grammar with `max_tokens`: masks against all splits of short texts, and against XGrammar."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.errors import ConfigurationError, PatternTooLarge
from logitkit.grammars.read import GrammarSyntax
from logitkit.languages import grammar as grammar_language
from logitkit.languages import literal, sequence
from tests.examples import examples
from tests.grammars.limited_rules import (
    Anywhere,
    Fixed,
    Inside,
    Limited,
    Part,
    Repeated,
    accepted,
    grammar_of,
    is_accepted,
)

# The length of the longest of all sequences that are tried, the number of random ones, and their length.
LONGEST, WALKS, STEPS = 4, 12, 60
SIGNS = [b"a", b"b", b";", b"x", b"Y", b"\xc3", b"\xa9"]
MORE = [
    b"ab",
    b"aa",
    b"xa",
    b"bY",
    b"a;",
    b";Y",
    b"Yx",
    b"aYxb",
    b"xx",
    b"YY",
    b"a\xc3",
    b"\xa9a",
    "xé".encode(),
    b";;",
]
PATTERNS = [("[ab]+", "[ab]*"), ("[ab;]*", "[ab;]*"), ("[ab]{2}", "[ab]{0,2}"), ("[aé]+", "[aé]*")]
BYTES = lk.Vocabulary([*(bytes([byte]) for byte in range(256)), b"abc", None], eos_ids=[257])


@st.composite
def limited(draw: st.DrawFn, name: str) -> Limited:
    """Draw a rule with a limit."""
    pattern, begins = draw(st.sampled_from(PATTERNS))
    return Limited(name, pattern, begins, draw(st.integers(1, 3)), draw(st.sampled_from(["", "", ";"])))


@st.composite
def grammars(draw: st.DrawFn) -> tuple[Part, ...]:
    """Draw a grammar with one or two rules with a limit."""
    one, two = draw(limited("r")), draw(limited("s"))
    x, y = Fixed("x"), Fixed(draw(st.sampled_from(["Y", ";", ";Y"])))
    forms: list[tuple[Part, ...]] = [
        (one,),
        (x, one, y),
        (one, y, two),
        (Repeated((one, y)),),
        (Repeated((x, one)), y),
        (Inside("x", (one,), "Y"),),
        (x, Anywhere(Fixed("Y"), one), y),
        (Repeated((Inside("x", (one, Fixed(";")), "Y"),)),),
    ]
    return draw(st.sampled_from(forms))


def made(text: str, tokens: Sequence[bytes], syntax: GrammarSyntax = "lark") -> lk.Grammar:
    """Return a grammar over some tokens; EOS comes after them."""
    return lk.Grammar(text, lk.Vocabulary([*tokens, None], eos_ids=[len(tokens)]), syntax=syntax)


def made_unless_too_few(text: str, tokens: Sequence[bytes]) -> lk.Grammar | None:
    """Return a grammar, or None if the bytes of a rule may not be completed in as few tokens as its limit allows."""
    try:
        return made(text, tokens)
    except ConfigurationError as error:
        if "may be too few" in str(error):
            return None
        raise


def legal(one: lk.Grammar, ids: Sequence[int]) -> set[int]:
    """Return what may follow some tokens."""
    state = one.init_state(lk.Context.of([[]], vocabulary_size=one.vocabulary.size))
    if ids:
        state = one.advance(state, torch.tensor([list(ids)]))
    return set(one.allowed_tokens(state)[0].nonzero().flatten().tolist())


def random_tokens(one: lk.Grammar, chance: random.Random) -> list[int] | None:
    """Return a text that is written under the masks, without EOS, or None if it becomes long; no mask on the way may be empty."""
    end, written = one.vocabulary.size - 1, list[int]()
    while len(written) < STEPS:
        following = legal(one, written)
        assert following, written
        if end in following and (len(following) == 1 or chance.random() < 0.4):
            return written
        written.append(chance.choice(sorted(following - {end})))
    return None


@given(grammars(), st.sets(st.sampled_from(MORE), max_size=3), st.integers(0, 99))
@settings(max_examples=examples(200))
def test_masks_are_those_of_all_splits(parts: tuple[Part, ...], more: set[bytes], seed: int) -> None:
    tokens = [*SIGNS, *sorted(more)]
    one = made_unless_too_few(grammar_of(parts), tokens)
    if one is None:
        return
    texts, end = accepted(parts, tokens, LONGEST), len(tokens)
    masks = {ids[:at]: legal(one, ids[:at]) for ids in texts for at in range(len(ids) + 1)}
    for ids in texts:
        assert all(token in masks[ids[:at]] for at, token in enumerate((*ids, end)))
    assert all((end in mask) == (ids in texts) for ids, mask in masks.items())
    chance = random.Random(seed)
    for written in filter(None, (random_tokens(one, chance) for _ in range(WALKS))):
        assert is_accepted(parts, [tokens[i] for i in written])


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize(
    "parts",
    [
        (Fixed("x"), Limited("r", "[ab]+", "[ab]*", 0), Fixed("Y")),
        (Limited("r", "[ab;]*", "[ab;]*", 0), Fixed(";"), Limited("s", "[ab;]*", "[ab;]*", 0)),
        (Repeated((Limited("r", "[aé]+", "[aé]*", 0, ";"),)), Fixed("Y")),
        (Inside("x", (Limited("r", "[ab]*", "[ab]*", 0),), "Y"),),
    ],
)
def test_what_may_be_limited(parts: tuple[Part, ...], most: int) -> None:
    found = [with_limit(part, most) for part in parts]
    one = made(grammar_of(found), [*SIGNS, *MORE])
    chance = random.Random(most)
    written = {tuple(ids) for _ in range(40) if (ids := random_tokens(one, chance)) is not None}
    assert len(written) > 4
    tokens = [*SIGNS, *MORE]
    assert all(is_accepted(found, [tokens[i] for i in ids]) for ids in written)


def with_limit(part: Part, most: int) -> Part:
    """Return a part whose rules have another limit."""
    match part:
        case Limited(name, pattern, begins, _, suffix):
            return Limited(name, pattern, begins, most, suffix)
        case Repeated(inner):
            return Repeated(tuple([with_limit(one, most) for one in inner]))
        case Inside(opening, inner, closing):
            return Inside(opening, tuple([with_limit(one, most) for one in inner]), closing)
    return part


PEERS = [
    'start: "x" r "Y"\nr[max_tokens={}]: /[ab]+/',
    'start: "x" r "Y"\nr[max_tokens={}, stop=""]: /[ab;]+/',
    'start: ("x" r "Y")+\nr[max_tokens={}]: /[ab]*/',
    'start: r ";" r "Y"\nr[max_tokens={}]: /[ab]+/',
    'start: "x" start "Y" | r\nr[max_tokens={}]: /[ab]+/',
    'start: "x" r "Y"\nr[max_tokens={}, suffix=";"]: /[ab]*/',
    'start: "x" (r | "Y") "Y"\nr[max_tokens={}]: /[ab]+/',
]


@pytest.mark.parametrize("most", [1, 2, 4])
@pytest.mark.parametrize("text", PEERS)
def test_masks_are_those_of_xgrammar(text: str, most: int) -> None:
    compare_with_xgrammar(text.format(most), "lark", most)


def compare_with_xgrammar(text: str, syntax: GrammarSyntax, seed: int) -> None:
    """Compare masks along random texts.

    XGrammar does not count a token that begins before the rule, and its masks lack some that end two rules: no token here does.
    """
    xgrammar = pytest.importorskip("xgrammar", reason="needs XGrammar: pip install -c constraints.txt xgrammar")
    tokens = [b"a", b"b", b";", b"x", b"Y", b"ab", b"aa", b"bY", b"a;", b";Y", b"Yx", b"xx", b";;"]
    one, end = made(text, tokens, syntax), len(tokens)
    info = xgrammar.TokenizerInfo([*tokens, b"</s>"], stop_token_ids=[end])
    if syntax == "gbnf":
        theirs = xgrammar.Grammar.from_ebnf(text)
    else:
        theirs = xgrammar.Grammar.from_lark(text.replace(', stop=""', ""), tokenizer_info=info)
    compiled = xgrammar.GrammarCompiler(info, cache_enabled=False).compile_grammar(theirs)
    bitmask = xgrammar.allocate_token_bitmask(1, end + 1)
    chance = random.Random(seed)
    for _ in range(6):
        matcher, written = xgrammar.GrammarMatcher(compiled), (random_tokens(one, chance) or [])[:12]
        for at in range(len(written) + 1):
            matcher.fill_next_token_bitmask(bitmask)
            assert {i for i in range(end + 1) if int(bitmask[0, 0]) >> i & 1} == legal(one, written[:at])
            assert at == len(written) or matcher.accept_token(written[at])


def test_the_limit_ends_a_rule_where_its_pattern_goes_on() -> None:
    text = 'start: "Name: " name " Height: " height\nname[max_tokens=3, stop=""]: /.*/\nheight[max_tokens=2, stop=""]: /.*/'
    one = lk.Grammar(text, BYTES, syntax="lark")
    texts = ["Name: Bob Height: 3", "Name: abcabcabc Height: 3'", "Name: Bo Height: 3", "Name: Bobb Height: 3"]
    ids = [[*b"Name: ", 256, 256, 256, *b" Height: 3'", 257], [*b"Name: abca Height: 3", 257]]
    context = lk.Context.of([[]], vocabulary_size=258)
    assert [one.matches(text) for text in texts] == [True, True, False, False]
    assert [bool(one.is_dead(one.advance(one.init_state(context), torch.tensor([row])))[0]) for row in ids] == [
        False,
        True,
    ]


def test_a_rule_of_no_tokens_is_empty() -> None:
    one = lk.Grammar('start: "a" r "c"\nr[max_tokens=0]: /b*/', BYTES, syntax="lark")
    assert [one.matches(text) for text in ("ac", "abc")] == [True, False]


def test_a_limit_in_a_nested_grammar_and_in_a_language() -> None:
    text = 'start: a a\na: %lark {\nstart: r ";"\nr[max_tokens=2]: /[a-z]+/\n}'
    nested = lk.Grammar(text, BYTES, syntax="lark")
    assert [nested.matches(text) for text in ("ab;c;", "abc;abc;", "xyz;c;")] == [True, True, False]
    inner = grammar_language('start: "x" r "y"\nr[max_tokens=2]: /[a-d]+/', syntax="lark")
    language = sequence(literal("<"), inner, literal(">")).constraint(BYTES)
    assert [language.matches(text) for text in ("<xaby>", "<xabcdy>", "<xbbby>")] == [True, True, False]
    with pytest.raises(ConfigurationError, match="a grammar with max_tokens in it"):
        language.nested_dfa()


def test_captures_of_a_rule_that_its_limit_ends() -> None:
    text = 'start: "(" head ")"\nhead[max_tokens=4, suffix="</t>", capture, stop_capture="end"]: /(.|\\n)*/'
    one = lk.Grammar(text, BYTES, syntax="lark")
    assert one.captures("(ab</t>)") == {"head": ["ab"], "end": ["</t>"]}
    assert one.captures([*b"(abcd)", 257]) == {"head": ["abcd"], "end": []}


REFUSED = {
    'start: r | /[a-f]+/ "1"\nr[max_tokens=3]: /[a-z]+/': "may stand in the same place",
    'start: "a" start "a" | r\nr[max_tokens=3]: /a*/': "may stand in the same place",
    "start: r | s\nr[max_tokens=3]: /[a-z]+/\ns[max_tokens=2]: /[a-z]+1/": "may stand in the same place",
    'start: "x" r\nr[max_tokens=2]: "abcdef"': "max_tokens=2 may be too few",
    # Where the second rule could begin, the first one goes on, and an odd number of tokens never completes it.
    'start: r r ";"\nr[max_tokens=5]: /(ab)+/': "max_tokens=5 may be too few",
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_limit_that_cannot_be_kept_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=REFUSED[text]):
        lk.Grammar(text, BYTES, syntax="lark")


def test_too_many_tokens_take_too_many_states() -> None:
    with pytest.raises(PatternTooLarge, match=r"max_tokens=900000 takes .* states for each token"):
        lk.Grammar("start: r\nr[max_tokens=900000]: /.*/", BYTES, syntax="lark")


def test_many_limits_and_many_entries_are_too_much_work() -> None:
    numbers = range(1, 301)
    rules = [f"r{i}[max_tokens={i}]: /[ab]+/" for i in numbers]
    start = "start: " + " | ".join(f'"{i};" r{i} "."' for i in numbers)
    with pytest.raises(PatternTooLarge, match="steps"):
        lk.Grammar("\n".join([start, *rules]), BYTES, syntax="lark")
    words = [bytes(word) for length in range(2, 9) for word in product(b"ab", repeat=length)]
    tokens = [*(bytes([byte]) for byte in range(256)), *words]
    with pytest.raises(PatternTooLarge, match="steps"):
        made('start: "x" r "."\nr[max_tokens=40]: /(a|b)*a(a|b){8}/', tokens)


def test_what_counts_tokens_too_is_refused() -> None:
    text = "start: r\nr[max_tokens=2]: /a+/"
    with pytest.raises(ConfigurationError, match="closing cannot count the tokens of the rules with max_tokens"):
        lk.Grammar(text, BYTES, syntax="lark", closing=True)
    with pytest.raises(ConfigurationError, match="this Grammar has a rule with max_tokens"):
        lk.Then(lk.Grammar(text, BYTES, syntax="lark"), lk.Regex("b", BYTES), "x")
