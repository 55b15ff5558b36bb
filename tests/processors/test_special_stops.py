"""Stops, bans and thinking budgets by the name of a special token: the token and its spelling mean the same."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.errors import ConfigurationError
from tests.examples import examples
from tests.processors.four_logits import NEVER, on_either_path
from tests.processors.special_tokens import EOS, NAME, OTHER, THINK, TOKENS, WITH_TEXT


def test_a_ban_holds_in_every_place() -> None:
    ban = lk.BannedStrings([NAME, "bb"], TOKENS)
    free = [0.5] * 11
    assert on_either_path(ban, [], free) == [*free[:THINK], NEVER, 0.5, 0.5]
    assert on_either_path(ban, [5], free) == [*free[:4], NEVER, *free[5:THINK], NEVER, 0.5, 0.5]
    for constraint, prefix in (
        (lk.chain(ban, lk.then(None, lk.Regex("a", TOKENS), "<o>")), []),
        (lk.then(ban, lk.Regex("a", TOKENS), "<o>"), []),
        (lk.then(ban, lk.Regex("a", TOKENS), OTHER), []),
        (lk.then(None, ban, "t"), [3]),
        (lk.then(lk.Regex("a", TOKENS), ban, OTHER), [0, OTHER]),
        (lk.ForcedPrefix("b", TOKENS, then=ban), [1]),
        (lk.then(None, lk.Intersection((ban, lk.BannedStrings(["aa"], TOKENS))), "t"), [3]),
        (lk.chain(lk.ForcedPrefix("", TOKENS), lk.Intersection((ban, lk.BannedStrings(["aa"], TOKENS)))), []),
    ):
        assert on_either_path(constraint, prefix, free)[THINK] == NEVER
        assert on_either_path(constraint, prefix, free)[0] == 0.5
    folded = lk.BannedStrings(["<T>"], TOKENS, ignore_case=True)
    assert on_either_path(folded, [], free)[THINK] == NEVER
    assert on_either_path(lk.BannedStrings(["<T>"], TOKENS), [], free) == free


# Ids:                      0     1     2 = </s>  3 = <end>
TWO_ENDS = lk.Vocabulary([b"a", b"b", None, None], eos_ids=[2, 3], special={"</s>": 2, "<end>": 3})


def test_a_text_that_names_eos_needs_another_eos() -> None:
    logits = [0.5, -1.0, 2.0, 3.0]
    ban = lk.BannedStrings(["<end>"], TWO_ENDS)
    assert on_either_path(ban, [], logits) == [0.5, -1.0, 2.0, NEVER]
    both = lk.chain(lk.Regex("a*", TWO_ENDS), ban)
    assert on_either_path(both, [0], logits) == [0.5, NEVER, 2.0, NEVER]
    for after in (lk.then(lk.Regex("b", TWO_ENDS), ban, "a"), lk.then(lk.Regex("b", TWO_ENDS), ban, 0)):
        assert on_either_path(after, [1, 0], logits) == [0.5, -1.0, 2.0, NEVER]
    stops = lk.StopStrings(["<end>"], TWO_ENDS)
    state = stops.advance(stops.init_state(lk.Context.of([[]], vocabulary_size=4)), torch.tensor([[0, 3]]))
    assert (stops.which(state).tolist(), stops.is_finished(state).tolist()) == ([0], [True])
    for make in (lk.StopStrings, lk.BannedStrings):
        with pytest.raises(ConfigurationError, match=r"s has '</s>', '<end>', which names every EOS of the vocabulary"):
            make(["<end>", "</s>"], TWO_ENDS)
    with pytest.raises(ConfigurationError, match="no text is allowed by all constraints"):
        lk.chain(lk.BannedStrings(["<end>"], TWO_ENDS), lk.BannedStrings(["</s>"], TWO_ENDS))
    for refused in (
        lambda: lk.then(None, lk.Regex("a", TWO_ENDS), "</s>"),
        lambda: lk.ThinkingBudget(1, "</s>", TWO_ENDS),
        lambda: lk.ThinkingBudget(1, "a", TWO_ENDS, start="</s>"),
    ):
        with pytest.raises(ConfigurationError, match=r"'</s>', the name of (an EOS token|the EOS id 2)"):
            refused()
    # By id, a stop may be any EOS.
    assert lk.StopStrings([2, 3], TWO_ENDS).stops == (2, 3)


@pytest.mark.parametrize("vocabulary", [TOKENS, WITH_TEXT])
@settings(max_examples=examples(200))
@given(st.lists(st.sampled_from([0, 1, 2, 3, 4, 5, 6, 7, THINK, OTHER]), max_size=10))
def test_stops_against_the_plain_meaning(vocabulary: lk.Vocabulary, tokens: list[int]) -> None:
    text, expected, shown = b"", None, b""
    for count, token in enumerate(tokens):
        piece = vocabulary.tokens[token] or b""
        if expected is None and NAME.encode() in text + piece:
            expected = ((text + piece).index(NAME.encode()), count)
        elif expected is None and token == THINK:
            expected = (len(text), count)
        text += piece
        if expected is not None:
            shown = text[: expected[0]]
            break
    stops = lk.StopStrings(["b" * 11, NAME], vocabulary)
    context = lk.Context.of([[]], vocabulary_size=11)
    state = stops.advance(stops.init_state(context), torch.tensor([tokens or [-1]]))
    place = stops.place(state)
    assert stops.which(state).tolist() == [-1 if expected is None else 1]
    if expected is not None:
        assert (place.begin.tolist(), place.token.tolist()) == ([expected[0]], [expected[1]])
    after = on_either_path(stops, tokens, [0.5] * 11)
    assert after == ([0.5] * 11 if expected is None else [0.5 if i == EOS else NEVER for i in range(11)])
    stream = lk.TextStream(vocabulary, ["b" * 11, NAME])
    said = stream.feed(tokens) + stream.finish()
    assert (said.encode(), stream.stop) == (text if expected is None else shown, None if expected is None else NAME)


@pytest.mark.parametrize("vocabulary", [TOKENS, WITH_TEXT])
def test_a_thinking_budget_forces_the_token(vocabulary: lk.Vocabulary) -> None:
    free, forced = [0.5] * 11, [0.5 if i == THINK else NEVER for i in range(11)]
    budget = lk.ThinkingBudget(2, NAME, vocabulary)
    assert on_either_path(budget, [0], free) == free
    assert on_either_path(budget, [0, 0], free) == forced
    # Whatever of the name has been spelled.
    assert on_either_path(budget, [0, 2], free) == forced
    assert on_either_path(budget, [0, 5], free) == forced
    assert on_either_path(budget, [0, 5, THINK], free) == free
    # Either ends the section.
    assert on_either_path(budget, [THINK, 0, 0, 0], free) == free
    assert on_either_path(budget, [5, 4, 0, 0], free) == free
    sections = lk.ThinkingBudget(1, NAME, TOKENS, start="<o>")
    assert on_either_path(sections, [0, 0, 0], free) == free
    assert on_either_path(sections, [OTHER, 0], free) == forced
    assert on_either_path(sections, [0], free, prompt=[OTHER]) == forced
    assert on_either_path(sections, [THINK, 0, 0], free, prompt=[OTHER]) == free
