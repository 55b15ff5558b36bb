"""Rows that a processor of the user's leaves nothing end, or the processor is named; broken logits are an error."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

import logitkit as lk
from logitkit.errors import BrokenLogits, ConfigurationError, ProcessorError
from logitkit_adapters.transformers import logits_processor
from tests.adapters.demo import vocabulary
from tests.adapters.test_broken_processors import FRONT_ENDS, LIMIT, hook_of, ids
from tests.sessions.engines import ENGINES

NEVER, INF, NAN = float("-inf"), float("inf"), float("nan")
EOS = 2
SMALL = lk.Vocabulary([b"a", b"b", b"c", None, None], eos_ids=[3], pad_id=4)

# These know of no EOS: they see ids and logits alone.
UNKNOWING = ("transformers", "mlx-lm")


@dataclass(frozen=True)
class After:
    """Puts a value in the place of all logits from the second new token on."""

    value: float = NEVER
    vocabulary: lk.Vocabulary | None = None

    def init_state(self, context: lk.Context) -> tuple[()]:
        return ()

    def advance(self, state: tuple[()], tokens: Tensor) -> tuple[()]:
        return state

    def process_logits(self, state: tuple[()], logits: Tensor, context: lk.Context) -> tuple[tuple[()], Tensor]:
        late = context.lengths > context.prompt_lengths
        return state, torch.where(late[:, None], self.value, logits)


def function(value: float) -> lk.Stateless:
    return lk.Stateless(lambda logits, context: After(value).process_logits((), logits, context)[1])


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "ContinuousBatchingLogger")


def written(front_end: str, processor: Any) -> list[int]:
    found: list[int] = []
    FRONT_ENDS[front_end](processor, found)
    return found


def check_ends(found: list[int], first: int) -> None:
    # Some give the EOS, and `generate` of llama.cpp does not end with it.
    assert found[0] == first
    assert set(found[1:]) <= {EOS}


@pytest.mark.parametrize("value", [NEVER, NAN])
@pytest.mark.parametrize("front_end", FRONT_ENDS)
def test_a_row_that_is_left_nothing_ends_or_its_processor_is_named(front_end: str, value: float) -> None:
    first = written(front_end, lk.Temperature(1.0))[0]
    unknown = [After(value), function(value), lk.chain(lk.Temperature(2.0), function(value), lk.TopK(3))]
    for processor in unknown:
        if front_end in UNKNOWING:
            with pytest.raises(ProcessorError, match=r"after (After|Stateless) row 0 has no token left"):
                written(front_end, processor)
        else:
            check_ends(written(front_end, processor), first)
    known = [
        After(value, vocabulary()),
        lk.chain(function(value), eos_ids=[EOS]),
        lk.chain(lk.BannedStrings(["zzz"], vocabulary()), After(value), lk.Temperature(2.0)),
    ]
    for processor in known:
        check_ends(written(front_end, processor), first)


BROKEN = (
    [NAN, 1.0, 1.0, 1.0, 2.0],
    [1.0, 1.0, NAN, 1.0, 2.0],
    [1.0, 1.0, INF, 1.0, 2.0],
    [NAN] * 5,
    [INF] * 5,
    [NEVER] * 5,
)


def call_and_go_on(hook: Callable[[list[int], list[float]], list[float]], ids: list[int], logits: list[float]) -> None:
    # A hook of mlx-lm reads nothing, so it notices in the next call.
    assert hook(ids, [*logits]) == [NEVER, NEVER, NEVER, 0.0, NEVER]
    hook([*ids, 3], [0.0] * 5)


@pytest.mark.parametrize("engine", ENGINES)
def test_broken_logits_are_an_error(engine: str) -> None:
    """Whether a processor bans the broken ones or not: the other logits come from the same computation."""
    a_or_b = lk.Regex("[ab]", SMALL)
    processors: list[lk.Processor[Any]] = [
        a_or_b,
        lk.chain(lk.Temperature(1.0), a_or_b, lk.TopK(2)),
        lk.BannedStrings(["c"], SMALL),
        lk.StopStrings(["c"], SMALL),
        lk.chain(),
        *(lk.TopK(2), lk.RepetitionPenalty(2.0), lk.AllowTokens([0, 1])),
    ]
    for processor in processors:
        for logits in BROKEN:
            hook = hook_of(engine, processor)
            with pytest.raises(BrokenLogits, match=r"for row 0 at step 0: ") as caught:
                call_and_go_on(hook, [0], logits)
            assert (caught.value.row, caught.value.step) == (0, 0)
        # A ban of the engine is not an error.
        hook_of(engine, processor)([0], [NEVER, 1.0, NEVER, NEVER, NEVER])


@pytest.mark.parametrize("engine", ENGINES)
def test_the_step_of_broken_logits_counts_from_the_prompt(engine: str) -> None:
    for processor in (lk.Regex("[ab]+", SMALL), lk.chain(lk.Regex("[ab]+", SMALL), lk.TopK(2))):
        hook = hook_of(engine, processor)
        for length in (1, 2, 3):
            hook([0] * length, [1.0] * 5)
        with pytest.raises(BrokenLogits, match=r"for row 0 at step 3: "):
            call_and_go_on(hook, [0] * 4, [NAN] * 5)


@pytest.mark.parametrize(
    "processor",
    [lk.Regex("a", SMALL), lk.chain(lk.Temperature(2.0)), function(0.0)],
    ids=lambda one: type(one).__name__,
)
def test_logits_that_require_a_gradient_are_refused(processor: Any) -> None:
    scores = torch.zeros(1, 5, requires_grad=True)
    for given in (scores, scores * 2):
        with pytest.raises(ConfigurationError, match=r"require a gradient.*under torch.no_grad\(\)"):
            logits_processor(processor)(torch.tensor([[0]]), given)
        with torch.no_grad():
            assert not logits_processor(processor)(torch.tensor([[0]]), given).requires_grad
        assert not logits_processor(processor)(torch.tensor([[0]]), given.detach()).requires_grad
    assert torch.equal(scores, torch.zeros(1, 5))


def test_a_hook_of_mlx_lm_that_meets_other_tokens_after_broken_logits_raises_too() -> None:
    import mlx.core as mx

    from logitkit_adapters.mlx_lm import logits_processor as hook_of_mlx_lm

    hook = hook_of_mlx_lm(lk.Regex("[ab]+", SMALL))
    hook(mx.array([0, 1]), mx.array([[NAN] * 5]))
    assert hook.broken is not None
    assert hook.broken.tolist() == [True]
    with pytest.raises(BrokenLogits):
        hook(mx.array([0, 1, 2, 2]), mx.array([[1.0] * 5]))
    hook = hook_of_mlx_lm(lk.Regex("[ab]+", SMALL))
    hook(mx.array([0, 1]), mx.array([[NAN] * 5]))
    hook.new_generation()
    assert hook(mx.array([1, 1]), mx.array([[1.0] * 5])).tolist() == [[1, 1, NEVER, NEVER, NEVER]]


def test_beams_end_too() -> None:
    from tests.adapters.demo import model

    hook = logits_processor(lk.chain(After(), eos_ids=[EOS]))
    found = model().generate(
        torch.tensor([ids()]), num_beams=3, num_return_sequences=3, max_new_tokens=LIMIT, logits_processor=[hook]
    )
    assert set(found[:, len(ids()) + 1].tolist()) == {EOS}
