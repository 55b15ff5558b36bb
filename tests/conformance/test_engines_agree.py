"""One model, several engines: with the same processor and the same prompts they write the same tokens.

Where they do not, float32 must be the reason: their own logits differ by rounding, and two tokens may be as good as each other.
Then the whole of both texts is compared, by what each engine makes of the tokens of either.
"""

from __future__ import annotations

from typing import Any

import pytest

import logitkit as lk
from tests.conformance.agreement import assert_greedy, assert_same, assert_whole
from tests.conformance.cases import FEWER, STEPS, processors, prompts
from tests.conformance.engines import ENGINES, Engine, Transformers
from tests.examples import of_all

OTHERS = ENGINES[1:]

COMPARED = 2 if FEWER else 12


@pytest.mark.parametrize("name", of_all(processors(), 2))
def test_greedy_tokens_are_the_same(name: str) -> None:
    processor, texts = processors()[name], prompts(name)[0][:COMPARED]
    assert len(texts) == COMPARED
    # Rows of a batch have random numbers of their own, so those that draw some are compared one by one.
    groups = [[text] for text in texts] if "Xtc" in repr(processor) else [texts]
    wanted = [row for group in groups for row in Transformers().generate(group, processor, STEPS)]
    for tokens in wanted:
        assert_whole(tokens, STEPS)
    for engine in OTHERS:
        found = [row for group in groups for row in engine.generate(group, processor, STEPS)]
        for prompt, a, b in zip(texts, wanted, found, strict=True):
            if a != b:
                explain(prompt, a, b, engine, processor)


def explain(
    prompt: list[int], wanted: list[int], found: list[int], engine: Engine, processor: lk.Processor[Any]
) -> None:
    """Assert that two texts are both greedy, and that the engines' logits along each are the same, to the last token."""
    assert_whole(found, STEPS)
    for tokens in (wanted, found):
        ours, theirs = (e.forced(prompt, tokens, processor) for e in (Transformers(), engine))
        assert_same(ours, theirs)
        assert_greedy(tokens, ours)


@pytest.mark.parametrize("name", of_all(processors(), 2))
def test_masks_and_penalties_along_the_same_tokens_are_the_same(name: str) -> None:
    processor, (texts, _) = processors()[name], prompts(name)
    prompt = texts[0]
    tokens = Transformers().generate([prompt], processor, 12 if FEWER else 24)[0]
    wanted, *found = (engine.forced(prompt, tokens, processor) for engine in ENGINES)
    assert_greedy(tokens, wanted)
    for logits in found:
        assert_same(logits, wanted)
