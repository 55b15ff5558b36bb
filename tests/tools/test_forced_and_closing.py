"""Forced text of calls takes no pass of the model each, and turns with `closing` are complete in time."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from logitkit import Context, ToolCall, Tools, forced_run
from tests.tools.test_turns import NAMES
from tests.tools.turns import EOS, FORMATS, TOOLS, get_weather, ids_of, vocabulary

CALL = ToolCall("get_weather", {"city": "Bonn", "days": 3, "unit": "F"})
# Its members are not listed, so their names are followed beside those that are.
OPEN: dict[str, Any] = {
    "type": "object",
    "properties": {"done": {"type": "boolean"}, "note": {"type": "string", "maxLength": 5}},
    "required": ["done"],
    "additionalProperties": {"type": "integer"},
}


@pytest.mark.parametrize("name", NAMES)
def test_tags_names_and_keys_are_forced(name: str) -> None:
    form = FORMATS[name]
    tools = Tools([get_weather], form, choice="required", parallel=False)
    constraint, text = tools.constraint(vocabulary(form)), tools.write([CALL])
    ids = [*ids_of(text, form), EOS]
    state = constraint.init_state(Context.of([[]], vocabulary(form).size))
    at, free = 0, ""
    while at < len(ids):
        run = [int(token) for token in forced_run(constraint, state)]
        assert run == ids[at : at + len(run)]
        free += "" if run else chr(ids[at])
        run = run or [ids[at]]
        state = constraint.advance(state, torch.tensor([run]))
        at += len(run)
    # The model chooses the values, ids, and where a member may end or go on.
    assert len(free) < 25 + 9 * ("{id}" in form.call_begin)
    assert "get_weather" not in free
    assert "days" not in free


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(3))
def test_random_turns_are_complete_in_time(name: str, seed: int) -> None:
    form, chance, limit = FORMATS[name], random.Random(seed), 330
    answers = [None, {**OPEN, "additionalProperties": False}]
    reasoning = [None, *([20, True] if form.reasoning_end else [])][seed % (3 if form.reasoning_end else 1)]
    tools = Tools(TOOLS, form, reasoning=reasoning, answer=answers[seed % 2])
    constraint = tools.constraint(vocabulary(form), closing=limit)
    state = constraint.init_state(Context.of([[]], vocabulary(form).size))
    ids: list[int] = []
    while EOS not in ids:
        allowed = constraint.allowed_tokens(state)[0].nonzero().flatten().tolist()
        ids.append(chance.choice(allowed))
        state = constraint.advance(state, torch.tensor([ids[-1]]))
        assert len(ids) <= limit + 1
    turn = tools.parse(ids, vocabulary(form))
    assert (turn.complete, turn.problem, turn.outside_at) == (True, None, None)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("budget", [True, 40])
def test_a_limit_far_away_changes_nothing(name: str, budget: int) -> None:
    form, v = FORMATS[name], vocabulary(FORMATS[name])
    reasoning = budget if form.reasoning_end else None
    tools = Tools([{"name": "f", "parameters": OPEN}], form, choice="required", reasoning=reasoning)
    free, closing = tools.constraint(v), tools.constraint(v, closing=10**6)
    head = form.reasoning_begin + "Hm." + str(form.reasoning_end) if reasoning else ""
    gap = "\n\n" if reasoning and not form.reasoning_opened else ""
    calls: list[dict[str, Any]] = [
        {"done": True, "dona": 1, "x": 2},
        {"done": False, "note": "d"},
        {"done": True, "do": 3},
    ]
    for call in calls:
        text = head + gap + tools.write([ToolCall("f", call)])
        states = [c.init_state(Context.of([[]], v.size)) for c in (free, closing)]
        for token in [*ids_of(text, form), EOS]:
            masks = [c.allowed_tokens(s) for c, s in zip((free, closing), states, strict=True)]
            assert torch.equal(*masks)
            assert masks[0][0, token]
            states = [c.advance(s, torch.tensor([token])) for c, s in zip((free, closing), states, strict=True)]
