"""A row among others of other configurations is processed as it would be alone, bit for bit."""

from __future__ import annotations

import itertools
import random
from typing import Any
from unittest import mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import logitkit as lk
from logitkit.batching import ORDER, BatchedRequests, Ending, NewRequest, steps_of
from logitkit.configuration import KINDS
from logitkit.errors import BatchMismatch, ConfigurationError
from logitkit.protocol.declared import neutral_state, step_of
from tests.batches import COLUMNS, Batch, logits_of, same_bits, sound_logits
from tests.registry import EOS, ONE_PASS, ROWS, Row, vocabulary

DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def has_steps(row: Row) -> bool:
    try:
        steps_of(row.processor)
    except ConfigurationError:
        return False
    return True


WITH_STEPS = [row for row in ONE_PASS if has_steps(row)]

# Where constraints leave nothing, a chain ends the row, and a single processor does not.
CONFLICTS: tuple[dict[str, Any], ...] = (
    {"allow_tokens": [5], "ban_tokens": [5]},
    {"regex": "[0-9]", "ban_tokens": list(range(3, 14))},
    {"allow_tokens": [5, 6], "min_new_tokens": {"n": 3, "eos_ids": [7]}, "no_repeat_ngram": 1},
    {"regex": "a", "stop_strings": ["b"], "min_new_tokens": 9},
    {"forced_tokens": [4, 4], "thinking_budget": {"max_tokens": 1, "end": "-0"}, "top_k": 3},
    {"allow_tokens": [70], "stop_strings": ["a"], "ban_tokens": [70], "temperature": 0.5, "top_p": 0.9},
)


LANGUAGES_WRITTEN: dict[str, Any] = {
    "regex": "[0-9]+",
    "choice": ["1", "20"],
    "dfa": {"transitions": [[0, 4, 0]], "start": 0, "accepting": [0]},
    "banned_strings": ["abc"],
    "forced_prefix": "1",
    "then": {"first": None, "second": {"regex": "[0-9]+"}, "marker": "-"},
    "json_schema": {"type": "integer"},
    "stop_strings": ["dog"],
}


# A continuation after a marker has no text in common with languages of digits.
OTHERS = {"regex", "choice", "dfa", "json_schema"}
SHARED = [pair for pair in itertools.permutations(LANGUAGES_WRITTEN, 2) if "then" not in pair or not OTHERS & {*pair}]


@pytest.mark.parametrize("pair", SHARED, ids="-".join)
def test_one_object_has_its_languages_in_an_order_that_requests_share(pair: tuple[str, str]) -> None:
    assert steps_of(lk.from_config({name: LANGUAGES_WRITTEN[name] for name in pair}, vocabulary()))


def processors() -> st.SearchStrategy[lk.Processor[Any] | None]:
    configured = st.sampled_from(CONFLICTS).map(lambda config: lk.from_config(config, vocabulary()))
    return st.none() | st.sampled_from(WITH_STEPS).map(lambda row: row.processor) | configured


ids = st.integers(0, COLUMNS - 1)


@st.composite
def requests(draw: st.DrawFn) -> tuple[lk.Processor[Any] | None, list[int], list[int], int]:
    """The configuration of a request, its prompt, its output, and how much of that it has when it enters."""
    output = draw(st.lists(ids, min_size=4, max_size=4))
    return draw(processors()), draw(st.lists(ids, max_size=4)), output, draw(st.integers(0, 2))


def alone(
    processor: lk.Processor[Any] | None, prompt: list[int], output: list[int], logits: Tensor, stream: int
) -> Tensor:
    if processor is None:
        return logits
    batch = Batch([prompt], torch.tensor([output], dtype=torch.int64).reshape(1, -1), logits[None], [stream])
    context = batch.context()
    state = processor.init_state(context)
    if output:
        state = processor.advance(state, batch.tokens)
    return processor.process_logits(state, logits[None].clone(), context)[1][0]


@pytest.mark.parametrize("compiling", [False, True], ids=["host", "tensors"])
@given(
    st.lists(requests(), min_size=1, max_size=6),
    st.sampled_from(DTYPES),
    st.integers(0, 2**32),
    st.randoms(use_true_random=False),
)
def test_rows_in_any_company_are_as_alone(
    compiling: bool, asked: list[tuple[Any, list[int], list[int], int]], dtype: torch.dtype, seed: int, random: Any
) -> None:
    with mock.patch.object(torch.compiler, "is_compiling", return_value=compiling):
        check(asked, dtype, seed, random)


def check(asked: list[tuple[Any, list[int], list[int], int]], dtype: torch.dtype, seed: int, random: Any) -> None:
    batch = BatchedRequests("cpu")
    live: list[int] = []
    done = {number: begin for number, (*_, begin) in enumerate(asked)}
    waiting = list(range(len(asked)))
    for step in range(5):
        # Some leave, some come, and all change places.
        staying = [place for place, number in enumerate(live) if done[number] < 4 and random.random() < 0.8]
        coming = [number for number in waiting if step == 0 or random.random() < 0.5]
        plan: list[tuple[int, Any]] = [(live[place], place) for place in staying]
        for number in coming:
            waiting.remove(number)
            processor, prompt, output, _ = asked[number]
            new = None if processor is None else NewRequest(processor, prompt, output[: done[number]], number)
            plan.append((number, new))
        random.shuffle(plan)
        waiting += [number for number in live if number not in [n for n, _ in plan] and done[number] < 4]
        live = [number for number, _ in plan]
        batch.arrange([source for _, source in plan])
        assert len(batch) == len(live)
        logits = sound_logits(seed + step, (len(live), COLUMNS), dtype)
        found = batch.process_logits(logits.clone())
        for place, number in enumerate(live):
            processor, prompt, output, _ = asked[number]
            wanted = alone(processor, prompt, output[: done[number]], logits[place], number)
            assert same_bits(found[place].nan_to_num(), wanted.nan_to_num())
            assert torch.equal(found[place].isnan(), wanted.isnan())
        # Not every request gets a token in every step.
        moves = [random.random() < 0.7 and done[number] < 4 for number in live]
        tokens = [asked[number][2][done[number]] if moving else -1 for number, moving in zip(live, moves, strict=True)]
        batch.advance(torch.tensor(tokens, dtype=torch.int64))
        for number, moving in zip(live, moves, strict=True):
            done[number] += moving


@pytest.mark.parametrize(
    "held_back", [{"forced_tokens": [13, 58, 14]}, {"min_new_tokens": {"n": 4, "eos_ids": [5]}}], ids=str
)
def test_only_a_row_with_a_vocabulary_knows_what_ends_it(held_back: dict[str, Any]) -> None:
    """A campaign found that a row was ended by what a vocabulary beside it says."""
    regex = lk.from_config({"regex": "[0-9]+"}, vocabulary())
    beside: list[Any] = [
        (regex, [], [0, 0, 0, 0], 0),
        (lk.from_config(held_back, vocabulary()), [], [0, EOS, 0, EOS], 0),
    ]
    for seed in range(8):
        check(beside, torch.float32, seed, random.Random(seed))


@pytest.mark.parametrize("row", WITH_STEPS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_neutral_rows_are_untouched(row: Row, dtype: torch.dtype) -> None:
    # A row that asks for nothing is untouched, also if its logits are broken.
    logits = torch.cat([logits_of(3, (1, COLUMNS), dtype), sound_logits(4, (1, COLUMNS), dtype)])
    batch = BatchedRequests("cpu")
    batch.arrange([None, NewRequest(row.processor, [4, 5])])
    batch.advance(torch.tensor([[3, 4, 71], [3, -1, -1]]))
    assert same_bits(batch.process_logits(logits.clone())[0], logits[0])


def test_every_kind_has_a_place_and_a_neutral_state() -> None:
    context = lk.Context.of([[], []], COLUMNS)
    for kind in KINDS.values():
        assert kind.made is not None
        step = step_of(kind.made)
        assert step in ORDER
        assert neutral_state(step, context) is not None
    found = {type(part) for row in ROWS if has_steps(row) for part in steps_of(row.processor).values()}
    assert found >= {kind.made for kind in KINDS.values()}
    assert ORDER.index(Ending) == ORDER.index(lk.Temperature) - 1


def test_a_batch_that_asks_for_nothing_returns_the_same_tensor() -> None:
    batch = BatchedRequests("cpu")
    batch.arrange([None, None])
    logits = torch.ones(2, 3)
    assert not batch.states.steps
    assert batch.process_logits(logits) is logits


def test_kinds_are_forgotten_with_the_last_row_that_has_them() -> None:
    batch = BatchedRequests("cpu")
    batch.arrange([NewRequest(lk.BanTokens([1]), []), None])
    assert batch.states.steps
    batch.arrange([1])
    assert not batch.states.steps


def test_one_call_a_kind() -> None:
    calls = []

    batch = BatchedRequests("cpu")
    batch.arrange([NewRequest(lk.RepetitionPenalty(1 + n / 100), [n]) for n in range(50)])
    original = lk.RepetitionPenalty.process_logits

    def spy(self: Any, *arguments: Any) -> Any:
        calls.append(self)
        return original(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lk.RepetitionPenalty, "process_logits", spy)
        batch.process_logits(torch.ones(50, COLUMNS))
    assert len(calls) == 1


@pytest.mark.parametrize("output", [[], [EOS]], ids=["new", "resumed"])
def test_an_end_that_is_forced_ends_no_text(output: list[int]) -> None:
    config = {"forced_tokens": [EOS, 4], "regex": "[0-9]+"}
    processor = lk.from_config(config, vocabulary())
    batch = BatchedRequests("cpu")
    batch.arrange([NewRequest(processor, [5], output)])
    if not output:
        batch.advance(torch.tensor([EOS]))
    logits = torch.zeros(1, COLUMNS)
    assert same_bits(batch.process_logits(logits.clone())[0], alone(processor, [5], [EOS], logits[0], 0))


def test_other_orders_are_refused() -> None:
    for config in (
        {"chain": [{"top_k": 5}, {"temperature": 0.5}]},
        {"chain": [{"temperature": 2}, {"temperature": 3}]},
    ):
        with pytest.raises(
            ConfigurationError,
            match=r"comes after .* each step once at most, in the canonical order: Guidance, LogitBias",
        ):
            steps_of(lk.from_config(config, vocabulary()))
    same = lk.from_config({"chain": [{"temperature": 0.5}, {"top_k": 5}]}, vocabulary())
    assert list(steps_of(same)) == [lk.Temperature, lk.TopK]


def test_functions_and_lists_for_batches_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="a Stateless cannot be expressed as a configuration"):
        steps_of(lk.Stateless(lambda logits, _: logits))
    with pytest.raises(ConfigurationError, match="ForcedTokens has a list of ids for each row of one batch"):
        steps_of(lk.ForcedTokens([[1], [2]]))


def test_a_wrong_number_of_rows_is_reported() -> None:
    batch = BatchedRequests("cpu")
    batch.arrange([NewRequest(lk.BanTokens([1]), [])])
    with pytest.raises(BatchMismatch, match="the logits have 2 rows, but the batch has 1 requests"):
        batch.process_logits(torch.ones(2, 3))


def test_an_empty_row_of_a_chain_ends_and_one_of_a_single_processor_does_not() -> None:
    chained = lk.from_config({"allow_tokens": [5], "ban_tokens": [5], "stop_strings": ["zz"]}, vocabulary())
    batch = BatchedRequests("cpu")
    batch.arrange([NewRequest(chained, []), NewRequest(lk.BanTokens([5]), [])])
    # The engine has banned all other tokens.
    logits = torch.full((2, COLUMNS), -torch.inf).index_fill(1, torch.tensor([5]), 0.0)
    found = batch.process_logits(logits)
    assert found[0, EOS] == 0
    assert bool((found[1] == -torch.inf).all())
