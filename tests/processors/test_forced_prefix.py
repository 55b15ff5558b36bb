"""`ForcedPrefix` and `heal_prompt`: a prompt's last tokens, said again in any tokenisation."""

from __future__ import annotations

import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.compiler.bytes.byte_dfa import DEAD, FINISHED
from logitkit.errors import ConfigurationError, PatternTooLarge, VocabularyError
from tests.examples import examples
from tests.processors.four_logits import NEVER, after

# Ids:                      0     1     2      3 = EOS
AB = lk.Vocabulary([b"a", b"b", b"ab", None], eos_ids=[3])
LOGITS = [0.5, -1.0, 2.0, 3.0]

# Ids:                           0     1     2     3 = EOS
SPECIAL = lk.Vocabulary([b"a", b"b", None, None], eos_ids=[3])


def test_a_token_may_end_inside_the_text_or_run_past_it() -> None:
    assert after(lk.ForcedPrefix("a", AB), [], LOGITS) == [0.5, NEVER, 2.0, NEVER]
    assert after(lk.ForcedPrefix("ab", AB), [], LOGITS) == [0.5, NEVER, 2.0, NEVER]
    assert after(lk.ForcedPrefix("ab", AB), [0], LOGITS) == [NEVER, -1.0, NEVER, NEVER]


def test_afterwards_everything_is_free() -> None:
    assert after(lk.ForcedPrefix("ab", AB), [0, 1], LOGITS) == LOGITS
    assert after(lk.ForcedPrefix("a", AB), [2, 1], LOGITS) == LOGITS
    assert after(lk.ForcedPrefix("ab", AB), [0, 1, 3], LOGITS) == [NEVER, NEVER, NEVER, 3.0]


def test_ids_without_text_must_wait() -> None:
    assert after(lk.ForcedPrefix("a", SPECIAL), [], LOGITS) == [0.5, NEVER, NEVER, NEVER]
    assert after(lk.ForcedPrefix("a", SPECIAL), [0, 2], LOGITS) == LOGITS


def test_what_follows() -> None:
    prefix = lk.ForcedPrefix("a", AB, then=lk.Regex("b{2}", AB))
    assert after(prefix, [], LOGITS) == [0.5, NEVER, 2.0, NEVER]
    assert after(prefix, [2], LOGITS) == [NEVER, -1.0, NEVER, NEVER]
    assert after(prefix, [2, 1], LOGITS) == [NEVER, NEVER, NEVER, 3.0]
    strict = lk.ForcedPrefix("a", SPECIAL, then=lk.Regex("b*", SPECIAL))
    assert after(strict, [0], LOGITS) == [NEVER, -1.0, NEVER, 3.0]


def test_prefixes_of_prefixes_and_of_choices() -> None:
    nested = lk.ForcedPrefix("a", AB, then=lk.ForcedPrefix(b"b", AB, then=lk.Choice(["", "a"], AB)))
    assert after(nested, [2], LOGITS) == [0.5, NEVER, NEVER, 3.0]
    banned = lk.ForcedPrefix("ab", AB, then=lk.BannedStrings(["ba"], AB))
    assert after(banned, [2], LOGITS) == LOGITS
    assert after(banned, [2, 1], LOGITS) == [NEVER, -1.0, NEVER, 3.0]


def test_the_empty_text() -> None:
    assert after(lk.ForcedPrefix("", SPECIAL), [], LOGITS) == LOGITS
    dfa = lk.Dfa({(0, 1): 1}, start=0, accepting={1}, vocabulary=AB)
    assert after(lk.ForcedPrefix("", AB, then=dfa), [], LOGITS) == [NEVER, -1.0, NEVER, NEVER]


def test_the_empty_text_before_strings_whose_characters_are_counted() -> None:
    vocabulary = lk.Vocabulary([*[bytes([b]) for b in range(256)], None], eos_ids=[256])
    schema = lk.JsonSchema({"type": "string", "maxLength": 20}, vocabulary)
    prefix = lk.ForcedPrefix("", vocabulary, schema)
    assert schema.automaton.counting is not None
    context = lk.Context.of([[]], vocabulary_size=257)
    state = prefix.advance(prefix.init_state(context), torch.tensor([list(b'"' + b"a" * 20)]))
    masked = prefix.process_logits(state, torch.zeros(1, 257), context)[1]
    assert masked[0].isfinite().nonzero().tolist() == [[ord('"')]]


def test_half_a_character() -> None:
    # Ids:                       0        1        2          3 = EOS
    pieces = lk.Vocabulary([b"\xc3", b"\xa9", "é".encode(), None], eos_ids=[3])
    assert after(lk.ForcedPrefix(b"\xc3", pieces), [], LOGITS) == [0.5, NEVER, 2.0, NEVER]
    assert after(lk.ForcedPrefix(b"\xa9", pieces), [], LOGITS) == [NEVER, -1.0, NEVER, NEVER]
    whole = lk.ForcedPrefix(b"\xc3", pieces, then=lk.ForcedPrefix(b"\xa9", pieces))
    for tokens in ([], [0], [2], [0, 1, 1]):
        assert after(whole, tokens, LOGITS) == after(lk.ForcedPrefix("é", pieces), tokens, LOGITS)


SPLIT = lk.Vocabulary([b"a", b"b", b"ab", b"ba", b"aab", "é".encode(), b"\xc3", b"\xa9", None, None], eos_ids=[9])


@settings(max_examples=examples(200))
@given(st.text("abé", max_size=5), st.sampled_from([None, "[ab]*", "(ba|é)+", "b?"]), st.data())
def test_walks_against_the_decoded_text(text: str, pattern: str | None, data: st.DataObject) -> None:
    follows = None if pattern is None else lk.Regex(pattern, SPLIT)
    automaton = lk.ForcedPrefix(text, SPLIT, follows).automaton
    start = text.encode()
    state, walk = automaton.start, b""
    for _ in range(10):
        complete = walk.startswith(start)
        rest = walk[len(start) :].decode(errors="replace")
        ends = complete and (pattern is None or bool(re.fullmatch(pattern, rest)))
        assert (automaton.next(state, 9) == FINISHED) == ends
        assert (automaton.next(state, 8) != DEAD) == (complete and pattern is None)
        legal = [t for t in range(8) if automaton.next(state, t) != DEAD]
        fitting = [t for t in range(8) if _begins_alike(walk + (SPLIT.tokens[t] or b""), start)]
        assert legal == fitting if pattern is None else set(legal) <= set(fitting)
        assert legal or ends
        if not legal:
            break
        token = data.draw(st.sampled_from(legal))
        state, walk = automaton.next(state, token), walk + (SPLIT.tokens[token] or b"")


def _begins_alike(a: bytes, b: bytes) -> bool:
    return a.startswith(b) or b.startswith(a)


@pytest.mark.parametrize("name", ["tekken", "sentencepiece_32k"])
def test_every_token_of_a_real_vocabulary(name: str, request: pytest.FixtureRequest) -> None:
    vocabulary: lk.Vocabulary = request.getfixturevalue(name)
    text = " https:"
    automaton = lk.ForcedPrefix(text, vocabulary).automaton
    legal = automaton.legal_classes(automaton.start)[automaton.class_of]
    for token, spelled in enumerate(vocabulary.tokens):
        assert legal[token] == (spelled is not None and _begins_alike(spelled, text.encode())), spelled


def test_prefixes_that_are_not_texts() -> None:
    with pytest.raises(ConfigurationError, match="text is 3 of type int; allowed are str and bytes"):
        lk.ForcedPrefix(3, AB)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="text has a lone surrogate at position 0"):
        lk.ForcedPrefix("\ud800", AB)
    with pytest.raises(ConfigurationError, match="spell no text that the prefix 'c' matches"):
        lk.ForcedPrefix("c", AB)
    with pytest.raises(PatternTooLarge, match="more than 4 states"):
        lk.ForcedPrefix("ababab", AB, limits=lk.Limits(states=4))
    with pytest.raises(ConfigurationError, match="limits is 4"):
        lk.ForcedPrefix("", AB, lk.Regex("a+", AB), limits=4)  # type: ignore[arg-type]
    with pytest.raises(VocabularyError, match="no EOS id"):
        lk.ForcedPrefix("a", lk.Vocabulary([b"a"], eos_ids=[]))


def test_what_cannot_follow() -> None:
    dfa = lk.Dfa({(0, 1): 1}, start=0, accepting={1}, vocabulary=AB)
    with pytest.raises(ConfigurationError, match="Dfa is a constraint over token ids, not over text"):
        lk.ForcedPrefix("a", AB, then=dfa)
    with pytest.raises(ConfigurationError, match="then is 'b'; give a constraint, such as Regex or Choice, or None"):
        lk.ForcedPrefix("a", AB, then="b")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="the constraint in then has another vocabulary"):
        lk.ForcedPrefix("a", AB, then=lk.Regex("b", SPECIAL))


# Ids:                     0        1     2       3     4     5      6     7
WEB = lk.Vocabulary([b"http", b":", b"://", b"tp", b"x", b"xhtt", b"h", None, None], eos_ids=[8])


def test_healing_cuts_what_a_longer_token_begins_with() -> None:
    assert lk.heal_prompt([4, 0, 1], WEB) == ((4, 0), b":")
    assert lk.heal_prompt([4, 0], WEB) == ((4, 0), b"")
    # No token goes on from "tp", but one does from "h", and one from "xh".
    assert lk.heal_prompt([0, 6], WEB) == ((0,), b"h")
    assert lk.heal_prompt([0, 4, 6], WEB) == ((0,), b"xh")
    assert lk.heal_prompt([0, 6, 3], WEB) == ((0, 6, 3), b"")


def test_healing_keeps_special_tokens_and_one_token() -> None:
    assert lk.heal_prompt([7, 1], WEB) == ((7,), b":")
    assert lk.heal_prompt([0, 7], WEB) == ((0, 7), b"")
    assert lk.heal_prompt([0, 4, 7, 6], WEB) == ((0, 4, 7), b"h")
    assert lk.heal_prompt([1], WEB) == ((1,), b"")
    assert lk.heal_prompt([], WEB) == ((), b"")


def test_healing_a_fixed_number() -> None:
    assert lk.heal_prompt([4, 0, 3], WEB, count=1) == ((4, 0), b"tp")
    assert lk.heal_prompt([4, 0, 3], WEB, count=9) == ((4,), b"httptp")
    assert lk.heal_prompt([4, 7, 3], WEB, count=2) == ((4, 7), b"tp")
    assert lk.heal_prompt([4, 0, 1], WEB, count=0) == ((4, 0, 1), b"")


def test_healing_a_real_prompt(tekken: lk.Vocabulary) -> None:
    ids = {t: i for i, t in enumerate(tekken.tokens) if t}
    prompt = [ids[b"The"], ids[b" link"], ids[b" is"], ids[b" http"], ids[b":"]]
    healed = lk.heal_prompt(prompt, tekken)
    assert tekken.decode(healed.tokens) + healed.text == b"The link is http:"
    automaton = lk.ForcedPrefix(healed.text, tekken).automaton
    assert automaton.next(automaton.start, ids[b"://"]) != DEAD


def test_healing_refuses_a_value_that_is_not_a_prompt() -> None:
    with pytest.raises(VocabularyError, match=r"tokens\[1\] is -1; allowed are ids from 0 to 8"):
        lk.heal_prompt([0, -1], WEB)
    with pytest.raises(ConfigurationError, match="count is True; allowed are integers from 0"):
        lk.heal_prompt([0], WEB, count=True)
    with pytest.raises(VocabularyError, match="vocabulary is of type str"):
        lk.heal_prompt([0], "")  # type: ignore[arg-type]
