"""Markers, stops and bans that are the names of special tokens: the token and its spelling mean the same."""

from __future__ import annotations

import json
import pickle
import re
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.compiler.bytes.byte_dfa import DEAD, FINISHED
from tests.examples import examples
from tests.processors.four_logits import NEVER, on_either_path
from tests.processors.special_tokens import EOS, NAME, OTHER, PIECES, THINK, TOKENS, WITH_TEXT

# A marker that begins with its own end.
BORDERED = lk.Vocabulary([b"a", b"b", b"aa", None, None, None, None], eos_ids=[5], special={"aa": 2, "aba": 3})

BAN = "neither bb nor <o>"
SECTIONS = [None, BAN, "[ab]*", "a?", "(<|a|t)*"]


def _section(pattern: str | None, vocabulary: lk.Vocabulary) -> lk.Regex | lk.BannedStrings | None:
    if pattern == BAN:
        return lk.BannedStrings(["bb", "<o>"], vocabulary)
    return None if pattern is None else lk.Regex(pattern, vocabulary)


def _ends(text: bytes, token: int, vocabulary: lk.Vocabulary, name: str) -> tuple[bytes, bytes] | None:
    """Return what comes before and after a marker that a token completes, or None."""
    said = text + (vocabulary.tokens[token] or b"")
    if name.encode() in said:
        before, _, after = said.partition(name.encode())
        return before, after
    return (text, b"") if token == vocabulary.special[name] else None


def _is_legal(pattern: str | None, text: bytes) -> bool:
    if pattern == BAN:
        return b"bb" not in text
    return pattern is None or re.fullmatch(pattern, text.decode(errors="replace")) is not None


@pytest.mark.parametrize(
    ("vocabulary", "name"), [(TOKENS, NAME), (WITH_TEXT, NAME), (BORDERED, "aa"), (BORDERED, "aba")]
)
@settings(max_examples=examples(150))
@given(st.sampled_from(SECTIONS), st.sampled_from(SECTIONS), st.data())
def test_then_against_the_plain_meaning(
    vocabulary: lk.Vocabulary, name: str, first: str | None, second: str | None, data: st.DataObject
) -> None:
    if first is None and second is None:
        return
    automaton = lk.then(_section(first, vocabulary), _section(second, vocabulary), name).automaton
    special = vocabulary.special[name]
    (end,) = vocabulary.eos_ids
    state, text, before = automaton.start, b"", None
    for _ in range(10):
        legal = [t for t in range(vocabulary.size) if t != end and automaton.next(state, t) != DEAD]
        whole = before is not None and _is_legal(first, before) and _is_legal(second, text)
        assert (automaton.next(state, end) == FINISHED) == whole
        assert legal or whole
        section = first if before is None else second
        if vocabulary.tokens[special] is None:
            # It leads on where the first section is complete. After that it is a token without text, like others.
            assert (special in legal) == (_is_legal(first, text) if before is None else second in (None, BAN))
        if "<o>" in vocabulary.special:
            assert (vocabulary.special["<o>"] in legal) == (section is None)
        if not legal:
            break
        token = data.draw(st.sampled_from(legal))
        state = automaton.next(state, token)
        found = _ends(text, token, vocabulary, name) if before is None else None
        if found is None:
            text += vocabulary.tokens[token] or b""
        else:
            before, text = found


def test_then_leads_on_by_either() -> None:
    answer = lk.then(None, lk.Regex("a", TOKENS), NAME)
    free = [0.5] * 11
    only_a = [0.5 if i == 0 else NEVER for i in range(11)]
    ended = [0.5 if i == EOS else NEVER for i in range(11)]
    assert on_either_path(answer, [1, 2], free) == [*free[:EOS], NEVER, 0.5]
    assert on_either_path(answer, [1, THINK], free) == only_a
    assert on_either_path(answer, [1, 5, 4], free) == only_a
    # A part of the marker that has been spelled is text if the token itself follows.
    assert on_either_path(answer, [1, 5, THINK], free) == only_a
    assert on_either_path(answer, [1, 5, OTHER, 4, 0], free) == ended
    # A token that is banned later on changes nothing before, not even in the midst of the marker.
    banned_later = lk.then(None, lk.BannedStrings(["<o>"], TOKENS), NAME)
    assert on_either_path(banned_later, [5, OTHER], free) == [*free[:EOS], NEVER, 0.5]
    assert on_either_path(banned_later, [5, OTHER, 4], free) == [*free[:OTHER], NEVER]
    # An id is that token alone.
    by_id = lk.then(None, lk.Regex("a", TOKENS), THINK)
    assert on_either_path(by_id, [1, 5, 4], free) == [*free[:EOS], NEVER, 0.5]
    assert on_either_path(by_id, [1, THINK], free) == only_a


def test_then_in_other_constraints() -> None:
    inner = lk.Then(lk.Regex("b*", TOKENS), lk.Regex("a", TOKENS), NAME)
    others: dict[str, tuple[lk.Intersection | lk.Then | lk.ForcedPrefix, list[list[int]], list[list[int]]]] = {
        "behind a prefix": (lk.ForcedPrefix("b", TOKENS, then=inner), [[1, THINK, 0], [1, 1, 5, 4, 0]], [[THINK, 0]]),
        "in a chain": (lk.Intersection((inner, lk.BannedStrings(["bb"], TOKENS))), [[1, THINK, 0]], [[1, 1, THINK, 0]]),
        "intersected, before a marker": (
            lk.Then(lk.Intersection((inner, lk.BannedStrings(["bb"], TOKENS))), None, "t"),
            [[1, THINK, 0, 3]],
            [[1, 1, THINK, 0, 3], [1, 3]],
        ),
        "before another marker": (lk.Then(inner, lk.Regex("b", TOKENS), "<o>"), [[THINK, 0, OTHER, 1]], [[OTHER, 1]]),
        "after another marker": (lk.Then(None, inner, "<o>"), [[THINK, OTHER, THINK, 0]], [[THINK, 0]]),
    }
    for name, (constraint, good, bad) in others.items():
        automaton = constraint.automaton
        for runs, expected in ((good, True), (bad, False)):
            for run in runs:
                state = automaton.start
                for token in run:
                    state = automaton.next(state, token)
                assert (automaton.next(state, EOS) == FINISHED) == expected, (name, run)


RECURSIVE = {"$defs": {"n": {"type": "array", "items": {"$ref": "#/$defs/n"}}}, "$ref": "#/$defs/n"}


def test_then_a_schema_that_nests() -> None:
    # Ids:    0 to 8, text; 9 = <t>, 10 = EOS, 11 = <o>
    pieces = [*(bytes([c]) for c in b"[], \n<t>x"), None, None, None]
    vocabulary = lk.Vocabulary(pieces, eos_ids=[10], special={NAME: 9, "<o>": 11})
    free = [0.5] * 12

    def legal(answer: Any, tokens: list[int]) -> list[int]:
        return [i for i, logit in enumerate(on_either_path(answer, tokens, free)) if logit == 0.5]

    for closing in (False, 6):
        schema = lk.JsonSchema(RECURSIVE, vocabulary, whitespace="compact", closing=closing)
        answer = lk.then(None, schema, NAME)
        for marker in ([9], [5, 6, 7], [5, 9], [5, 11, 6, 9]):
            assert 9 in legal(answer, marker[:-1])
            assert legal(answer, marker) == [0], (closing, marker)
            assert legal(answer, [*marker, 0, 1]) == [10]
    banned = lk.then(lk.BannedStrings(["<o>"], vocabulary), lk.JsonSchema(RECURSIVE, vocabulary), NAME)
    assert legal(banned, []) == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    by_id = lk.then(lk.BannedStrings(["<o>"], vocabulary), lk.JsonSchema(RECURSIVE, vocabulary), 9)
    assert legal(by_id, [5, 6, 7]) == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]


def test_a_name_that_is_text_is_spelled_like_any_other() -> None:
    assert lk.then(None, lk.Regex("a", WITH_TEXT), "b<t>").automaton.states > 3


@pytest.mark.parametrize(
    "config",
    [
        {"then": {"first": None, "second": {"regex": "a"}, "marker": NAME}},
        {"stop_strings": [NAME]},
        {"banned_strings": [NAME]},
        {"thinking_budget": {"max_tokens": 1, "end": NAME}},
    ],
)
def test_configurations_and_saved_states_mean_the_same(config: dict[str, Any], tmp_path: Any) -> None:
    processor = lk.from_config(config, TOKENS)
    assert lk.to_config(processor) == json.loads(json.dumps(lk.to_config(processor)))
    again = lk.from_config(lk.to_config(processor), pickle.loads(pickle.dumps(TOKENS)))
    tokens, free = [0, 5], [0.5] * 11
    context = lk.Context.of([[]], vocabulary_size=11)
    state = processor.advance(processor.init_state(context), torch.tensor([tokens]))
    lk.save_state(tmp_path / "state", state, processor)
    loaded = lk.load_state(tmp_path / "state", again)
    for token in (THINK, 4):
        one = processor.advance(state, torch.tensor([token]))
        other = again.advance(loaded, torch.tensor([token]))
        assert torch.equal(
            processor.process_logits(one, torch.tensor([free]), context)[1],
            again.process_logits(other, torch.tensor([free]), context)[1],
        )
    # Without the name it is another vocabulary, and another processor.
    plain = lk.Vocabulary(PIECES, eos_ids=[EOS])
    with pytest.raises(lk.errors.LogitkitError):
        lk.load_state(tmp_path / "state", lk.from_config(config, plain))
