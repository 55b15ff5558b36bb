"""Raw text between tags that must end within a number of tokens: as a leaf it has the masks that it has without one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from logitkit.json_schema.string_set import StringSet
from logitkit.languages import xml_arguments, xml_members
from tests.examples import examples
from tests.in_step import masks_in_step
from tests.tools.raw_text import VOCABULARY
from tests.tools.test_counted_xml import schema_of

LONGER = {"type": "string", "maxLength": 64}
CLOSING: dict[str, dict[str, Any]] = {
    "one": {"x": LONGER},
    "two": {"x": LONGER, "y": LONGER},
    "pattern": {"x": {**LONGER, "pattern": "^[a-f<>/]*$"}},
    "beside JSON": {"x": LONGER, "y": {"type": "array", "items": LONGER, "maxItems": 2}},
    "with a minLength in JSON": {
        "x": LONGER,
        "y": {"type": "array", "items": {**LONGER, "minLength": 3}, "minItems": 1},
    },
}


@pytest.mark.parametrize("budget", [14, 30, 90])
def test_masks_of_any_text_that_ends_in_time(budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    language = xml_arguments(schema_of("any text"))
    leaf = language.constraint(VOCABULARY, closing=budget)
    monkeypatch.setattr(xml_members, "text_fragment", lambda *_: None)
    # Other limits, so that it is compiled again.
    other = language.constraint(VOCABULARY, closing=budget, limits=replace(leaf.limits, work=leaf.limits.work + 1))
    for seed in range(examples(20)):
        for legal, same in masks_in_step(leaf, other, seed, budget):
            assert torch.equal(legal, same)


@pytest.mark.parametrize("name", CLOSING)
def test_counted_text_ends_in_time(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = {"type": "object", "properties": CLOSING[name], "required": ["x"], "additionalProperties": False}
    language = xml_arguments(schema)
    budgets = (12, 30, 90)
    counted = [language.constraint(VOCABULARY, closing=budget) for budget in budgets]
    assert counted[0].automaton.counting is not None
    monkeypatch.setattr(StringSet, "counts", lambda *_: False)
    # Other limits, so that it is compiled again.
    limits = replace(counted[0].limits, work=counted[0].limits.work + 1)
    for budget, one in zip(budgets, counted, strict=True):
        other = language.constraint(VOCABULARY, closing=budget, limits=limits)
        assert other.automaton.counting is None
        needed = {int(made.automaton.cost[made.automaton.start]) for made in (one, other)}
        assert len(needed) == 1
        for seed in range(examples(10)):
            for place, (legal, exact) in enumerate(masks_in_step(one, other, seed, budget)):
                # With some counts, the end may take fewer tokens than with all.
                assert not (legal & ~exact).any()
                if budget - place > 20:
                    assert torch.equal(legal, exact)
