"""Grammars as parts of languages."""

from __future__ import annotations

import itertools
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

import logitkit as lk
from logitkit.errors import ConfigurationError, GrammarError, PatternTooLarge, VocabularyError
from logitkit.grammars.gbnf import read_gbnf
from logitkit.languages import (
    Language,
    LanguageConstraint,
    any_text,
    dispatch,
    either,
    grammar,
    json_schema,
    optional,
    regex,
    repeat,
    sequence,
    special,
    tag,
)
from logitkit.protocol.state import select
from tests.grammars.rule_matcher import matches
from tests.languages.comparison import masks_of, rows_of
from tests.languages.test_laws import same
from tests.languages.vocabularies import BYTES, NAMED

MIRROR = 'root ::= "a" root "b" | "a"'
TOY = lk.Vocabulary([b"a", b"b", b"<", b">", b"aa", b"ab", b"b>", b"<a", b"bb", None], eos_ids=[9])
LISTS: dict[str, Any] = {"type": "array", "items": {"$ref": "#"}}
LIST = grammar('root ::= "[" (root ("," root)*)? "]"')
LARK_LIST = grammar('start: "[" [start ("," start)*] "]"', "lark")
TOKEN, OTHER = BYTES.special["<t>"], BYTES.special["<o>"]
# Single bytes, tokens of several brackets, and special tokens: named, named otherwise, and EOS.
FEW = [*b"[],a<t>", *(BYTES.tokens.index(text) for text in (b"[[", b"],", b"<[", b"]<")), TOKEN, OTHER, *BYTES.eos_ids]


def legal_after(constraint: LanguageConstraint, *tokens: int) -> set[int]:
    """Return the legal tokens after some."""
    context = lk.Context.of([[]], constraint.vocabulary.size)
    state = constraint.advance(constraint.init_state(context), torch.tensor([tokens], dtype=torch.int64))
    return set(masks_of(constraint, state, context)[0].nonzero().flatten().tolist())


def agree(one: Language, other: Language, most: int) -> int:
    """Compare the masks of two languages after so many tokens that lead somewhere new; return how many were compared."""
    constraints = one.constraint(BYTES), other.constraint(BYTES)
    context = lk.Context.of([[]], BYTES.size)
    states = [constraint.init_state(context) for constraint in constraints]
    met: set[Any] = set()
    for _ in range(most):
        context = lk.Context.of([[]] * len(states[0].left), BYTES.size)
        masks, others = (masks_of(c, s, context) for c, s in zip(constraints, states, strict=True))
        assert torch.equal(masks, others)
        few = torch.zeros(BYTES.size, dtype=torch.bool)
        few[FEW] = True
        few[list(BYTES.eos_ids)] = False
        rows, tokens = (masks & few).nonzero(as_tuple=True)
        states = [c.advance(select(s, rows), tokens) for c, s in zip(constraints, states, strict=True)]
        pairs = list(zip(*map(rows_of, states), strict=True))
        fresh = torch.tensor([row for pair, row in {p: i for i, p in enumerate(pairs)}.items() if pair not in met])
        met.update(pairs)
        if not len(fresh):
            break
        states = [select(state, fresh) for state in states]
    return len(met)


def test_masks_of_a_tag_are_those_of_brute_force() -> None:
    rules = read_gbnf(MIRROR)
    texts = ["".join(text) for size in range(10) for text in itertools.product("ab", repeat=size)]
    whole = {f"<{text}>" for text in texts if matches(rules, text)}
    assert len(whole) == 5
    begun = {text[:end] for text in whole for end in range(len(text) + 1)}
    constraint = tag("<", grammar(MIRROR), ">").constraint(TOY)
    written: list[tuple[str, tuple[int, ...]]] = [("", ())]
    for text, tokens in written:
        after = {t: text + spelling.decode() for t, spelling in enumerate(TOY.tokens) if spelling is not None}
        legal = {t for t, longer in after.items() if longer in begun}
        assert legal_after(constraint, *tokens) == legal | ({9} if text in whole else set()), text
        # Texts of up to nine letters were tried, of which the last four may be needed to complete four `a`.
        written.extend((after[t], (*tokens, t)) for t in sorted(legal) if after[t].count("a") <= 3)
    assert len(written) > 50


CASES: dict[str, tuple[Language, Language]] = {
    "tag": (tag("<t>", LIST, "<"), tag("<t>", json_schema(LISTS), "<")),
    "lark": (tag("<", LARK_LIST, "t"), tag("<", json_schema(LISTS), "t")),
    "dispatch": (dispatch({"<": tag("<", LIST, "t")}), dispatch({"<": tag("<", json_schema(LISTS), "t")})),
    "dispatch on a token": (
        dispatch({special("<t>"): sequence(special("<t>"), LIST)}),
        dispatch({special("<t>"): sequence(special("<t>"), json_schema(LISTS))}),
    ),
    "schema, then grammar": (
        sequence(json_schema(LISTS), "a", LIST),
        sequence(json_schema(LISTS), "a", json_schema(LISTS)),
    ),
    "grammar, then schema": (sequence(LIST, json_schema(LISTS)), sequence(json_schema(LISTS), json_schema(LISTS))),
    "then free text": (sequence(LIST, "t", any_text("<t>")), sequence(json_schema(LISTS), "t", any_text("<t>"))),
    "one of two": (
        either(sequence("a", LIST), sequence("t", grammar('root ::= "[" root? "]"'))),
        either(
            sequence("a", json_schema(LISTS)),
            sequence("t", json_schema({"type": "array", "items": {"$ref": "#"}, "maxItems": 1})),
        ),
    ),
    "several": (repeat(LIST, 1, 3, ","), repeat(json_schema(LISTS), 1, 3, ",")),
    "optional": (optional(tag("<", LIST, "t")), optional(tag("<", json_schema(LISTS), "t"))),
    "a token that the grammar names": (
        sequence(grammar('root ::= <t> list\nlist ::= "[" (list ("," list)*)? "]"'), "t", any_text()),
        sequence(special("<t>"), json_schema(LISTS), "t", any_text()),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_grammar_of_lists_agrees_with_their_schema(name: str) -> None:
    assert agree(*CASES[name], 6) > 10


REGULAR: dict[str, tuple[Language, Language]] = {
    "free text": (sequence(grammar('root ::= "a"* "b"'), any_text("<t>")), sequence(regex("a*b"), any_text("<t>"))),
    "until a token": (
        sequence(grammar('root ::= "a"* "b"'), any_text(special("<t>"))),
        sequence(regex("a*b"), any_text(special("<t>"))),
    ),
    "dispatch": (
        dispatch({"<t>": tag("<t>", grammar("root ::= [ab]+"), ">")}),
        dispatch({"<t>": tag("<t>", regex("[ab]+"), ">")}),
    ),
}


@pytest.mark.parametrize("name", REGULAR)
def test_a_regular_grammar_is_a_pattern(name: str) -> None:
    assert same(*REGULAR[name], NAMED)


def test_laws() -> None:
    x, y, z = grammar(MIRROR), grammar('root ::= "<" root ">" | "t"'), regex("t+a?")
    assert same(sequence(sequence(x, y), z), sequence(x, sequence(y, z)), NAMED)
    assert same(either(x, y), either(y, x), NAMED)
    assert same(sequence("b", either(x, y)), either(sequence("b", x), sequence("b", y)), NAMED)
    assert same(sequence("", x), x, NAMED)
    assert not same(x, y, NAMED)


def test_special_tokens_that_the_grammar_names_stand_for_themselves() -> None:
    made = sequence(grammar('root ::= "a" root <t> | "b"'), ">", any_text()).constraint(BYTES)
    assert made.own_ids() == (TOKEN,)
    assert legal_after(made, *b"ab") == {TOKEN}
    free = legal_after(made, *b"ab", TOKEN, *b">")
    assert {OTHER, *BYTES.eos_ids} <= free
    assert (TOKEN in free) == (TOKEN in legal_after(sequence(special("<t>"), any_text()).constraint(BYTES), TOKEN))


def test_refusals() -> None:
    nested = grammar(MIRROR)
    with pytest.raises(GrammarError, match="line 1"):
        grammar("root ::= missing")
    with pytest.raises(ConfigurationError, match="syntax is 'ebnf'; allowed are 'gbnf' and 'lark'"):
        grammar(MIRROR, "ebnf")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="only syntax='lark' has a lexer"):
        grammar(MIRROR, lexer="dynamic")
    with pytest.raises(ConfigurationError, match="text is of type int"):
        grammar(3)  # type: ignore[arg-type]
    with pytest.raises(VocabularyError, match=r"no token '<\|no\|>'"):
        grammar("root ::= <|no|>").constraint(TOY)
    with pytest.raises(ConfigurationError, match="write the text as a rule with max_tokens in Lark's syntax"):
        sequence(any_text(">", max_tokens=3), nested).constraint(BYTES)
    with pytest.raises(ConfigurationError, match="the bytes b'z', which are not single tokens of the vocabulary"):
        sequence(nested, "z").constraint(TOY)
    with pytest.raises(ConfigurationError, match="nests without limit, so nothing can follow it"):
        nested.constraint(TOY).nested_dfa()
    with pytest.raises(ConfigurationError, match="no text"):
        sequence(nested, regex("[^\\d\\D]")).constraint(TOY)
    with pytest.raises(PatternTooLarge, match="did not become deterministic"):
        sequence(any_text(), nested).constraint(BYTES)


def test_a_regular_language_can_be_followed_and_closed() -> None:
    made = sequence(grammar('root ::= "a"+'), "b").constraint(TOY, closing=2)
    assert legal_after(made) == {0, 4, 5}
    assert legal_after(made, 0) == {1, 5}
    assert made.nested_dfa().accepts(b"aab")
    assert not made.nested_dfa().accepts(b"aa")


def test_equal_languages_are_compiled_once() -> None:
    one, other = (tag("<", grammar(MIRROR), ">").constraint(TOY) for _ in range(2))
    assert one == other
    assert one.automaton is other.automaton
    assert pickle.loads(pickle.dumps(one.language)) == one.language


def test_a_state_is_saved_and_loaded(tmp_path: Path) -> None:
    made = tag("<", grammar(MIRROR), ">").constraint(TOY)
    context = lk.Context.of([[]], TOY.size)
    state = made.advance(made.init_state(context), torch.tensor([[2, 4, 0]]))
    lk.save_state(tmp_path / "state", state, made)
    loaded = lk.load_state(tmp_path / "state", made)
    for token in (1, 1, 3):
        assert torch.equal(masks_of(made, loaded, context), masks_of(made, state, context))
        state, loaded = (made.advance(s, torch.tensor([[token]])) for s in (state, loaded))
    assert legal_after(made, 2, 4, 0, 1, 1, 3) == {9}
