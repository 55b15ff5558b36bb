"""Tables of automata that come later into a slot hold nothing of those before them."""

from __future__ import annotations

import gc
import random
from typing import Any

import pytest
import torch

import logitkit as lk
from tests.batches import tensor_path
from tests.examples import of_all

VOCABULARY = lk.Vocabulary([*(bytes([b]) for b in range(256)), None], eos_ids=[256])
LISTS: dict[str, Any] = {"type": "array", "items": {"$ref": "#"}}
DEEP: dict[str, Any] = {"anyOf": [LISTS, {"type": "object", "additionalProperties": {"$ref": "#"}}]}


def makers() -> list[Any]:
    return [
        lambda n: lk.BannedStrings([chr(40 + i) + chr(41 + i) for i in range(80 - n % 3)], VOCABULARY),
        lambda n: lk.Regex("b" * (1 + n % 5), VOCABULARY),
        lambda n: lk.JsonSchema({**LISTS, "maxItems": 1 + n % 4}, VOCABULARY, max_depth=2 + n % 5),
        lambda n: lk.JsonSchema({**DEEP, "title": str(n)}, VOCABULARY, max_depth=3, closing=30),
        lambda n: lk.JsonSchema({"type": "string", "maxLength": 20 + n % 7}, VOCABULARY),
    ]


@pytest.mark.parametrize("seed", of_all(range(4), 4))
def test_masks_are_those_of_the_host(seed: int) -> None:
    chance, alive = random.Random(seed), list[tuple[Any, Any]]()
    context = lk.Context.of([[0]], 257)
    for step in range(60):
        if alive and chance.random() < 0.45:
            del alive[chance.randrange(len(alive))]
            gc.collect()
        made = chance.choice(makers())(step + chance.randrange(50))
        alive.append((made, made.init_state(context)))
        for at, (processor, state) in enumerate(alive):
            expected = processor.process_logits(state, torch.zeros(1, 257), context)[1]
            token = torch.tensor([int(expected.softmax(1).multinomial(1))])
            with tensor_path():
                assert torch.equal(processor.process_logits(state, torch.zeros(1, 257), context)[1], expected)
                by_tensors = processor.advance(state, token)
            after = processor.advance(state, token)
            assert [t.tolist() for t in by_tensors.at] == [t.tolist() for t in after.at]
            assert by_tensors.stack.equal(after.stack)
            alive[at] = (processor, after)


@pytest.mark.parametrize("later", [lambda: lk.JsonSchema({**LISTS, "maxItems": 1}, VOCABULARY), lambda: None])
def test_a_row_whose_automaton_is_gone_ends(later: Any) -> None:
    context = lk.Context.of([[0]], 257)
    first = lk.JsonSchema({**DEEP, "maxProperties": 7}, VOCABULARY)
    state = first.advance(first.init_state(context), torch.tensor([list(b'[{"a":[[')]))
    del first
    gc.collect()
    made = later()
    if made is not None:
        # It takes the slot.
        assert made.init_state(context).at.slot.equal(state.at.slot)
    other = lk.JsonSchema(LISTS, VOCABULARY)
    # As `process_logits` does on a device. Here it believes that torch compiles it, which cannot register an automaton.
    other.handle()
    with tensor_path():
        processed = other.process_logits(state, torch.zeros(1, 257), context)[1]
    assert processed.isfinite().nonzero().tolist() == [[0, 256]]


@pytest.mark.parametrize("closing", [2**30 + 1, 2**31 - 1])
def test_a_limit_of_any_size_lets_no_illegal_token_through(closing: int) -> None:
    schema = lk.JsonSchema(LISTS, VOCABULARY, closing=closing)
    context = lk.Context.of([[0]], 257)
    with tensor_path():
        processed = schema.process_logits(schema.init_state(context), torch.zeros(1, 257), context)[1]
    assert processed.isfinite().nonzero().tolist() == [[0, ord("[")]]
