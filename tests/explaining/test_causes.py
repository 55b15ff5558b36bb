"""`explain`: each cause of a refusal, who is named, and what the processors of a chain did."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

import logitkit as lk
from logitkit.composition.chain import Chain
from logitkit.constraints.healing import HealedPrompt
from logitkit.errors import ConfigurationError

# Ids:                      0     1     2     3     4      5 = EOS
V = lk.Vocabulary([b"1", b"2", b"-", b"x", b"2x", None, None], eos_ids=[5], special={"<s>": 6})
EOS = 5


def test_legal_tokens_are_counted_and_nothing_is_refused() -> None:
    found = lk.explain(lk.Regex("[12]{2}", V), V, [3], [0, 1, EOS])
    assert [step.legal for step in found.steps] == [2, 2, 1]
    assert found.refusal is None
    assert found.complete
    assert [step.data for step in found.steps] == [b"1", b"2", b""]


def test_the_byte_is_inside_the_token_that_fails() -> None:
    refusal = lk.explain(lk.Regex("[12]{2}-?", V), V, [], [0, 4]).refusal
    assert refusal is not None
    assert (refusal.processor, refusal.cause, refusal.byte) == ("Regex", "language", 2)
    assert refusal.expected == "'-' or the end"
    assert [(s.kind, s.text, s.span) for s in refusal.sources] == [("pattern", "-?", (7, 9))]
    assert refusal.completion in {(0,), (1,)}


def test_tokens_after_a_refusal_are_not_explained_again() -> None:
    found = lk.explain(lk.Regex("[12]{2}", V), V, [], [2, 0, EOS])
    assert [step.refusal is not None for step in found.steps] == [True, False, False]
    assert [step.after_refusal for step in found.steps] == [False, True, True]
    assert [step.legal for step in found.steps] == [2, 1, 1]
    assert not found.complete
    assert found.completion is None


def test_an_end_that_comes_too_early_and_a_token_after_the_end() -> None:
    early = lk.explain(lk.Regex("[12]{2}", V), V, [], [0, EOS]).refusal
    assert early is not None
    assert (early.cause, early.byte, early.expected) == ("end", 1, "'1' or '2'")
    late = lk.explain(lk.Regex("[12]{2}", V), V, [], [0, 0, EOS, 1]).refusal
    assert late is not None
    assert (late.cause, late.byte, late.expected) == ("end", 2, "the end")


def test_tokens_that_cannot_complete_a_text_are_refused_for_the_vocabulary() -> None:
    # After x only y may come, which no token spells.
    refusal = lk.explain(lk.Regex("xy|2x|12", V), V, [], [3]).refusal
    assert refusal is not None
    assert (refusal.cause, refusal.byte, refusal.expected) == ("vocabulary", None, "'1', '2' or '2x'")
    assert refusal.completion == (4,)


def test_a_text_that_becomes_too_long_is_refused_for_the_budget() -> None:
    letters = lk.Vocabulary([b"[", b"]", b"1", b",", None], eos_ids=[4])
    numbers = lk.JsonSchema({"type": "array", "items": {"const": 1}}, letters, closing=4)
    found = lk.explain(numbers, letters, [], [0, 2, 3, 2, 1])
    refusal = found.refusal
    assert refusal is not None
    assert (refusal.cause, refusal.byte, refusal.expected) == ("budget", None, "a text that ends within 2 more tokens")
    assert refusal.completion == (1,)
    assert lk.explain(numbers, letters, [], [0, 2, 1, 4]).complete
    open_end = lk.JsonSchema({"type": "array", "items": {"const": 1}}, letters, closing=True)
    limited = lk.explain(open_end, letters, [2], [0, 2, 3], max_length=5).refusal
    assert limited is not None
    assert limited.cause == "budget"


def test_open_brackets_of_json() -> None:
    letters = lk.Vocabulary([bytes([b]) for b in range(32, 127)] + [None], eos_ids=[95])
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": {"const": "]"}}}, "required": ["a"]}
    refusal = lk.explain(lk.JsonSchema(schema, letters), letters, [], '{"a":["]",x').refusal
    assert refusal is not None
    assert (refusal.byte, refusal.open_brackets, refusal.expected) == (10, "{[", "'\"'")


@pytest.mark.parametrize(
    ("processor", "output", "name", "expected"),
    [
        (lk.BanTokens([0]), [0], "BanTokens", "'2', '-', 'x', '2x', '<s>' or the end"),
        (lk.AllowTokens([0, 1]), [2], "AllowTokens", "'1' or '2'"),
        (lk.NoRepeatNGram(2), [0, 1, 0, 1], "NoRepeatNGram", "a token that does not repeat 2 tokens of the text"),
        (lk.StopStrings(["-"], V), [2, 0], "StopStrings", "the end"),
        (lk.LoopStop(V), [0, 0, 0, 0], "LoopStop", "the end"),
        (lk.MinNewTokens(2, [EOS]), [0, EOS], "MinNewTokens", ""),
        (lk.ForcedTokens([0, 1]), [0, 0], "ForcedTokens", "the token '2'"),
        (lk.ForcedEos([EOS], 1), [0], "ForcedEos", "the end"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_bans_name_their_processor(processor: lk.Processor[Any], output: list[int], name: str, expected: str) -> None:
    found = lk.explain(processor, V, [], output)
    refusal = found.steps[-1].refusal
    assert refusal is not None
    assert found.refusal is refusal
    assert (refusal.processor, refusal.cause, refusal.byte, refusal.expected) == (name, "ban", None, expected)


def test_a_banned_text_is_named_with_the_byte_that_completes_it() -> None:
    refusal = lk.explain(lk.BannedStrings(["--", "12X"], V, ignore_case=True), V, [], [0, 4]).refusal
    assert refusal is not None
    assert (refusal.cause, refusal.byte, refusal.sources[0].text) == ("ban", 2, "12X")


def test_the_first_processor_of_a_chain_that_refuses_is_named() -> None:
    both = lk.chain(lk.BanTokens([0]), lk.RepetitionPenalty(2.0), lk.Regex("[12]+", V))
    found = lk.explain(both, V, [], [1, 1, 0])
    assert found.refusal is not None
    assert found.refusal.processor == "BanTokens"
    first, second, _ = found.steps
    assert [(e.processor, e.banned, e.shift) for e in first.effects] == [("BanTokens", 1, 0.0), ("Regex", 5, 0.0)]
    assert [(e.processor, e.banned, e.shift) for e in second.effects] == [
        ("BanTokens", 1, 0.0),
        ("RepetitionPenalty", 0, -0.5),
        ("Regex", 4, 0.0),
    ]
    assert (first.legal, second.legal) == (1, 2)


def test_only_the_end_is_left_in_a_row_that_a_stop_has_ended() -> None:
    bytes_alone = lk.Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_ids=[256])
    chain = lk.chain(lk.Regex("[0-9]{2}-a", bytes_alone), lk.StopStrings(["2"], bytes_alone))
    state = chain.advance(
        chain.init_state(lk.Context.of([[], []], vocabulary_size=257)), torch.tensor([[49, 50], [49, 51]])
    )
    assert [row.nonzero().flatten().tolist() for row in chain.allowed_tokens(state)] == [[256], [ord("-")]]
    ended = lk.explain(chain, bytes_alone, [], [49, 50, 256])
    assert ended.refusal is None
    assert ended.complete
    assert ended.steps[2].legal == 1
    refusal = lk.explain(chain, bytes_alone, [], "12-").refusal
    assert refusal is not None
    assert (refusal.processor, refusal.expected, refusal.completion) == ("StopStrings", "the end", ())


@pytest.mark.parametrize(
    ("others", "left"), [([lk.ForcedTokens([49, 50, 51])], [51]), ([lk.BanTokens([256])], [257]), ([], [256, 257])]
)
def test_a_stop_lifts_no_ban_and_no_forced_token(others: list[Any], left: list[int]) -> None:
    two_ends = lk.Vocabulary([*(bytes([byte]) for byte in range(256)), None, None], eos_ids=[256, 257])
    chain = lk.chain(lk.StopStrings(["2"], two_ends), *others, lk.Regex("[0-9]+", two_ends))
    state = chain.advance(chain.init_state(lk.Context.of([[]], vocabulary_size=258)), torch.tensor([[49, 50]]))
    _, logits = chain.process_logits(state, torch.zeros(1, 258), lk.Context.of([[]], vocabulary_size=258))
    assert (logits > -torch.inf).nonzero()[:, 1].tolist() == left
    assert chain.allowed_tokens(state).nonzero()[:, 1].tolist() == left
    for token in (51, 256, 257):
        assert (lk.explain(chain, two_ends, [], [49, 50, token]).refusal is None) == (token in left)


def test_completions_keep_to_the_bans_of_a_chain() -> None:
    found = lk.explain(lk.chain(lk.Regex("[12]{2}x", V), lk.BanTokens([1, 4])), V, [], [0])
    assert found.completion == (0, 3)
    assert lk.explain(lk.chain(lk.Regex("[12]{2}x", V), lk.BanTokens([3, 4])), V, [], [0]).completion is None


def test_the_parts_of_an_intersection_that_refuse_are_named() -> None:
    both = lk.chain(lk.Regex("[12]+x?", V), lk.Choice(["12", "12x", "2x"], V))
    refusal = lk.explain(both, V, [], [0, 0]).refusal
    assert refusal is not None
    assert (refusal.processor, refusal.byte, refusal.expected) == ("Choice", 1, "'2'")
    assert [source.text for source in refusal.sources] == ["12", "12x"]


def test_a_conflict_is_explained_like_any_other_refusal() -> None:
    nothing = lk.chain(lk.Regex("1", V), lk.BanTokens([0]))
    found = lk.explain(nothing, V, [], [EOS])
    assert found.steps[0].legal == 0
    assert found.refusal is not None
    assert (found.refusal.processor, found.refusal.cause) == ("Regex", "end")
    assert not found.complete
    assert found.completion is None
    # A constraint that ends the empty row by itself changes nothing.
    parts = (lk.Regex("1", V), lk.BannedStrings(["1"], V), lk.BanTokens([0]))
    for apart in (Chain(parts[:2]), Chain(parts[1::-1]), lk.chain(parts[2], parts[0])):
        again = lk.explain(apart, V, [], [EOS])
        assert (again.steps[0].legal, again.complete, again.completion) == (0, False, None)
        assert again.refusal == found.refusal
    # Forced tokens override earlier bans.
    forced = lk.explain(lk.chain(lk.BanTokens([1]), lk.ForcedTokens([1])), V, [], [1])
    assert (forced.steps[0].legal, forced.refusal) == (1, None)


def test_a_constraint_over_token_ids_names_tokens() -> None:
    dfa = lk.Dfa({(0, 0): 1, (1, 6): 2}, 0, [2], V)
    refusal = lk.explain(dfa, V, [], [0, 1]).refusal
    assert refusal is not None
    assert (refusal.cause, refusal.byte, refusal.expected, refusal.completion) == (
        "language",
        1,
        "the token '<s>'",
        (6,),
    )


def test_with_logits_probabilities_are_known() -> None:
    logits = torch.tensor([0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0])
    chain = lk.chain(lk.Regex("[12]", V), lk.Temperature(0.5), lk.TopK(1))
    step = lk.explain(chain, V, [], [1], logits=[logits]).steps[0]
    chances = logits.softmax(0)
    assert step.probability == pytest.approx(float(chances[1]))
    assert step.removed == pytest.approx(1 - float(chances[1]))
    assert (step.wanted, step.legal) == (2, 1)
    assert [(e.processor, e.banned, e.shift) for e in step.effects] == [
        ("Regex", 5, 0.0),
        ("Temperature", 0, 1.0),
        ("TopK", 1, 0.0),
    ]
    with pytest.raises(ConfigurationError, match="only 1 rows"):
        lk.explain(chain, V, [], [1, 1], logits=[logits])


def test_texts_are_split_into_the_longest_tokens() -> None:
    found = lk.explain(lk.Regex("12x", V), V, "x", "12x<s>")
    assert [step.token_id for step in found.steps] == [0, 4, 6]
    with pytest.raises(ConfigurationError, match="no token of the vocabulary begins 'é', at byte 1"):
        lk.explain(lk.Regex("12x", V), V, [], "1é")


def test_it_is_plain_data() -> None:
    found = lk.explain(lk.Regex("[12]{2}", V), V, [], [0, 4])
    data = json.loads(json.dumps(found.to_dict()))
    assert data["steps"][1]["refusal"]["byte"] == 2


def test_misuse_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="the class Regex"):
        lk.explain(lk.Regex, V, [], [])  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"output\[1\] is 9"):
        lk.explain(lk.BanTokens([0]), V, [], [0, 9])


def test_the_healed_prompt_is_where_it_is_made() -> None:
    assert isinstance(lk.heal_prompt([0], V), HealedPrompt)


@pytest.mark.parametrize(
    ("constraint", "output", "byte", "sources"),
    [
        (lk.then(None, lk.Regex("1+2", V), "-"), "x-1x", 3, ["1+", "2"]),
        (lk.then(lk.Choice(["11", "12"], V), None, "-"), "1-", 1, ["11", "12"]),
        (lk.then(None, lk.Regex("1+2", V), "<s>"), "x<s>x", 1, ["1+"]),
        (lk.ForcedPrefix("x1", V, then=lk.Regex("1{2}", V)), "x12", 2, ["1{2}"]),
        (lk.ForcedPrefix("x1", V), "x2", 1, ["x1"]),
    ],
    ids=["after", "before", "special", "then", "prefix"],
)
def test_sources_around_markers_and_prefixes(
    constraint: lk.Then | lk.ForcedPrefix, output: str, byte: int, sources: list[str]
) -> None:
    refusal = lk.explain(constraint, V, [], output).refusal
    assert refusal is not None
    assert (refusal.byte, [source.text for source in refusal.sources]) == (byte, sources)


def test_a_schema_after_a_forced_text_or_a_marker_has_sources() -> None:
    letters = lk.Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_ids=[256])
    digit = lk.JsonSchema({"type": "integer", "maximum": 9}, letters)
    constraints = {"Answer: 12": lk.ForcedPrefix("Answer: ", letters, digit), "hm</t>12": lk.then(None, digit, "</t>")}
    for text, constraint in constraints.items():
        refusal = lk.explain(constraint, letters, [], text).refusal
        assert refusal is not None
        assert (refusal.byte, refusal.expected) == (len(text) - 1, "the end")
        assert [source.pointer for source in refusal.sources] == ["/maximum"]
