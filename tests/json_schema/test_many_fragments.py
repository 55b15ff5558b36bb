"""Many patterns that stand in many places: their strings are called sooner, as each state lists more classes of tokens."""

from __future__ import annotations

import random
from typing import Any
from unittest import mock

import pytest
import torch

import logitkit as lk
from logitkit.compiler.nested_grammars import instance_builder
from tests.vocabularies import sentencepiece_32k

PLACES = 5


def _schema(patterns: int, title: str) -> dict[str, Any]:
    """Objects with several strings of each pattern, such as `w07-1`. The title makes schemas differ that say the same."""
    names = [(name, place) for name in range(patterns) for place in range(PLACES)]
    properties = {f"{name}_{place}": {"pattern": f"^[a-w]{{12}}{name:02}-[0-9]{{1,3}}$"} for name, place in names}
    strings = {name: {"type": "string", **pattern} for name, pattern in properties.items()}
    return {
        "type": "object",
        "title": title,
        "properties": strings,
        "required": [*strings],
        "additionalProperties": False,
    }


def _compiled(patterns: int, few: int) -> lk.JsonSchema:
    """Compile with a low limit, which holds for at most `few` fragments."""
    with (
        mock.patch.object(instance_builder, "LARGE_INSTANCES", 150),
        mock.patch.object(instance_builder, "FEW_FRAGMENTS", few),
    ):
        return lk.JsonSchema(_schema(patterns, f"few: {few}"), sentencepiece_32k())


@pytest.mark.parametrize(("patterns", "calls"), [(3, False), (12, True)])
def test_masks_are_the_same(patterns: int, calls: bool) -> None:
    called, copied = _compiled(patterns, 3), _compiled(patterns, 100)
    assert copied.automaton.nesting.frames == 0
    assert (called.automaton.nesting.frames > 0) == calls
    vocabulary = called.vocabulary
    context = lk.Context.of([[]], vocabulary_size=vocabulary.size)
    for seed in range(3):
        draw, states = random.Random(seed), [one.init_state(context) for one in (called, copied)]
        for _ in range(150):
            legal, other = (one.allowed_tokens(s)[0] for one, s in zip((called, copied), states, strict=True))
            assert torch.equal(legal, other)
            token = draw.choice(legal.nonzero().flatten().tolist())
            if token in vocabulary.eos_ids:
                break
            states = [one.advance(s, torch.tensor([token])) for one, s in zip((called, copied), states, strict=True)]
