"""One model, several engines: with the same processor and the same prompts they write the same tokens.

Where they do not, float32 must be the reason: their own logits differ by rounding, and two tokens may be as good as each other.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

import logitkit as lk
from tests.conformance.cases import PROMPTS, STEPS, processors, prompts
from tests.conformance.engines import ENGINES, Engine, LlamaCpp, MlxLm, Transformers

OTHERS: list[Engine] = [MlxLm(), LlamaCpp()]

# How far apart the engines' own float32 logits of one text are.
NEAR = 2e-3


@pytest.mark.parametrize("name", processors())
def test_greedy_tokens_are_the_same(name: str) -> None:
    processor, (texts, _) = processors()[name], prompts(name)
    assert len(texts) == PROMPTS
    # Rows of a batch have random numbers of their own, so those that draw some are compared one by one.
    groups = [[text] for text in texts] if "Xtc" in repr(processor) else [texts]
    wanted = [row for group in groups for row in Transformers().generate(group, processor, STEPS)]
    for engine in OTHERS:
        found = [row for group in groups for row in engine.generate(group, processor, STEPS)]
        for prompt, a, b in zip(texts, wanted, found, strict=True):
            if a != b:
                explain(prompt, b, engine, processor)


def explain(prompt: list[int], found: list[int], engine: Engine, processor: lk.Processor[Any]) -> None:
    """Assert that the first other token is one of two that float32 cannot tell apart, in logits that are the same otherwise."""
    # A batch is another sum, of pads too: alone, the row may be the same.
    wanted = Transformers().generate([prompt], processor, STEPS)[0]
    if wanted == found:
        return
    step = next(i for i, (a, b) in enumerate(zip(wanted, found, strict=False)) if a != b)
    ours, theirs = (e.forced(prompt, wanted[: step + 1], processor) for e in (Transformers(), engine))
    assert torch.equal(ours == -torch.inf, theirs == -torch.inf)
    torch.testing.assert_close(ours, theirs, rtol=NEAR, atol=NEAR)
    assert (ours[-1, wanted[step]] - ours[-1, found[step]]).abs() < NEAR


@pytest.mark.parametrize("name", processors())
def test_masks_and_penalties_along_the_same_tokens_are_the_same(name: str) -> None:
    processor, (texts, _) = processors()[name], prompts(name)
    prompt = texts[0]
    tokens = Transformers().generate([prompt], processor, 24)[0]
    wanted, *found = (engine.forced(prompt, tokens, processor) for engine in ENGINES)
    for logits in found:
        assert torch.equal(logits == -torch.inf, wanted == -torch.inf)
        torch.testing.assert_close(logits, wanted, rtol=NEAR, atol=NEAR)


@pytest.mark.parametrize("name", processors())
def test_the_models_own_text_would_leave_a_language_at_once(name: str) -> None:
    """So that the comparison is of what the processor makes, and not of what the model would say anyway."""
    strict = ("Regex", "Choice", "Dfa", "ForcedPrefix", "AllowTokens", "record", "list", "healed")
    _, leaving = prompts(name)
    if name.startswith(strict) and name not in ("Regex line", "Dfa"):
        assert leaving == PROMPTS
