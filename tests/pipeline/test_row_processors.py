"""A row with a processor of its own gets the same logits as alone, next to rows with any others, wherever it moves."""

from __future__ import annotations

import random
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import logitkit as lk
from logitkit.batching import RowProcessors
from logitkit.composition.engine_logits import EngineLogits
from logitkit.errors import BatchMismatch, BrokenLogits, ConfigurationError, ProcessorError
from logitkit.runtime.constraint import Constraint
from tests import continue_saved
from tests.batches import COLUMNS, DTYPES, Batch, processed, run, same_bits, step, tensor_path
from tests.examples import examples
from tests.registry import EOS, ROWS, Row, ids, vocabulary

SINGLE = [row for row in ROWS if getattr(row.processor, "batch_size", None) is None]
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Given:
    """A row of a batch: the row of the registry, None for no processor, and its tokens and logits.

    Args:
        row: The row of the registry.
        batch: Its prompt, tokens and logits.
    """

    row: Row | None
    batch: Batch

    @property
    def processor(self) -> Any:
        return None if self.row is None else self.row.processor

    def alone(self) -> list[Tensor]:
        if self.row is None:
            return [logits.clone() for logits in self.batch.logits]
        return run(self.row.processor, self.batch).logits


def drawn(chance: random.Random, dtype: torch.dtype, stream: int) -> Given:
    row = chance.choice([*SINGLE, None])
    source = chance.choice(SINGLE) if row is None else row
    batch = continue_saved.batch(source, chance.randint(0, 9), dtype).select([0])
    return Given(row, replace(batch, streams=[stream]))


def together(parts: list[Given]) -> Batch:
    steps = min(part.batch.steps for part in parts)
    return Batch(
        [part.batch.prompts[0] for part in parts],
        torch.cat([part.batch.tokens[:, :steps] for part in parts]),
        torch.cat([part.batch.logits[: steps + 1] for part in parts], 1),
        [stream for part in parts for stream in part.batch.streams or [0]],
    )


@settings(max_examples=examples(60))
@given(st.integers(0, 2**32), st.sampled_from(DTYPES), st.booleans())
def test_each_row_gets_what_it_gets_alone(seed: int, dtype: torch.dtype, tensors: bool) -> None:
    """In one batch of rows with any processors, some of them equal, some none."""
    chance = random.Random(seed)
    parts = [drawn(chance, dtype, stream) for stream in range(chance.randint(1, 6))]
    if tensors:
        parts = [part for part in parts if part.row is None or not part.row.on_host]
    if not parts:
        return
    batch = together(parts)
    processor = RowProcessors(tuple(part.processor for part in parts))
    with tensor_path() if tensors else nullcontext():
        found = run(processor, batch)
        for number, part in enumerate(parts):
            for t, wanted in enumerate(part.alone()[: batch.steps + 1]):
                assert same_as_alone(found.logits[t][number], wanted[0], part)
        at_once = processor.advance(processor.init_state(batch.context()), batch.tokens)
    assert all(same_bits(one.takes, other.takes) for one, other in zip(at_once, found.state, strict=True))


def same_as_alone(found: Tensor, wanted: Tensor, part: Given) -> bool:
    """Whether two rows are equal, bit for bit: in a row without a processor, NaN too."""
    bits = {2: torch.int16, 4: torch.int32}[found.itemsize]
    return found.view(bits).equal(wanted.view(bits)) if part.row is None else same_bits(found, wanted)


class Loop(NamedTuple):
    """A loop that changes its rows at every step: their processors, state and context, and which of the given rows each is."""

    processor: RowProcessors
    state: Any
    context: lk.Context
    numbers: list[int]

    @classmethod
    def start(cls, parts: list[Given], numbers: list[int]) -> Loop:
        context = together([parts[n] for n in numbers]).context()
        processor = RowProcessors(tuple(parts[n].processor for n in numbers))
        return cls(processor, processor.init_state(context), context, numbers)

    def moved(self, rows: list[int]) -> Loop:
        processor, state = self.processor.selected(self.state, rows, CPU)
        context = lk.select_context(self.context, torch.tensor(rows))
        return Loop(processor, state, context, [self.numbers[row] for row in rows])

    def with_more(self, other: Loop) -> Loop:
        processor, state = self.processor.joined(self.state, other.processor, other.state, CPU)
        context = lk.concatenate_context([self.context, other.context])
        return Loop(processor, state, context, [*self.numbers, *other.numbers])


@settings(max_examples=examples(40))
@given(st.integers(0, 2**32))
def test_rows_that_move_fork_leave_and_enter(seed: int) -> None:
    chance = random.Random(seed)
    parts = [drawn(chance, torch.float32, stream) for stream in range(6)]
    steps = min(part.batch.steps for part in parts)
    wanted = [part.alone() for part in parts]
    seen = [0] * len(parts)
    loop = Loop.start(parts, [0, 1])
    loop = Loop.start(parts, [2]).with_more(loop) if chance.random() < 0.5 else loop
    for _ in range(steps):
        tokens = torch.tensor([int(parts[n].batch.tokens[0, seen[n]]) for n in loop.numbers])
        loop = loop._replace(state=loop.processor.advance(loop.state, tokens), context=step(loop.context, tokens))
        for number in {*loop.numbers}:
            seen[number] += 1
        new = [n for n in range(len(parts)) if not seen[n]]
        if new and chance.random() < 0.4:
            loop = loop.with_more(Loop.start(parts, [chance.choice(new)]))
        loop = loop.moved([chance.randrange(len(loop.numbers)) for _ in range(chance.randint(1, 5))])
        # A row that has left does not come back, so it counts as seen.
        logits = torch.cat([parts[n].batch.logits[seen[n]] for n in loop.numbers])
        found = processed(loop.processor, loop.state, logits, loop.context)[1]
        for number, row in zip(loop.numbers, found, strict=True):
            assert same_as_alone(row, wanted[number][seen[number]][0], parts[number])
        if len({seen[n] for n in loop.numbers}) > 1 or max(seen[n] for n in loop.numbers) >= steps:
            break


def test_rows_with_a_scale_each_share_one_call() -> None:
    rows = RowProcessors((lk.Guidance(2.0), None, lk.chain(lk.Guidance(0.5), lk.TopK(2)), lk.Guidance(-1.0)))
    assert [type(step.runs) for step in rows.steps] == [lk.Guidance, lk.TopK]
    first, second = torch.tensor([[0.25, 0.5, 0.25]]).log().expand(4, 3), torch.full((4, 3), 1 / 3).log()
    context = replace(lk.Context.of([[]] * 4, 3), guidance_logits=second)
    found = rows.process_logits(rows.init_state(context), first.clone(), context)[1].exp()
    wanted = torch.stack([first.exp()[0] ** scale * (1 / 3) ** (1 - scale) for scale in (2.0, 1.0, 0.5, -1.0)])
    # The two best of three, where two tie, are all three.
    torch.testing.assert_close(found, wanted)


def test_beams_of_a_row_have_its_processor() -> None:
    processor = RowProcessors((lk.BanTokens([3]), None))
    context = lk.Context.of([[]] * 6, 5)
    state = processor.init_state(context)
    banned = processor.process_logits(state, torch.ones(6, 5), context)[1][:, 3].isinf()
    assert banned.tolist() == [True] * 3 + [False] * 3


def test_what_rows_know_of_their_ends() -> None:
    regex, stop = lk.Regex("[0-9]", vocabulary()), lk.chain(lk.Temperature(2), lk.StopStrings(["a"], vocabulary()))
    assert isinstance(regex, Constraint)
    processor = RowProcessors((regex, stop, None, regex))
    (one, a) = ids(b"1", b"a")
    state = processor.init_state(lk.Context.of([[]] * 4, COLUMNS))
    state = processor.advance(state, torch.tensor([[one, EOS], [a, -1], [one, one], [a, -1]]))
    assert processor.is_finished(state).tolist() == [True, False, False, False]
    assert processor.is_dead(state).tolist() == [False, False, False, True]
    assert processor.fired(state).tolist() == [False, True, False, False]
    ended = processor.finish(state, torch.tensor([False, False, True, True]))
    assert processor.is_finished(ended).tolist() == [True, False, False, True]


def test_wrong_processors_are_refused_by_row() -> None:
    for given_, message in (
        ((), "there are no processors"),
        ((None, lk.TopK), "processor of row 1 is the class TopK"),
        ((lk.ForcedTokens([[3], [4]]),), "row 0 is a ForcedTokens for the 2 rows"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            RowProcessors(given_)  # type: ignore[arg-type]
    with pytest.raises(BatchMismatch, match="there are 3 rows, but 2 processors"):
        RowProcessors((None, None)).init_state(lk.Context.of([[]] * 3, 5))


class Wrong(lk.Regex):
    """Breaks the protocol in its own row."""

    def process_logits(self, state: Any, logits: Tensor, context: lk.Context) -> Any:
        return logits


def test_a_processor_that_breaks_the_protocol_raises() -> None:
    processor = RowProcessors((Wrong("[0-9]", vocabulary()), lk.Regex("[a-z]", vocabulary())))
    context = lk.Context.of([[], []], COLUMNS)
    with pytest.raises(ProcessorError, match="Wrong"):
        processor.process_logits(processor.init_state(context), torch.zeros(2, COLUMNS), context)


def test_rows_of_two_vocabularies_that_end_with_other_ids() -> None:
    """The numbers in a state mean another automaton in another vocabulary, and another EOS ends the minimum length."""
    first = lk.Vocabulary([b"a", b"b", b"c", None, None], eos_ids=[3])
    second = lk.Vocabulary([b"b", b"a", b"c", None, None], eos_ids=[4])
    processors: list[Any] = [
        lk.chain(lk.MinNewTokens(4, eos_ids=[end]), lk.ForcedTokens([0, end, 1]), lk.Regex("[ab]*c?", vocabulary))
        for end, vocabulary in ((3, first), (4, second))
    ]
    processors += [lk.Regex("ab", first), lk.Regex("ab", second), lk.StopStrings(["ab"], second)]
    rows = RowProcessors(tuple(processors))
    context = lk.Context.of([[]] * 5, 5)
    alone = lk.Context.of([[]], 5)
    state = rows.init_state(context)
    states = [processor.init_state(alone) for processor in processors]
    for tokens in ([0, 0, 0, 1, 1], [3, 4, 1, 0, 0], [1, 1, 3, 4, 2], [0, 2, 3, 4, 0]):
        state = rows.advance(state, torch.tensor(tokens))
        states = [p.advance(s, torch.tensor([t])) for p, s, t in zip(processors, states, tokens, strict=True)]
        found = rows.process_logits(state, torch.ones(5, 5), context)[1]
        wanted = [p.process_logits(s, torch.ones(1, 5), alone)[1] for p, s in zip(processors, states, strict=True)]
        assert found.equal(torch.cat(wanted))


def test_a_chain_that_ends_with_the_ids_of_its_minimum_length() -> None:
    """It has no text, so only the chain knows which EOS ends it, and that a forced one does not."""
    counted = lk.chain(lk.MinNewTokens(6, eos_ids=[3]), lk.ForcedTokens([0, 3]))
    rows, context = RowProcessors((counted, None)), lk.Context.of([[], []], 5)
    state, own = rows.init_state(context), counted.init_state(lk.Context.of([[]], 5))
    for token in (0, 3, 1, 3, 3):
        state = rows.advance(state, torch.tensor([token, token]))
        own = counted.advance(own, torch.tensor([token]))
        found = rows.process_logits(state, torch.ones(2, 5), context)[1][:1]
        assert found.equal(counted.process_logits(own, torch.ones(1, 5), lk.Context.of([[]], 5))[1])


def bans_all() -> Any:
    return lk.Stateless(lambda logits, context: torch.full_like(logits, -torch.inf))


def test_a_row_without_a_token_is_an_error_or_ends_with_an_id_of_the_engine() -> None:
    context = lk.Context.of([[], []], 5)
    for emptied in (bans_all(), lk.chain(bans_all())):
        rows = RowProcessors((lk.BanTokens([0]), emptied))
        with pytest.raises(ProcessorError, match="row 1 has no token left"):
            EngineLogits(rows)(rows.init_state(context), torch.ones(2, 5), context)
    # The EOS of another row may not end this one.
    rows = RowProcessors((lk.MinNewTokens(2, eos_ids=[4]), bans_all()))
    found = EngineLogits(rows)(rows.init_state(context), torch.ones(2, 5), context, eos_ids=[3])
    assert (found[1] > -torch.inf).tolist() == [False, False, False, True, False]
    beside = RowProcessors((lk.MinNewTokens(2, eos_ids=[4]), lk.Regex("a", lk.Vocabulary([b"a", None], eos_ids=[1]))))
    assert beside.known_eos_ids == (1,)


@pytest.mark.parametrize("tensors", [False, True])
def test_broken_logits_of_samples_of_rows_without_a_processor(tensors: bool) -> None:
    rows, context = RowProcessors((None, None)), lk.Context.of([[]] * 6, 5)
    logits = torch.ones(6, 5)
    logits[4, 2] = torch.nan
    with tensor_path() if tensors else nullcontext(), pytest.raises(BrokenLogits, match="row 4"):
        EngineLogits(rows)(rows.init_state(context), logits, context)
