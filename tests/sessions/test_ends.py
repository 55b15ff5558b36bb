"""Rows that processors of the user's end: an end that the constraint does not allow is a conflict, whoever banned the rest."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

import logitkit as lk
from logitkit.errors import IncompleteOutput
from logitkit_adapters.sessions import Session, continuous, generate_typed, trace
from logitkit_adapters.sessions.end_of_row import end_of_row
from tests.adapters.demo import vocabulary
from tests.sessions.engines import ENGINES, loaded

V = vocabulary()
(EOS,) = V.eos_ids
PROMPT = [280, 661, 509]
DIGITS = tuple(i for i, text in enumerate(V.tokens) if text and text.isdigit())
NEVER = float("-inf")


def bans(*ids: int, after: int = 0) -> lk.Stateless:
    """Return a function that bans tokens, after a number of new tokens."""

    def ban(logits: Tensor, context: lk.Context) -> Tensor:
        late = context.lengths - context.prompt_lengths >= after
        logits[late.nonzero(), torch.tensor(ids)] = NEVER
        return logits

    return lk.Stateless(ban)


@dataclass(frozen=True)
class WithoutRole:
    """Bans the digits."""

    vocabulary: lk.Vocabulary | None = None

    def init_state(self, context: lk.Context) -> tuple[()]:
        return ()

    def advance(self, state: tuple[()], tokens: Tensor) -> tuple[()]:
        return state

    def process_logits(self, state: tuple[()], logits: Tensor, context: lk.Context) -> tuple[tuple[()], Tensor]:
        logits[:, list(DIGITS)] = NEVER
        return state, logits


@dataclass(frozen=True)
class WithRole(WithoutRole):
    """Bans the digits as a constraint."""

    role: ClassVar[lk.Role] = lk.Role.CONSTRAINT


@dataclass(frozen=True)
class Truncation(WithoutRole):
    """Bans the digits as a truncation."""

    role: ClassVar[lk.Role] = lk.Role.TRUNCATION


OWN: dict[str, Any] = {
    "function": bans(*DIGITS),
    "late function": bans(*DIGITS, after=2),
    "class": WithoutRole(),
    "class with a vocabulary": WithoutRole(V),
    "constraint": WithRole(),
    "truncation": Truncation(),
    "NaN": lk.Stateless(lambda logits, context: logits.index_fill(1, torch.tensor(DIGITS), torch.nan)),
    "in a chain": lk.chain(lk.Temperature(0.7), bans(*DIGITS), lk.TopK(50)),
    "after others": lk.chain(lk.RepetitionPenalty(1.1), WithoutRole()),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", OWN)
def test_a_typed_value_is_complete_or_an_error_says_why_not(engine: str, name: str) -> None:
    model, tokenizer = loaded(engine)
    for seed in (None, 1):
        with pytest.raises(IncompleteOutput, match="the processors together allowed no further token") as caught:
            generate_typed(model, tokenizer, PROMPT, re.compile("a[0-9]{3}"), processor=OWN[name], seed=seed)
        assert re.fullmatch("a[0-9]{0,2}", caught.value.text)
    stream = generate_typed(model, tokenizer, PROMPT, re.compile("a[0-9]{3}"), processor=OWN[name], stream=True)
    assert re.fullmatch("a[0-9]{0,2}", "".join(stream))
    with pytest.raises(IncompleteOutput):
        _ = stream.value
    found = generate_typed(model, tokenizer, PROMPT, re.compile("a[0-9]*b"), processor=OWN[name], max_new_tokens=30)
    assert re.fullmatch("a[0-9]*b", found.value)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", OWN)
def test_every_front_end_reports_the_conflict(engine: str, name: str) -> None:
    model, tokenizer = loaded(engine)
    both = lk.chain(lk.Regex("a[0-9]{3}", V), OWN[name])
    with Session(model, tokenizer, both) as session:
        assert [row.finished for row in session.generate(PROMPT, num_samples=2).rows] == ["conflict"] * 2
        assert {row.finished for row in session.generate(PROMPT, max_new_tokens=6, num_beams=2).rows} == {"conflict"}
        stream = session.stream(PROMPT)
        list(stream)
        assert stream.generated.rows[0].finished == "conflict"
    state = continuous(model, tokenizer, both)(PROMPT)
    assert state.finished.tolist() == [True]
    assert both.conflicts(state.processor_state).tolist() == [True]
    traced = trace(model, tokenizer, PROMPT, both)
    assert (traced.complete, traced.steps[-1].token_id, traced.refused_at) == (False, EOS, len(traced.steps) - 1)


def test_why_a_row_ended() -> None:
    stop = lk.StopStrings(["a"], V)
    everything = range(V.size)
    cases: list[tuple[Any, str]] = [
        (lk.chain(bans(*DIGITS), lk.Regex("a[0-9]{3}", V)), "conflict"),
        (lk.chain(lk.Regex("a[0-9]{3}", V), bans(*DIGITS), stop), "stop: a"),
        (lk.chain(stop, lk.Regex("a[0-9]{3}", V), bans(*DIGITS)), "stop: a"),
        # The constraint allows the end.
        (lk.chain(lk.Regex("a[0-9]?", V), bans(*DIGITS)), "eos"),
        (lk.chain(lk.Regex("ab", V), bans(EOS)), "closed"),
        (lk.chain(bans(EOS), lk.Regex("ab", V)), "closed"),
        # The processors allow nothing, so the model has not chosen to end the row.
        (lk.chain(bans(*everything), eos_ids=[EOS]), "conflict"),
        (bans(*everything, after=1), "conflict"),
        (lk.chain(lk.Regex("a*", V), bans(*everything)), "conflict"),
        # Processors that force an end, or text, against the constraint.
        (lk.chain(lk.Regex("a[0-9]{3}", V), lk.ForcedEos([EOS], 2)), "conflict"),
        (lk.chain(lk.Regex("ab", V), lk.ForcedEos([EOS], 3)), "closed"),
        (lk.chain(lk.ForcedTokens([EOS]), lk.Regex("ab", V)), "conflict"),
        (lk.chain(lk.Regex("ab", V), lk.ForcedTokens([EOS])), "conflict"),
        (lk.chain(lk.MinNewTokens(5, [EOS]), lk.Regex("ab", V)), "conflict"),
    ]
    with Session(*loaded("transformers")) as session:
        for processor, expected in cases:
            (row,) = session.generate(PROMPT, max_new_tokens=8, processor=processor).rows
            assert row.finished == expected, (processor, row)


def test_an_end_that_repeats_an_eos_of_the_prompt_is_not_a_conflict() -> None:
    both = lk.chain(lk.NoRepeatNGram(1), lk.Regex("ab", V))
    with Session(*loaded("transformers"), both) as session:
        (row,) = session.generate([EOS, 280, 661], max_new_tokens=8).rows
    assert (row.text, row.finished) == ("ab", "closed")


def test_a_row_that_is_full_and_cannot_go_on_is_a_conflict() -> None:
    with Session(*loaded("transformers")) as session:
        both = lk.chain(lk.Regex("a[0-9]{3}", V), WithRole())
        (row,) = session.generate(PROMPT, max_new_tokens=1, processor=both).rows
        assert row.finished == "conflict"
        both = lk.chain(lk.Regex("a[0-9]{3}", V), bans(*DIGITS))
        (row,) = session.generate(PROMPT, max_new_tokens=1, processor=both).rows
        assert row.finished == "length"


def test_a_constraint_without_a_vocabulary_in_an_engine_that_does_not_know_its_columns() -> None:
    both = lk.chain(lk.AllowTokens([5, 6]), lk.BanTokens([5]))
    assert end_of_row(both, PROMPT, [6, EOS], 9, [EOS], columns=0) == "conflict"
    assert end_of_row(lk.AllowTokens([5, 6, EOS]), PROMPT, [6, EOS], 9, [EOS], columns=0) == "eos"


def test_a_prompt_of_padding_has_no_value() -> None:
    model, tokenizer = loaded("transformers")
    mask = torch.tensor([[0, 0]])
    with pytest.raises(IncompleteOutput, match="the output '' was ended by EOS before it was complete"):
        generate_typed(model, tokenizer, [[5, 6]], re.compile("a"), attention_mask=mask, max_new_tokens=4)
    (found,) = generate_typed(model, tokenizer, [[5, 6]], re.compile("a?"), attention_mask=mask, max_new_tokens=4)
    assert found.value == ""


def after(processor: lk.Chain, *tokens: int) -> Any:
    context = lk.Context.of([PROMPT], V.size)
    return processor.advance(processor.init_state(context), torch.tensor([tokens]))


@pytest.mark.parametrize("name", ["function", "class", "constraint", "truncation", "NaN", "after others"])
def test_conflicts_are_known_before_the_end(name: str) -> None:
    a, digit, b = V.tokens.index(b"a"), V.tokens.index(b"1"), V.tokens.index(b"b")
    both = lk.chain(lk.Regex("a[0-9]{3}", V), OWN[name])
    for tokens, conflict in (([-1], False), ([a], True), ([a, EOS], True), ([a, digit], True), ([b], True)):
        assert both.conflicts(after(both, *tokens)).tolist() == [conflict]
    free = lk.chain(lk.Regex("a[0-9]*b", V), OWN[name])
    for tokens in ([-1], [a], [a, b], [a, b, EOS]):
        assert both.conflicts(after(free, *tokens)).shape == (1,)
        assert not free.conflicts(after(free, *tokens)).any()
    stopped = lk.chain(lk.StopStrings(["a"], V), lk.Regex("a[0-9]{3}", V), OWN[name])
    assert not stopped.conflicts(after(stopped, a)).any()
    # A complete text ends, whoever bans its EOS.
    complete = lk.chain(lk.Regex("ab", V), bans(EOS))
    assert not complete.conflicts(after(complete, a, b)).any()


def test_a_function_that_reads_logits_or_the_context() -> None:
    a = V.tokens.index(b"a")
    low = lk.Stateless(lambda logits, context: logits.masked_fill(logits < 1, NEVER))
    both = lk.chain(lk.Regex("a[0-9]{3}", V), low)
    assert both.conflicts(after(both, a)).tolist() == [False]
    late = lk.chain(lk.Regex("a[0-9]{3}", V), bans(*DIGITS, after=1))
    context = lk.Context.of([PROMPT], V.size)
    assert late.conflicts(after(late, a)).tolist() == [False]
    assert late.conflicts(after(late, a), context=context.at(context.lengths + 1)).tolist() == [True]
    needs = lk.Stateless(lambda logits, context: logits + context.prompt[:, -1:].clamp(max=0))
    reads = lk.chain(lk.Regex("a[0-9]{3}", V), needs)
    assert reads.conflicts(after(reads, a), context=context).tolist() == [False]
    with pytest.raises(
        lk.errors.ConfigurationError, match=r"Stateless fails \(\w+: .*give it: conflicts\(state, context="
    ):
        reads.conflicts(after(reads, a))
