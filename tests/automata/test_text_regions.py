"""Free text as fragments: the same masks as when every token is followed from every state of the text."""

from __future__ import annotations

import random
from itertools import count
from unittest import mock

import pytest
import torch

import logitkit as lk
from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.compiler.nested_grammars.text_regions import with_characters
from logitkit.languages import Language, any_text, dispatch, either, json_schema, regex, repeat, sequence, special, tag
from tests import vocabularies
from tests.processors.four_logits import on_either_path

OBJECT = json_schema({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}})
TREE = json_schema({"type": "array", "items": {"$ref": "#"}})

LANGUAGES: dict[str, Language] = {
    "text that any end may follow": any_text(),
    "one marker": sequence(any_text(until="</think>"), OBJECT),
    "two texts after one another": sequence(any_text(until="</think>"), any_text(until=["\n\n", "END"]), TREE),
    "a marker of one common byte": sequence(any_text(until="\n"), either(OBJECT, regex("[0-9]+"))),
    "text that begins like a call": sequence(any_text(until="</think>"), either(OBJECT, any_text(exclude="{"))),
    "calls": dispatch(
        {"<call>": tag("<call>", OBJECT, "</call>"), "[[": tag("[[", regex("[a-z ]*"), "]]")}, at_least=1
    ),
    "calls and a special token": dispatch({special(3): tag(special(3), TREE, special(4))}, exclude="?"),
    # No byte of these regions leads to another state of theirs.
    "digits of all scripts": regex(r"\d+"),
    "one character": tag("<c>", regex('[^"]'), "</c>"),
    "one character at the start": regex('[^"]b?'),
    # Strings are written in place here, as other text begins with a quote too.
    "strings inside of brackets": sequence(
        OBJECT, "x", either(json_schema({"type": "string"}), any_text(exclude="\n"))
    ),
    "text of a limited length": tag("<v>", regex(r"[\s\S]{2,40}", exclude="</v>"), "</v>"),
    "texts in a list": tag("<l>", repeat(tag("<i>", any_text(), "</i>"), 1, 5, separator="\n"), "</l>"),
}

_fresh = count(1)


def unknown(dfa: NestedDfa) -> NestedDfa:
    """Stand in for `with_text_regions`: nothing is known of free text."""
    return dfa


@pytest.mark.parametrize("name", LANGUAGES)
def test_text_does_the_same_as_a_fragment(name: str) -> None:
    tokens = vocabularies.tekken() if name in ("calls", "one marker") else vocabularies.sentencepiece_32k()
    language = LANGUAGES[name]
    # Limits that were never given are part of the key, so that nothing compiled before is found.
    limits = [lk.Limits(states=500_000 + next(_fresh), work=200_000_000) for _ in range(2)]
    fast = language.constraint(tokens, limits=limits[0])
    with mock.patch("logitkit.compiler.nested_grammars.dfa.with_text_regions", unknown):
        slow = language.constraint(tokens, limits=limits[1])
    assert fast.automaton.states == slow.automaton.states
    # In a fragment by itself, a few more tokens are told apart.
    assert slow.automaton.classes <= fast.automaton.classes <= 1.1 * slow.automaton.classes
    context = lk.Context.of([[]], vocabulary_size=tokens.size)
    rng = random.Random(name)
    for _ in range(3):
        states = [constraint.init_state(context) for constraint in (fast, slow)]
        for _ in range(20):
            zeros = torch.zeros(1, tokens.size)
            masks = [c.process_logits(s, zeros.clone(), context)[1] for c, s in zip((fast, slow), states, strict=True)]
            assert torch.equal(*masks)
            found = torch.nonzero(masks[0][0] == 0).ravel().tolist()
            legal = [token for token in found if token not in tokens.eos_ids]
            if not legal:
                break
            # Rare tokens matter: among thousands of words, those with brackets and markers.
            marked = [
                t
                for t in rng.sample(legal, min(len(legal), 4000))
                if set(tokens.tokens[t] or b"") & set(b'<>/{}[]"!\n')
            ]
            token = torch.tensor([rng.choice(marked if marked and rng.random() < 0.7 else legal)])
            states = [c.advance(s, token) for c, s in zip((fast, slow), states, strict=True)]


def test_both_paths_agree_on_text() -> None:
    tokens = [bytes([c]) for c in range(128)] + [b"</", b"think", b">{", b'"a', b">x", None, None]
    vocabulary = lk.Vocabulary(tokens, eos_ids=[len(tokens) - 1], special={"</s>": len(tokens) - 1})
    answer = sequence(any_text(until="</think>"), OBJECT).constraint(vocabulary)
    free = [0.5] * len(tokens)
    # `>{` ends the text and opens the object; `>x` does neither.
    assert on_either_path(answer, [*b"</think"], free)[130] == 0.5
    assert on_either_path(answer, [*b"</think"], free)[132] == float("-inf")


@pytest.mark.parametrize("leaving", [False, True])
def test_what_is_inside_of_a_character(leaving: bool) -> None:
    """The state after the first byte of the marker leads to its end too; the ends lead nowhere, and are not inside of one."""
    dfa = (
        any_text(until=["é", "b"])
        .constraint(lk.Vocabulary([*(bytes([b]) for b in range(256)), None], [256]))
        .nested_dfa()
    )
    text = dfa.step[:, dfa.byte_class[ord("a")]] != 0
    inside = with_characters(dfa, text, leaving) & ~text
    after = dfa.step[dfa.start, dfa.byte_class[0xC3]]
    assert inside[after] == leaving
    assert inside[dfa.step[dfa.start, dfa.byte_class[0xC4]]]
    assert not inside[dfa.accepting].any()
