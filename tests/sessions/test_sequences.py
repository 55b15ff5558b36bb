"""One sequence in each engine: what is fed to it, cut from it, copied and saved of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import mlx.core as mx
import pytest
import torch

from logitkit_adapters.sessions import engine_of
from tests.sessions.engines import COPYING, ENGINES, loaded, watched
from tests.sessions.in_threads import in_threads

IDS = [280, 661, 509, 277, 372, 81, 87, 338, 311, 1086]


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Any:
    return engine_of(*loaded(request.param))


def near(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.allclose(one, other, atol=1e-4, rtol=0)


def test_a_prompt_in_two_parts_gives_the_logits_of_one(engine: Any) -> None:
    whole, parts = engine.new(), engine.new()
    expected = whole.feed(IDS)
    parts.feed(IDS[:4])
    assert near(parts.feed(IDS[4:]), expected)
    assert (parts.length, parts.tokens, parts.positions_fed, parts.forward_passes) == (10, tuple(IDS), 10, 2)


def test_logits_of_all_positions_are_those_of_each(engine: Any) -> None:
    rows = engine.new().feed(IDS, all_positions=True)
    assert rows.shape == (10, engine.vocabulary_size)
    assert near(rows[3], engine.new().feed(IDS[:4]))


def test_after_a_trim_other_tokens_come_out_as_if_the_cut_ones_had_never_been(engine: Any) -> None:
    cut, never = engine.new(), engine.new()
    cut.feed(IDS)
    assert cut.trim(6)
    assert near(cut.feed([5, 6]), never.feed([*IDS[:6], 5, 6]))
    assert cut.tokens == (*IDS[:6], 5, 6)


def test_each_step_in_a_thread_of_its_own(engine: Any) -> None:
    def apart(call: Callable[[], Any]) -> Any:
        return in_threads([call])[0]

    one = apart(engine.new)
    apart(partial(one.feed, IDS))
    saved = apart(one.save)
    other = apart(partial(engine.restore, saved, 6))
    assert near(apart(partial(other.feed, [5, 6])), engine.new().feed([*IDS[:6], 5, 6]))
    assert apart(partial(other.trim, 4))
    again = apart(partial(engine.restore, apart(other.save), 3))
    copied = apart(again.fork)
    assert near(apart(partial(copied.feed, [7])), engine.new().feed([*IDS[:3], 7]))


def test_a_fork_and_its_origin_do_not_affect_each_other(engine: Any) -> None:
    one = engine.new()
    one.feed(IDS)
    other = one.fork()
    first, second = one.feed([5]), other.feed([6])
    assert near(first, engine.new().feed([*IDS, 5]))
    assert near(second, engine.new().feed([*IDS, 6]))
    assert near(one.feed([7]), engine.new().feed([*IDS, 5, 7]))
    # No position was computed twice, unless the cache cannot be copied.
    assert (one.positions_fed, other.positions_fed) == (12, 11 if engine.moves else 1)


@pytest.mark.parametrize("engine", COPYING, indirect=True)
def test_what_was_saved_can_be_gone_on_from_anywhere_and_any_number_of_times(engine: Any) -> None:
    sequence = engine.new()
    sequence.feed(IDS)
    saved = sequence.save()
    sequence.trim(2)
    sequence.feed([9, 9, 9])
    for length in (10, 1, 7, 10):
        again = engine.restore(saved, length)
        assert again.tokens == tuple(IDS[:length])
        assert near(again.feed([5, 6]), engine.new().feed([*IDS[:length], 5, 6]))
        assert again.positions_fed == 2


def test_what_was_saved_later_goes_on_from_what_was_saved_before(engine: Any) -> None:
    saved = None
    for begin in range(0, 10, 2):
        sequence = engine.new() if saved is None else engine.restore(saved, begin)
        sequence.feed(IDS[begin : begin + 2])
        saved = sequence.save()
    assert near(engine.restore(saved, 9).feed(IDS[9:]), engine.new().feed(IDS))


@pytest.mark.parametrize("engine", COPYING, indirect=True)
def test_a_shift_moves_positions_to_the_front(engine: Any) -> None:
    engine.check_shift()
    sequence = engine.new()
    sequence.feed(IDS)
    saved = sequence.save()
    assert sequence.shift(3)
    assert sequence.tokens == tuple(IDS[3:])
    logits = sequence.feed([5])
    fresh = engine.new().feed([*IDS[3:], 5])
    # Of another beginning, and so approximate; but nearer than positions that were left as they are.
    assert 1e-3 < float((logits - fresh).abs().max()) < 5
    assert near(engine.restore(saved, 10).feed([5]), engine.new().feed([*IDS, 5]))


def test_the_positions_that_it_says_it_fed_are_those_that_the_model_saw(engine: Any) -> None:
    model = engine.llama if hasattr(engine, "llama") else engine.model
    with watched(model) as fed:
        sequence = engine.new()
        sequence.feed(IDS)
        sequence.trim(6)
        sequence.feed([5])
    assert sum(fed) == sequence.positions_fed == 11


@pytest.mark.parametrize("engine", COPYING, indirect=True)
def test_a_sequence_is_resumed_without_a_copy_where_that_saves_one(engine: Any) -> None:
    sequence = engine.new()
    sequence.feed(IDS)
    saved = sequence.save()
    resumed = engine.resume(sequence, 6)
    assert (resumed is None) == hasattr(engine, "llama")
    if resumed is not None:
        assert resumed.cache is sequence.cache
        assert near(resumed.feed([5, 6]), engine.new().feed([*IDS[:6], 5, 6]))
        assert (resumed.tokens, resumed.positions_fed, resumed.forward_passes) == ((*IDS[:6], 5, 6), 2, 1)
        # A saved cache is not written to.
        assert near(engine.restore(saved, 10).feed([5]), engine.new().feed([*IDS, 5]))
        assert near(engine.restore(resumed.save(), 7).feed([9]), engine.new().feed([*IDS[:6], 5, 9]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_the_likeliest_token_is_that_of_rounded_log_probabilities(dtype: torch.dtype) -> None:
    engine = engine_of(*loaded("mlx-lm"))
    name = str(dtype).removeprefix("torch.")
    noise = torch.Generator().manual_seed(0)
    others = 0
    for scale in (0.01, 1.0, 8.0, 100.0):
        for apart in (0.0, 1e-7, 1e-3, 0.06, 1.0):
            logits = torch.randn(1280, generator=noise) * scale
            place = int(logits[640:].argmax()) + 640
            logits[place] = logits.max() * 1.1
            logits[place - 640] = logits[place] * (1 - apart)
            logits = logits.to(dtype)
            scores = mx.array(logits.float().numpy()).astype(getattr(mx, name))
            wanted: Any = mx.argmax(scores - mx.logsumexp(scores, keepdims=True)).item()
            others += wanted != int(logits.argmax())
            assert engine.greedy(logits) == wanted
    # The test is about logits that only mlx's own roundings make alike.
    assert others


def test_a_long_conversation_of_mlx_lm_is_put_together_of_few_parts() -> None:
    engine: Any = engine_of(*loaded("mlx-lm"))
    ids = [(i * 37) % 1000 + 5 for i in range(300)]
    saved: Any = None
    for begin in range(0, 264, 8):
        sequence = engine.new() if saved is None else engine.restore(saved, begin)
        sequence.feed(ids[begin : begin + 8])
        saved = sequence.save()
    lengths = [segment.length for segment in saved.segments]
    assert sum(lengths) == 264
    assert all(one >= 2 * other for one, other in pairwise(lengths))
    for length in (1, 100, 255, 256, 257, 264):  # a cache of mlx-lm grows by 256
        assert near(engine.restore(saved, length).feed(ids[length:]), engine.new().feed(ids))
