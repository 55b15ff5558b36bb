"""Penalties, biases and bans by kernels change logits, and remember tokens, as tensor operations do, bit for bit."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import logitkit as lk
from logitkit.kernels.listed_step import MOST
from logitkit.kernels.repeat_step import dry_step, ngram_step
from logitkit.penalties.token_counts import TokenCounts
from logitkit.penalties.token_history import UNBOUNDED
from logitkit.protocol import leaves
from logitkit.protocol.state import map_tensors
from logitkit.runtime.host_logits import HostAndDevice
from tests import continue_saved
from tests.batches import run, same_state, tensor_path
from tests.kernels.interpreter import kernels
from tests.kernels.test_truncations import DTYPES, alike
from tests.kernels.walks import given_logits, in_memory, same
from tests.registry import ROWS, Row

COLUMNS, STEPS = 40, 10
WINDOWS = st.sampled_from((None, None, 1, 3, 20))
KINDS: dict[str, Any] = {
    "repetition": lambda c, **at: lk.RepetitionPenalty(c.choice((1.0, 0.5, 1.3, 20.0)), **at),
    "frequency": lambda c, **at: lk.FrequencyPenalty(c.choice((-1.0, 0.0, 0.3, 7.0)), **at),
    "presence": lambda c, **at: lk.PresencePenalty(c.choice((-1.0, 0.0, 0.3)), **at),
    "ngram": lambda c, **at: lk.NoRepeatNGram(c.choice([n for n in (0, 1, 2, 3, 5) if n <= (at["window"] or n)]), **at),
    "dry": lambda c, **at: lk.Dry(
        c.choice((0.0, 0.8, 3.0)),
        base=c.choice((1.0, 1.75, 4.0)),
        allowed_length=c.choice((0, 1, 2, 4)),
        breakers=c.choice(((), (1,), (0, 2, 9))),
        **at,
    ),
    "bias": lambda c, **at: lk.LogitBias(
        {i: c.choice((-4.3, 0.5, 2.7)) for i in range(0, COLUMNS, c.choice((1, 3, 7)))}
    ),
    "ban": lambda c, **at: lk.BanTokens(range(0, 2 * COLUMNS, c.choice((1, 3, 7)))),
}
# Sums that kernels round in another way have tests of their own.
OF_REGISTRY = [
    row
    for row in ROWS
    if isinstance(row.processor, HostAndDevice) and not isinstance(row.processor, lk.TopP | lk.TypicalP)
]


@pytest.mark.parametrize("row", OF_REGISTRY, ids=str)
def test_each_processor_of_the_registry(row: Row) -> None:
    batch = continue_saved.batch(row, 0, DTYPES[OF_REGISTRY.index(row) % 3])
    with tensor_path():
        wanted = run(row.processor, batch)
    with kernels():
        found = run(row.processor, batch)
    assert same_state(wanted.state, found.state)
    assert all(map(alike, wanted.logits, found.logits))


@given(
    st.sampled_from(sorted(KINDS)), WINDOWS, st.booleans(), st.sampled_from(DTYPES), st.randoms(use_true_random=False)
)
def test_random_texts(kind: str, window: int | None, prompt: bool, dtype: torch.dtype, chance: random.Random) -> None:
    """Rows of two processors of a kind, whose texts repeat few tokens, with room that grows or not."""
    rows, few = chance.choice((2, 5)), chance.choice((2, 4, COLUMNS))
    prompts = [[chance.randrange(few) for _ in range(chance.choice((0, 1, 9)))] for _ in range(rows)]
    tokens = torch.tensor(
        [[chance.choice((-1, *[chance.randrange(few) for _ in range(4)])) for _ in range(STEPS)] for _ in range(rows)]
    )
    one, two = (KINDS[kind](chance, window=window, include_prompt=prompt) for _ in range(2))
    contexts = [lk.Context.of(part, COLUMNS, max_length=64) for part in (prompts[:1], prompts[1:])]
    with tensor_path():
        wanted: Any = lk.concatenate([p.init_state(c) for p, c in zip((one, two), contexts, strict=True)])
    with kernels():
        found: Any = lk.concatenate([p.init_state(c) for p, c in zip((one, two), contexts, strict=True)])
    whole = lk.Context.of(prompts, COLUMNS, max_length=64)
    for step in range(STEPS):
        logits = given_logits(chance, (rows, COLUMNS), dtype, torch.device("cpu"))
        with tensor_path():
            wanted = one.advance(wanted, tokens[:, step])
            expected = one.process_logits(wanted, logits.clone(), whole)[1]
        before = [leaf.clone() for leaf in leaves(found)]
        with kernels() as started:
            after = one.advance(found, tokens[:, step])
            assert all(map(same, leaves(found), before))
            found = after
            given_ = one.process_logits(found, in_memory(logits, chance.randrange(3)), whole)[1]
        assert started
        assert all(map(same, leaves(wanted), leaves(found)))
        assert alike(expected, given_)


def test_a_window_that_is_too_long_for_a_program() -> None:
    penalty = lk.FrequencyPenalty(0.5, window=2 * MOST)
    context = lk.Context.of([[1, 1, 2]], COLUMNS, max_length=MOST + 10)
    with kernels() as started:
        state = penalty.advance(penalty.init_state(context), torch.tensor([[3] * (MOST + 1)]))
        found = penalty.process_logits(state, torch.zeros(1, COLUMNS), context)[1]
    assert "listed_kernel" not in started
    assert found[0, 3] == -0.5 * (MOST + 1)


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("window", [None, 3])
def test_logits_in_64_bits(kind: str, window: int | None) -> None:
    """Kernels change numbers of up to 32 bits; tensor operations change others."""
    processor = KINDS[kind](random.Random(5), window=window, include_prompt=True)
    context = lk.Context.of([[1, 2, 2, 1], []], COLUMNS)
    logits = torch.randn(2, COLUMNS, dtype=torch.float64)
    with tensor_path():
        wanted = processor.process_logits(processor.init_state(context), logits.clone(), context)[1]
    with kernels():
        found = processor.process_logits(processor.init_state(context), logits.clone(), context)[1]
    assert alike(wanted, found)


OTHERS = (lk.TopK(3), lk.TopP(0.5, 2), lk.TypicalP(0.5), lk.MinP(0.3), lk.TopA(0.3), lk.Temperature(0.5))


@pytest.mark.parametrize(
    "tokens", [torch.tensor([1, 2, 5]), torch.tensor([[1, 7], [2, 7], [5, 7]], dtype=torch.int32)[:, 0]]
)
@pytest.mark.parametrize(
    "processor",
    [KINDS[kind](random.Random(4), window=w, include_prompt=True) for kind in KINDS for w in (None, 3)] + [*OTHERS],
)
def test_rows_that_do_not_lie_next_to_each_other(processor: Any, tokens: Tensor) -> None:
    """Every second row of a state, which a caller may make by slices."""
    context = lk.Context.of([[1, 2, 2], [9], [1, 3, 1], [], [7, 7], [1]], COLUMNS)
    apart = map_tensors(processor.init_state(context), lambda t: t[::2])
    few, logits = lk.Context.of([[1, 2, 2], [1, 3, 1], [7, 7]], COLUMNS), torch.randn(3, COLUMNS)
    found: list[tuple[Any, Tensor]] = []
    for path, state in ((tensor_path(), map_tensors(apart, Tensor.contiguous)), (kernels(), apart)):
        with path:
            after = processor.advance(state, tokens)
            found.append((after, processor.process_logits(state, logits.clone(), few)[1]))
    (wanted, expected), (after, changed) = found
    assert all(map(same, leaves(wanted), leaves(after)))
    assert alike(expected, changed)


def test_a_text_longer_than_the_room_of_its_row() -> None:
    """It exceeds `Context.max_length`. Tokens that do not fit are forgotten, and the row reads nothing of the next one."""
    states = []
    for path in (tensor_path(), kernels()):
        with path:
            state = TokenCounts.of(lk.Context.of([[]], COLUMNS, max_length=2), torch.zeros(1, 0), True, True)
            for token in (7, 3, 5, 5, 1):
                state = state.add(torch.tensor([token]))
            states.append(state)
    assert all(map(same, *map(leaves, states)))
    assert states[0].problem() is None
    kept, length = torch.tensor([[1, 2, 3, 4], [9, 8, 7, 6]], dtype=torch.int32), torch.tensor([6, 4])
    unbounded, one, logits = torch.full((2,), UNBOUNDED), torch.tensor([1, 0]), torch.zeros(2, 10)
    with kernels():
        ngram_step(kept, length, unbounded, one, logits)
        none = torch.zeros(2, 0, dtype=torch.int32)
        dry_step(kept, length, unbounded, none, torch.tensor([[1.0], [0.0]]), torch.tensor([0, 0]), logits)
    assert logits[0].isneginf().nonzero().flatten().tolist() == [1, 2, 3, 4]
    assert not logits[0, 5:].any()
    assert not logits[1].any()


@pytest.mark.parametrize("refused", [0, 1])
def test_a_kernel_that_is_refused_changes_nothing_twice(refused: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch with rows of a window and rows that count all tokens takes two launches."""
    from logitkit.kernels import listed_step as module

    states, context = [], lk.Context.of([[1, 2, 2]], COLUMNS)
    for window in (None, 2):
        penalty = lk.FrequencyPenalty(0.5, window=window, include_prompt=True)
        states.append(penalty.init_state(context))
    state: Any = lk.concatenate(states)
    both = lk.Context.of([[1, 2, 2]] * 2, COLUMNS)
    launches: list[int] = []
    whole = module.listed_step

    def listed_step(*arguments: Any, **options: Any) -> bool:
        launches.append(1)
        return len(launches) - 1 != refused and whole(*arguments, **options)

    with tensor_path():
        wanted = penalty.process_logits(state, torch.zeros(2, COLUMNS), both)[1]
    monkeypatch.setattr(module, "listed_step", listed_step)
    with kernels():
        found = penalty.process_logits(state, torch.zeros(2, COLUMNS), both)[1]
    assert len(launches) == 2
    assert alike(wanted, found)
