"""`Grammar` as users call it: arguments, configurations, special tokens, errors."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

import logitkit as lk
from logitkit.errors import ConfigurationError, GrammarError, PatternTooLarge, VocabularyError

SUM = 'root ::= item ("+" item)*\nitem ::= "1" | "(" root ")"'
LARK_SUM = 'start: item ("+" item)*\nitem: "1" | "(" start ")"'
TOKENS: list[bytes | None] = [b"1", b"+", b"(", b")", b"1)", b"))", b"+(", None, None]
CALL, EOS = 7, 8
VOCABULARY = lk.Vocabulary(TOKENS, eos_ids=[EOS], special={"<|call|>": CALL, "</s>": EOS})


def legal_after(grammar: lk.Grammar, *tokens: int) -> set[int]:
    """Return the legal tokens after some."""
    context = lk.Context.of([[]], VOCABULARY.size)
    state = grammar.advance(grammar.init_state(context), torch.tensor([tokens], dtype=torch.int64))
    masked = grammar.process_logits(state, torch.zeros(1, VOCABULARY.size), context)[1]
    return set((masked[0] == 0).nonzero().flatten().tolist())


@pytest.mark.parametrize(("text", "syntax"), [(SUM, "gbnf"), (LARK_SUM, "lark")], ids=["gbnf", "lark"])
def test_both_syntaxes(text: str, syntax: Any) -> None:
    grammar = lk.Grammar(text, VOCABULARY, syntax=syntax)
    assert legal_after(grammar) == {0, 2}
    assert legal_after(grammar, 0) == {1, 6, EOS}
    assert legal_after(grammar, 2, 2) == {0, 2, 4}
    assert legal_after(grammar, 2, 2, 0) == {1, 3, 5, 6}
    assert legal_after(grammar, 2, 4) == {1, 6, EOS}


def test_a_text_nests_no_deeper_than_allowed() -> None:
    deepest = 0
    grammar = lk.Grammar(SUM, VOCABULARY, max_depth=4)
    while 2 in legal_after(grammar, *[2] * deepest):
        deepest += 1
    assert 1 <= deepest <= 4
    assert legal_after(grammar, *[2] * deepest) >= {0}


def test_the_start_can_be_another_rule() -> None:
    assert legal_after(lk.Grammar(SUM, VOCABULARY, start="item"), 0) == {EOS}


def test_a_special_token_is_named() -> None:
    grammar = lk.Grammar('root ::= "1" <|call|> root | "+"', VOCABULARY)
    assert legal_after(grammar, 0) == {CALL}
    assert legal_after(grammar, 0, CALL) == {0, 1}
    assert legal_after(lk.Grammar('root ::= "1" <[7]> "+"', VOCABULARY), 0) == {CALL}
    with pytest.raises(GrammarError, match=r"no special token '<\|tool\|>'; its special tokens are: '<\|call\|>'"):
        lk.Grammar('root ::= "1" <|tool|>', VOCABULARY)
    with pytest.raises(GrammarError, match="no token 900; allowed are ids from 0 to 8"):
        lk.Grammar('root ::= "1" <[900]>', VOCABULARY)


def test_a_regular_grammar_needs_no_stack() -> None:
    grammar = lk.Grammar('root ::= "1" ("+1")*', VOCABULARY, closing=5)
    assert grammar.report.frames == 0
    assert grammar.report.deterministic
    assert lk.Grammar(SUM, VOCABULARY).report.frames > 0
    regular = lk.Grammar('root ::= "1" ("+1")*', VOCABULARY)
    longer = lk.then(regular, lk.Regex("1", VOCABULARY), marker=")")
    context = lk.Context.of([[]], VOCABULARY.size)
    state = longer.advance(longer.init_state(context), torch.tensor([[0, 1, 4, 0, EOS]]))
    assert longer.is_finished(state).tolist() == [True]
    with pytest.raises(ConfigurationError, match="nest without bound"):
        lk.then(lk.Grammar(SUM, VOCABULARY), lk.Regex("1", VOCABULARY), marker=")")


def test_configurations() -> None:
    grammar = lk.from_config({"grammar": {"text": LARK_SUM, "syntax": "lark", "max_depth": 5}}, VOCABULARY)
    assert grammar == lk.Grammar(LARK_SUM, VOCABULARY, syntax="lark", max_depth=5)
    assert lk.to_config(grammar) == {"grammar": {"text": LARK_SUM, "syntax": "lark", "max_depth": 5}}
    assert lk.to_config(lk.from_config({"grammar": SUM}, VOCABULARY)) == {"grammar": SUM}


def test_equal_grammars_share_what_was_compiled() -> None:
    assert lk.Grammar(SUM, VOCABULARY).automaton is lk.Grammar(SUM, VOCABULARY).automaton
    assert lk.Grammar(SUM, VOCABULARY).automaton is not lk.Grammar(SUM, VOCABULARY, max_depth=5).automaton


def test_what_is_suspicious_warns() -> None:
    with pytest.warns(UserWarning, match=r"Grammar: .*'lost'"):
        lk.Grammar(SUM + '\nlost ::= "1"', VOCABULARY)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lk.Grammar(SUM, VOCABULARY)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"text": 3}, "text is of type int"),
        ({"syntax": "ebnf"}, "syntax is 'ebnf'; allowed are"),
        ({"lexer": "dynamic"}, "only syntax='lark' has a lexer"),
        ({"max_depth": 0}, "max_depth is 0"),
        ({"closing": 9, "text": 'root ::= "1" root "1" | ""'}, "deterministic; leave out 'closing'"),
        ({"closing": 1, "text": 'root ::= "1+1"'}, "takes 3 tokens; give at least 3"),
        ({"limits": 3}, "limits is 3"),
        ({"text": 'root ::= "2"'}, "the bytes b'2', which are not single tokens|spell no text"),
        ({"text": 'root ::= "2" | "(" root ")" | "(" root "+"'}, "the bytes b'2', which are not single tokens"),
    ],
    ids=["text", "syntax", "lexer", "depth", "closing", "short", "limits", "finite", "bytes"],
)
def test_refusals(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        lk.Grammar(**{"text": SUM, "vocabulary": VOCABULARY, **options})


def test_errors_of_the_grammar() -> None:
    with pytest.raises(GrammarError, match="line 1"):
        lk.Grammar("root ::= missing", VOCABULARY)
    with pytest.raises(GrammarError, match="line 1"):
        lk.from_config({"grammar": "root ::= missing"}, VOCABULARY)
    with pytest.raises(PatternTooLarge, match="compiling the grammar takes more than 20 steps"):
        lk.Grammar(SUM, VOCABULARY, limits=lk.Limits(work=20))
    with pytest.raises(VocabularyError, match="no EOS id"):
        lk.Grammar(SUM, lk.Vocabulary([b"1"], eos_ids=[]))
