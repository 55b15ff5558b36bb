"""`LoopStop` beside vLLM's own detection of repetitions: the same verdicts, and rows of vLLM that it ends."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

import logitkit as lk
from tests.adapters_vllm import engine
from tests.examples import examples

VOCABULARY = lk.Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_ids=[256])
PROMPT = "The price of"


def drawn(chance: random.Random) -> list[int]:
    """Return tokens of which many repeat: of a small alphabet, with blocks that come again, some of them almost."""
    letters = chance.choice(([1], [1, 2], [1, 2, 3], [*range(1, 9)]))
    text: list[int] = []
    while len(text) < 60:
        block = chance.choices(letters, k=chance.randint(1, 7))
        for _ in range(chance.randint(1, 5)):
            text += block[: chance.choice((len(block), len(block), chance.randint(0, len(block))))]
    return text


@pytest.mark.parametrize("seed", range(examples(100)))
def test_the_verdicts_are_those_of_vllm(seed: int) -> None:
    """After each token, for a row that goes on whatever the verdict was before."""
    from vllm.sampling_params import RepetitionDetectionParams
    from vllm.v1.core.sched.utils import check_sequence_repetition

    chance = random.Random(seed)
    least, count = chance.choice((0, 1, 2, 3)), chance.randint(2, 4)
    most = chance.randint(max(least, 1), 8)
    theirs = RepetitionDetectionParams(max_pattern_size=most, min_pattern_size=least, min_count=count)
    text, min_tokens = drawn(chance), chance.choice((0, 0, 20))
    ours = lk.LoopStop(VOCABULARY, count, max_period=most, min_period=max(least, 1), min_tokens=min_tokens)
    state = ours.init_state(lk.Context.of([[1, 1, 1]], 257))
    ended = False
    for end in range(1, len(text) + 1):
        # vLLM asks only from its own `min_tokens` on, and ends the row at the first verdict.
        ended |= end >= min_tokens and check_sequence_repetition(text[:end], theirs)
        state = ours.advance(state, torch.tensor(text[end - 1 : end]))
        assert ours.fired(state).tolist() == [ended], (text[:end], theirs)
    at_once = ours.advance(ours.init_state(lk.Context.of([[]], 257)), torch.tensor([text]))
    assert ours.fired(at_once).tolist() == [ended]


@pytest.mark.parametrize("given", ["configuration", "processor"])
def test_a_row_that_loops_ends(llm: Any, given: str) -> None:
    from logitkit_adapters.vllm import Session
    from tests.adapters.demo import vocabulary

    v = vocabulary()
    a = v.tokens.index(b"a")
    stuck: Any = lk.chain(lk.LogitBias({a: 1000.0}), lk.LoopStop(v, count=4))
    session = Session(llm)
    (row,) = session.generate(
        PROMPT, max_new_tokens=20, processor=stuck if given == "processor" else lk.to_config(stuck)
    ).rows
    assert (row.token_ids, row.finished) == ([a] * 4 + [*v.eos_ids], "loop")


def test_vllm_ends_the_same_text_one_token_earlier(llm: Any) -> None:
    """Its own detection does not write EOS."""
    from vllm.sampling_params import RepetitionDetectionParams

    from tests.adapters.demo import vocabulary

    a = vocabulary().tokens.index(b"a")
    biased = {"max_tokens": 20, "temperature": 0.0, "logit_bias": {a: 100.0}}
    own = {"repetition_detection": RepetitionDetectionParams(max_pattern_size=64, min_count=4)}
    config = {"extra_args": {"logitkit": {"loop_stop": 4}}}
    theirs, ours = engine.answers(llm, [(PROMPT, {**biased, **own}), (PROMPT, {**biased, **config})])
    assert list(theirs.outputs[0].token_ids) == [a] * 4
    assert theirs.outputs[0].finish_reason == "repetition"
    assert list(ours.outputs[0].token_ids)[:4] == [a] * 4
    assert (len(ours.outputs[0].token_ids), ours.outputs[0].finish_reason) == (5, "stop")
