"""Models that may or may not reason: constraints in which the reasoning is optional or required, beside a budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

import logitkit as lk
from logitkit.languages import any_text, json_schema, optional, sequence, special

PIECES = ["<think>", "</think>", "<tool_call>", "</tool_call>", "a", " ", '"yes"', '"', "y", "end"]
THINK, CLOSE, CALL, _, A, SPACE, YES, QUOTE, _, EOS = range(len(PIECES))
NAMES = {name: number for number, name in enumerate(PIECES[:4])}
V = lk.Vocabulary(
    [None] * 4
    + [piece.encode() for piece in PIECES[4:-1]]
    + [None]
    + [bytes([byte]) for byte in range(32, 127)]
    + [b"\n"],
    eos_ids=[EOS],
    special=NAMES,
)
BUDGET = lk.ThinkingBudget(2, "</think>", V, start="<think>")


def legal(processor: Any, tokens: Sequence[int], prompt: Sequence[int] = ()) -> set[int]:
    context = lk.Context.of([prompt], vocabulary_size=V.size)
    state = processor.init_state(context)
    if tokens:
        state = processor.advance(state, torch.tensor([list(tokens)]))
    logits = processor.process_logits(state, torch.zeros(1, V.size), context)[1][0]
    return {*(logits == 0).nonzero()[:, 0].tolist()}


def test_reasoning_that_is_optional() -> None:
    thought = sequence(special("<think>"), any_text(until=special("</think>")))
    answer = json_schema({"enum": ["yes"]})
    both = lk.chain(sequence(optional(thought), answer).constraint(V), BUDGET)
    first = legal(both, [])
    assert {THINK, YES, QUOTE} <= first
    assert not {CLOSE, A, EOS} & first
    # Without reasoning: the budget changes nothing.
    assert legal(both, [YES]) == {EOS}
    # With it, the budget ends it, and the answer follows.
    assert {A, CLOSE, YES} <= legal(both, [THINK, A])
    assert legal(both, [THINK, A, A]) == {CLOSE}
    after = legal(both, [THINK, A, A, CLOSE])
    assert {YES, QUOTE} <= after
    assert not {A, THINK, EOS} & after
    assert legal(both, [THINK, CLOSE, YES]) == {EOS}


def test_reasoning_that_then_requires() -> None:
    """An answer without reasoning counts as reasoning: the marker is forced, and the answer follows, as it must."""
    both = lk.chain(
        lk.then(None, json_schema({"enum": ["yes"]}).constraint(V), "</think>"), lk.ThinkingBudget(2, "</think>", V)
    )
    assert EOS not in legal(both, [YES])
    assert legal(both, [YES, A]) == {CLOSE}
    assert legal(both, [YES, A, CLOSE, YES]) == {EOS}


def test_a_prompt_that_turns_reasoning_off() -> None:
    """The section in the prompt is closed, so nothing is forced, however long the answer is."""
    answer = lk.Regex("a{9}", V)
    prompt = [THINK, CLOSE]
    both = lk.chain(answer, BUDGET)
    for count in range(9):
        assert A in legal(both, [A] * count, prompt)
    assert legal(both, [A] * 9, prompt) == {EOS}
    # With the reasoning left open, the budget and the answer contradict each other, and the row ends.
    assert legal(both, [A, A], [THINK]) == {EOS}


def test_tools() -> None:
    ping = {"name": "ping", "parameters": {"type": "object", "properties": {}}}
    free = lk.chain(lk.Tools([ping]).constraint(V), BUDGET)
    # Without reasoning: text or a call, and nothing is forced.
    assert {A, CALL, THINK, EOS} <= legal(free, [])
    assert {A, CALL, EOS} <= legal(free, [A, A, A, A])
    # With reasoning, which is part of the text before a call.
    assert legal(free, [THINK, A, A]) == {CLOSE}
    assert CALL in legal(free, [THINK, A, A, CLOSE])
    # Reasoning that is required must be closed before a call, and the format has its own budget.
    needed = lk.Tools([ping], reasoning=2).constraint(V)
    assert CLOSE in legal(needed, [A])
    assert EOS not in legal(needed, [A])
    assert legal(needed, [A, A]) == {CLOSE}
    assert {CALL, EOS} <= legal(needed, [A, A, CLOSE])
