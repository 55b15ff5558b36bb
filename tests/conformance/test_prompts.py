"""The model alone would leave each language on these prompts, so that the comparison is about the processors."""

from __future__ import annotations

import pytest
import torch

import logitkit as lk
from logitkit import Role
from tests.conformance.cases import PROMPTS, processors, prompts
from tests.conformance.engines import Transformers

# Constraints that forbid a few tokens in few places, so that hardly any text leaves them with its first token.
LOOSE = (
    *("NoRepeatNGram", "EncoderNoRepeatNGram", "BannedStrings", "StopStrings", "ThinkingBudget", "LoopStop"),
    *("MinLength", "SuppressAtBegin"),
    *("BanTokens of none", "MinNewTokens of none"),
    *(
        "ForcedTokens of none",
        "ForcedEos",
        "chain with truncations",
        "language calls",
        "StructuralTag calls",
        "ToolsConstraint auto",
        "ToolsConstraint order",
    ),
)
STRICT = ("ThinkingBudget of none", "ForcedEos of one token")


def constraints() -> list[str]:
    """Names of all constraints, and of chains with one."""

    def constrains(processor: object) -> bool:
        parts = processor.processors if isinstance(processor, lk.Chain) else [processor]
        return any(getattr(part, "role", None) == Role.CONSTRAINT for part in parts)

    return [name for name, processor in processors().items() if constrains(processor)]


def leaving(name: str) -> int:
    """How many prompts there are whose first bare token the processor forbids, whatever the logits are."""
    texts, _ = prompts(name)
    processor, tokens = processors()[name], Transformers().generate(texts, processors()["empty chain"], 1)
    context = lk.Context.of(texts, 1280)
    masked = processor.process_logits(processor.init_state(context), torch.zeros(len(texts), 1280), context)[1]
    return int((masked.gather(1, torch.tensor(tokens)) == -torch.inf).sum())


@pytest.mark.parametrize("name", constraints())
def test_the_models_own_text_leaves_the_language_at_once(name: str) -> None:
    loose = name.startswith(LOOSE) and name not in STRICT
    assert (leaving(name) < PROMPTS) == loose


def test_most_constraints_are_left_at_once() -> None:
    assert len(constraints()) > 45
    assert sum(not name.startswith(LOOSE) for name in constraints()) > 30
