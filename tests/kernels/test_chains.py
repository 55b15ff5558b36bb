"""Processors that share passes over the logits give the same bits as one by one, in fewer launches."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import logitkit as lk
from logitkit.batching.batch import BatchedRequests
from logitkit.batching.entering import NewRequest
from logitkit.composition import EngineLogits
from logitkit.errors import BatchMismatch, BrokenLogits
from logitkit.kernels.kernel import Kernel
from logitkit.runtime.shared_passes import run_ends
from tests.batches import COLUMNS, tensor_path
from tests.kernels.interpreter import kernels
from tests.kernels.test_truncations import DTYPES, alike, drawn
from tests.kernels.walks import in_memory
from tests.registry import EOS, vocabulary

LEAST = st.sampled_from((1, 1, 3, 50))
# Those with which tensor operations agree bit by bit; see `test_truncations`.
EXACT = st.one_of(
    st.builds(lk.TopK, st.sampled_from((0, 1, 2, 5, 40, 400)), LEAST),
    st.builds(lk.MinP, st.sampled_from((0.0, 1e-60, 0.01, 0.3, 1.0))),
    st.builds(lk.TopA, st.sampled_from((0.0, 0.01, 0.3, 1.0))),
    st.builds(lk.Temperature, st.sampled_from((0, 1, 1e-4, 0.3, 2, 1e4))),
)
ANY = st.one_of(
    EXACT,
    st.builds(lk.TopP, st.sampled_from((0.0, 0.1, 0.5, 0.9, 1.0)), LEAST),
    st.builds(lk.TypicalP, st.sampled_from((1e-6, 0.1, 0.5, 0.9, 1.0)), LEAST),
)
LISTS = st.one_of(
    st.builds(lk.LogitBias, st.dictionaries(st.integers(0, 200), st.sampled_from((-4.3, 0.5, 2.7)), max_size=30)),
    st.builds(lk.BanTokens, st.lists(st.integers(0, 200), max_size=30)),
    st.builds(lk.RepetitionPenalty, st.sampled_from((1.0, 0.5, 1.3, 20.0)), st.sampled_from((None, None, 3))),
    st.builds(lk.FrequencyPenalty, st.sampled_from((-1.0, 0.0, 0.3, 7.0)), include_prompt=st.just(True)),
    st.builds(lk.PresencePenalty, st.sampled_from((-1.0, 0.0, 0.3)), include_prompt=st.just(True)),
)
SIZES = st.tuples(st.sampled_from((1, 2, 5)), st.sampled_from((1, 2, 31, 64, 150)))


def one_by_one(processors: Sequence[Any], state: Any, logits: Tensor, context: lk.Context) -> Tensor:
    for processor, own in zip(processors, state, strict=True):
        logits = processor.process_logits(own, logits, context)[1]
    return logits


def neutral_of(processor: Any) -> Any:
    """Return a processor of a kind that changes nothing, without a window."""
    arguments = {name: given for name, given in type(processor).kind.neutral.items() if name != "window"}
    return type(processor)(**arguments)


def drawn_context(chance: random.Random, rows: int, columns: int) -> lk.Context:
    """Return rows with prompts of few tokens or many, of which some are not columns, and room that grows or not."""
    many = chance.choice((3, 2 * columns))
    prompts = [[chance.randrange(many) for _ in range(chance.choice((0, 3, 90)))] for _ in range(rows)]
    return lk.Context.of(prompts, columns, max_length=chance.choice((None, 120)))


@given(
    st.lists(st.one_of(ANY, LISTS), min_size=2, max_size=6),
    SIZES,
    st.sampled_from(DTYPES),
    st.randoms(use_true_random=False),
)
def test_shared_passes_give_the_same_bits(
    processors: list[Any], shape: tuple[int, int], dtype: torch.dtype, chance: random.Random
) -> None:
    """In any order, with rows that one processor changes and another leaves, and with ties, NaN and infinities."""
    rows, columns = shape
    logits, context = drawn(chance, shape, dtype), drawn_context(chance, rows, columns)
    # Bans may come after truncations here, which a chain refuses.
    chain = lk.Chain(tuple(processors))
    # Rows with other parameters: a neutral step changes none of them.
    neutral = lk.Chain(tuple(map(neutral_of, processors)))
    state = chain.init_state(context)
    if rows > 1:
        one = neutral.init_state(lk.Context.of([[]], columns))
        state = lk.select(lk.concatenate([state, one]), torch.tensor([rows, *range(rows - 1)]))
    layout, around = chance.randrange(3), (16, chance.choice((1, 2)), 64, chance.choice((1, 6, 24)))
    with kernels(*around) as alone:
        wanted = one_by_one(processors, state, in_memory(logits, layout), context)
    with kernels(*around) as together:
        found = chain.process_logits(state, in_memory(logits, layout), context)[1]
    assert alike(wanted, found), (logits, wanted, found)
    assert together.total() <= alone.total()


@given(
    st.lists(st.one_of(EXACT, LISTS), min_size=2, max_size=4),
    SIZES,
    st.sampled_from(DTYPES),
    st.randoms(use_true_random=False),
)
def test_tensor_operations_agree(
    processors: list[Any], shape: tuple[int, int], dtype: torch.dtype, chance: random.Random
) -> None:
    logits, context = drawn(chance, shape, dtype), drawn_context(chance, *shape)
    chain = lk.Chain(tuple(processors))
    state = chain.init_state(context)
    with tensor_path():
        wanted = chain.process_logits(state, logits.clone(), context)[1]
    with kernels(strip=16):
        found = chain.process_logits(state, logits.clone(), context)[1]
    assert alike(wanted, found), (logits, wanted, found)


SAMPLING = (lk.Temperature(0.7), lk.TopK(5), lk.TopP(0.9), lk.MinP(0.05))
PENALTIES = (lk.LogitBias({3: 1.0}), lk.RepetitionPenalty(1.1), lk.FrequencyPenalty(0.2), lk.PresencePenalty(0.2))
REGEX = lk.Regex("[a-c]*", vocabulary())


@pytest.mark.parametrize(
    ("processors", "dtype", "alone", "together"),
    [
        ((lk.Temperature(0.7), lk.TopP(0.9)), torch.float32, 8, 6),
        ((lk.Temperature(0.7), lk.TopK(5)), torch.float32, 7, 5),
        ((lk.Temperature(0.7), lk.MinP(0.05)), torch.float32, 5, 3),
        ((lk.Temperature(0.7), lk.TypicalP(0.9)), torch.float32, 9, 7),
        ((lk.Temperature(0.7), lk.TopK(5), lk.TopP(0.9)), torch.float32, 13, 9),
        ((lk.Temperature(0.7), lk.TopK(5), lk.TopP(0.9)), torch.bfloat16, 11, 7),
        (SAMPLING, torch.float32, 16, 10),
        ((REGEX, lk.RepetitionPenalty(1.1), *SAMPLING), torch.float32, 18, 11),
        ((lk.RepetitionPenalty(1.1), REGEX, *SAMPLING), torch.float32, 18, 12),
        ((*PENALTIES, lk.Temperature(0.7), lk.TopP(0.9)), torch.float32, 12, 6),
        ((*PENALTIES, REGEX), torch.float32, 5, 2),
        # More lists than a launch has room for.
        ((*PENALTIES, *PENALTIES), torch.float32, 8, 2),
        ((*PENALTIES, *PENALTIES, lk.PresencePenalty(0.2, window=9)), torch.float32, 9, 3),
        # The order of vLLM, and that of llama.cpp.
        ((lk.Temperature(0.7), lk.MinP(0.05), lk.TopK(5), lk.TopP(0.9)), torch.float32, 16, 10),
        ((lk.TopK(5), lk.TypicalP(0.9), lk.TopP(0.9), lk.MinP(0.05), lk.Temperature(0.7)), torch.float32, 23, 18),
    ],
    ids=str,
)
def test_the_launches_of_typical_chains_are_those_in_the_documentation(
    processors: tuple[Any, ...], dtype: torch.dtype, alone: int, together: int
) -> None:
    context = lk.Context.of([[28], [29]], COLUMNS, max_length=20)
    chain = lk.chain(*processors)
    state = chain.init_state(context)
    with kernels() as started:
        one_by_one(processors, state, torch.zeros(2, COLUMNS, dtype=dtype), context)
    assert started.total() == alone
    with kernels() as started:
        chain.process_logits(state, torch.zeros(2, COLUMNS, dtype=dtype), context)
    assert started.total() == together


@pytest.mark.parametrize("refused", range(8))
def test_where_a_launch_is_refused_the_other_processors_go_on(refused: int) -> None:
    """Those before it are done, and it is done by tensor operations: each exactly once."""
    # Temperatures twice would show.
    many = lk.PresencePenalty(0.5, include_prompt=True), lk.Temperature(0.5), lk.TopK(9), lk.MinP(0.2), lk.TopA(0.3)
    chain = lk.chain(*many, lk.RepetitionPenalty(1.5))
    context = lk.Context.of([[3, 4, 5]] * 3, 40)
    state, logits = chain.init_state(context), torch.randn(3, 40, generator=torch.Generator().manual_seed(refused))
    with tensor_path():
        wanted = chain.process_logits(state, logits.clone(), context)[1]
    numbers = itertools.count()
    broken: set[tuple[Any, ...]] = set()

    def launched(self: Kernel, *arguments: Any, **options: Any) -> bool:
        """As a kernel that cannot be compiled: never again."""
        variant = (self.name, arguments[4])
        if next(numbers) == refused:
            broken.add(variant)
        return variant not in broken and launch(self, *arguments, **options)

    with kernels():
        launch = Kernel.launch
        with mock.patch.object(Kernel, "launch", launched):
            found = chain.process_logits(state, logits.clone(), context)[1]
    assert broken
    assert alike(wanted, found)


def test_the_first_launch_is_refused_to_all() -> None:
    chain, context = lk.chain(*SAMPLING), lk.Context.of([[]], 40)
    state, logits = chain.init_state(context), torch.randn(1, 40)
    with tensor_path():
        wanted = chain.process_logits(state, logits.clone(), context)[1]
    with kernels(), mock.patch.object(Kernel, "launch", return_value=False):
        assert alike(chain.process_logits(state, logits.clone(), context)[1], wanted)


@dataclass(frozen=True)
class OwnTopK(lk.TopK):
    """Processes logits in a way of its own."""

    def process_logits(self, state: Any, logits: Tensor, context: lk.Context) -> tuple[Any, Tensor]:
        return state, logits + 1


def test_which_processors_share_passes() -> None:
    own, one, two = OwnTopK(3), lk.TopK(3), lk.TopP(0.5)
    assert run_ends([one, two, own, one, REGEX, two, two]) == (2, 2, 3, 4, 5, 7, 7)
    assert run_ends([lk.Xtc(0.5, 0.1), lk.BanTokens([1]), one, lk.NoRepeatNGram(3)]) == (1, 3, 3, 4)
    assert run_ends([one, two, one], last=1) == (2, 2, 3)
    assert run_ends([]) == ()


def test_processors_of_your_own_see_what_comes_before_them() -> None:
    seen = []

    def look(logits: Tensor, context: lk.Context) -> Tensor:
        seen.append(logits.clone())
        return logits

    chain = lk.chain(lk.Temperature(0.5), lk.TopK(2), lk.Stateless(look), lk.MinP(0.9), OwnTopK(3))
    context = lk.Context.of([[]], 4)
    with kernels():
        found = chain.process_logits(chain.init_state(context), torch.tensor([[1.0, 2.0, 3.0, 0.0]]), context)[1]
    assert [one.tolist() for one in seen] == [[[-torch.inf, 4, 6, -torch.inf]]]
    assert found.tolist() == [[-torch.inf, -torch.inf, 7, -torch.inf]]


def test_one_without_a_kernel_ends_a_run() -> None:
    """To keep three tokens at least takes a sort, after which the best score is unknown."""
    chain = lk.chain(lk.Temperature(0.5), lk.TopK(4), lk.MinP(1.0, 3), lk.TopA(1.0))
    context = lk.Context.of([[]], 6)
    logits = torch.tensor([[1.0, 2.0, 3.0, 0.0, 0.5, 1.5]])
    with kernels() as started:
        found = chain.process_logits(chain.init_state(context), logits, context)[1]
    launches = {"best_kernel": 2, "temperature_kernel": 1, "digit_kernel": 2, "cut_kernel": 1, "sum_kernel": 1}
    assert started == launches | {"share_kernel": 1}
    assert found.isfinite().nonzero().tolist() == [[0, 2]]


def test_logits_in_64_bits_and_states_of_other_sizes() -> None:
    chain, context = lk.chain(*SAMPLING), lk.Context.of([[]] * 2, 9)
    state = chain.init_state(context)
    wide = torch.randn(2, 9, dtype=torch.float64)
    with tensor_path():
        wanted = chain.process_logits(state, wide.clone(), context)[1]
    with kernels() as started:
        assert alike(chain.process_logits(state, wide.clone(), context)[1], wanted)
        with pytest.raises(BatchMismatch, match="Temperature got 3 rows of logits for a state of 2 rows"):
            chain.process_logits(state, torch.zeros(3, 9), context)
    assert not started


def test_rows_that_share_memory_are_copied() -> None:
    chain, context = lk.chain(lk.Temperature(0.5), lk.TopK(2)), lk.Context.of([[]] * 2, 3)
    one = torch.tensor([[1.0, 2.0, 3.0]])
    with kernels():
        found = chain.process_logits(chain.init_state(context), one.expand(2, 3), context)[1]
    assert found.tolist() == [[-torch.inf, 4, 6]] * 2
    assert one.tolist() == [[1, 2, 3]]


def test_an_engine_keeps_its_logits_and_hears_of_broken_ones() -> None:
    chain, context = lk.chain(REGEX, *SAMPLING), lk.Context.of([[], []], COLUMNS)
    logits = torch.zeros(2, COLUMNS)
    logits[1, 3] = torch.nan
    hook, given = EngineLogits(chain), logits.clone()
    with kernels() as started:
        found = hook(chain.init_state(context), logits, context, [EOS], overwrite=False)
        with pytest.raises(BrokenLogits):
            hook.raise_broken()
    assert started["best_kernel"] == 1
    assert alike(logits, given)
    assert (found[1] > -torch.inf).nonzero().flatten().tolist() == [EOS]


def test_a_batch_of_requests_shares_passes_too() -> None:
    """Each request has its own parameters, or lacks a step."""
    requests = [
        NewRequest(lk.chain(REGEX, lk.Temperature(0.5), lk.TopK(5), lk.TopP(0.9)), prompt=[28]),
        NewRequest(lk.chain(lk.RepetitionPenalty(2.0), lk.TopK(3), lk.MinP(0.2)), prompt=[28, 29]),
        None,
        NewRequest(lk.Temperature(0), prompt=[]),
    ]
    logits = torch.randn(4, COLUMNS, generator=torch.Generator().manual_seed(0))
    batch = BatchedRequests("cpu", [EOS], COLUMNS)
    batch.arrange(requests)
    with kernels(), mock.patch("logitkit.batching.step_states.shares_passes", return_value=False):
        wanted = batch.process_logits(logits.clone())
    with kernels() as started:
        found = batch.process_logits(logits.clone())
    assert started["best_kernel"] == 1
    assert alike(wanted, found)
    assert found[2].equal(logits[2])
