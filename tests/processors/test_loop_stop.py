"""`LoopStop` by hand: verdicts, reasoning, chains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

import logitkit as lk
from tests.batches import same_state
from tests.processors.four_logits import AB, LOGITS, NEVER, begun
from tests.processors.four_logits import on_either_path as after
from tests.registry import BOS, EOS, PAD, ids, vocabulary

# Arguments of types that no type checker lets pass.
ANY: Any = lk

A, B, BOTH, END = range(4)
ONLY_END = [NEVER, NEVER, NEVER, 3.0]


@pytest.mark.parametrize(
    ("arguments", "tokens", "loops"),
    [
        ({}, [A, A], False),
        ({}, [A, A, A], True),
        ({}, [B, A, A, A], True),
        # Nothing that follows changes the verdict.
        ({}, [A, A, A, B, B], True),
        ({}, [A, B, A, B, A], False),
        ({}, [A, B, A, B, A, B], True),
        ({}, [A, B, BOTH, A, B, BOTH, A, B], False),
        ({}, [A, B, BOTH] * 3, True),
        ({"count": 2}, [A, B, BOTH] * 2, True),
        ({"count": 4}, [A, A, A], False),
        ({"count": 4}, [A, A, A, A], True),
        # Copies of another block, of which the last one is not complete.
        ({"count": 2}, [A, B, BOTH, A, B], False),
        ({"max_period": 1}, [A, B] * 5, False),
        ({"max_period": 2}, [A, B, BOTH] * 5, False),
        ({"min_period": 2}, [A, A, A], False),
        # Three copies of `aa` are a loop of two tokens too.
        ({"min_period": 2}, [A] * 5, False),
        ({"min_period": 2}, [A] * 6, True),
        ({"min_tokens": 4}, [A, A, A], False),
        ({"min_tokens": 4}, [A, A, A, A], True),
        ({"min_tokens": 4}, [A, A, A, B], False),
        # Gaps do not count.
        ({}, [A, -1, A, -1, -1, A], True),
    ],
    ids=str,
)
def test_by_hand(arguments: dict[str, int], tokens: list[int], loops: bool) -> None:
    processor = lk.LoopStop(AB, **arguments)
    assert after(processor, tokens, LOGITS) == (ONLY_END if loops else LOGITS)
    state = begun(processor, tokens)
    assert processor.fired(state).tolist() == [loops]
    assert processor.is_finished(state).tolist() == [False]


def test_the_prompt_does_not_count() -> None:
    assert after(lk.LoopStop(AB), [A], LOGITS, prompt=[A, A]) == LOGITS


def test_after_eos_only_eos_and_padding_follow() -> None:
    loops, row = lk.LoopStop(vocabulary()), [1.0] * 72
    a = ids(b"a")[0]
    for tokens in ([EOS], [a, a, a, EOS], [EOS, a]):
        assert [i for i, logit in enumerate(after(loops, tokens, row)) if logit == 1] == [EOS, PAD]
    assert [i for i, logit in enumerate(after(loops, [a, a, a], row)) if logit == 1] == [EOS]
    # The EOS of an ended row is not a loop.
    state = begun(loops, [EOS] * 5)
    assert (loops.fired(state).tolist(), loops.is_finished(state).tolist()) == ([False], [True])
    state = begun(loops, [a, a, a, EOS])
    assert (loops.fired(state).tolist(), loops.is_finished(state).tolist()) == ([True], [True])
    finished = loops.finish(begun(loops, [a, a, a]), torch.tensor([True]))
    assert same_state(finished, state)


@pytest.mark.parametrize(("value", "left"), [(NEVER, 0.0), (float("nan"), 0.0), (2.0, 2.0)])
def test_an_eos_that_is_masked_is_at_zero(value: float, left: float) -> None:
    assert after(lk.LoopStop(AB), [A] * 3, [1.0, 2.0, 3.0, value]) == [NEVER, NEVER, NEVER, left]


def test_the_period_is_that_of_the_shortest_block() -> None:
    loops = lk.LoopStop(AB, count=2)
    for tokens, period in (([A, A], 1), ([A, B, A, B], 2), ([A, B], 0), ([A, B, A, B, END], 2), ([A, A, B], 1)):
        assert loops.period(begun(loops, tokens)).tolist() == [period]
    neutral = lk.LoopStop.neutral_state(lk.Context.of([[]], 4))
    assert loops.period(neutral).tolist() == [0]


# Reasoning.


def test_a_loop_in_reasoning_ends_the_reasoning_first() -> None:
    loops = lk.LoopStop(AB, count=2, then="ab")
    forced = [0.5, NEVER, 2.0, NEVER]
    assert after(loops, [B, B], LOGITS) == forced
    # Part of the marker is there already.
    assert after(loops, [A, A], LOGITS) == [NEVER, -1.0, NEVER, NEVER]
    assert loops.is_closing(begun(loops, [B, B])).tolist() == [True]
    assert loops.fired(begun(loops, [B, B])).tolist() == [False]
    # After the marker, the row is watched again: `b` before it does not count.
    assert after(loops, [B, B, A, B], LOGITS) == LOGITS
    assert after(loops, [B, B, BOTH, B], LOGITS) == LOGITS
    assert after(loops, [B, B, BOTH, B, B], LOGITS) == ONLY_END
    assert loops.fired(begun(loops, [B, B, BOTH, B, B])).tolist() == [True]
    # A loop outside of reasoning ends the row, the first one too.
    assert after(loops, [BOTH, B, B], LOGITS) == ONLY_END
    # This processor does not allow EOS during the marker.
    cut = begun(loops, [B, B, END])
    assert (loops.is_dead(cut).tolist(), loops.is_finished(cut).tolist()) == ([True], [True])
    assert after(loops, [B, B, END], LOGITS) == ONLY_END


def test_reasoning_may_be_opened_by_the_prompt_or_the_model() -> None:
    a, b, one = (ids(text)[0] for text in (b"a", b"b", b"1"))
    row = [1.0] * 72
    loops = lk.LoopStop(vocabulary(), count=2, then="<s>", start="1")

    def legal(tokens: list[int], prompt: Sequence[int] = ()) -> list[int]:
        return [i for i, logit in enumerate(after(loops, tokens, row, prompt)) if logit == 1]

    assert legal([a, a]) == [EOS]
    assert legal([a, a], [EOS, one, 71, 99]) == [BOS]
    assert legal([one, a, a]) == [BOS]
    assert legal([one, a, a, BOS, b, b]) == [EOS]
    # A second section: its loop is the second one.
    assert legal([one, a, a, BOS, one, b, b]) == [EOS]
    # A section that was closed before does not count.
    assert legal([one, a, BOS, one, b, b]) == [BOS]
    # A loop that ends with the marker itself is outside.
    assert legal([one, BOS, one, BOS]) == [EOS]
    assert loops.reads_prompt
    assert not lk.LoopStop(AB, then="a").reads_prompt


def test_a_loop_in_a_chain() -> None:
    a, b = ids(b"a")[0], ids(b"b")[0]
    chain = lk.chain(lk.Regex("a{9}", vocabulary()), lk.LoopStop(vocabulary()))
    state = begun_chain(chain, [a, a, a])
    out = chain.process_logits(state, torch.ones(1, 72), lk.Context.of([[]], 72))[1]
    assert out[0].nonzero().flatten().tolist() != [EOS]
    assert out[0, EOS] == 0
    assert out.isneginf().sum() == 71
    assert chain.conflicts(state).tolist() == [False]
    # The marker is not a text of the pattern, so the row is in conflict.
    closing = lk.chain(lk.Regex("a{9}", vocabulary()), lk.LoopStop(vocabulary(), then="b"))
    state = begun_chain(closing, [a, a, a])
    out = closing.process_logits(state, torch.ones(1, 72), lk.Context.of([[]], 72))[1]
    assert (float(out[0, EOS]), float(out[0, b])) == (0, NEVER)
    assert closing.conflicts(state).tolist() == [True]
    # An EOS that is forced as text is not one, and no part of a loop.
    forced = lk.chain(lk.ForcedTokens([a, EOS, a, EOS, a]), lk.LoopStop(vocabulary()))
    assert forced.processors[1].fired(begun_chain(forced, [a, EOS, a, EOS, a])[1]).tolist() == [True]  # type: ignore[attr-defined]


def begun_chain(chain: lk.Chain, tokens: list[int]) -> tuple[Any, ...]:
    return chain.advance(chain.init_state(lk.Context.of([[]], 72)), torch.tensor([tokens]))
