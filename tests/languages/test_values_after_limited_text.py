"""The values after text with `max_tokens`: the same as alone, or after text without a limit."""

from __future__ import annotations

import random

import pytest
import torch

import logitkit as lk
from logitkit.languages import any_text, json_schema, sequence
from tests import vocabularies

# Objects with members that are not listed: their names begin like listed ones, which are followed beside the others.
VALUES = {
    "one listed": {"type": "object", "properties": {"d": {"type": "boolean"}}, "required": ["d"]},
    "integers": {
        "type": "object",
        "properties": {"d": {"type": "string", "maxLength": 3}},
        "additionalProperties": {"type": "integer"},
    },
    "names": {
        "type": "object",
        "patternProperties": {"^d[ab]": {"type": "integer"}},
        "additionalProperties": {"type": "string"},
    },
    "listed texts": {"type": "object", "properties": {"d": {"enum": ["da", "db"]}, "e": {"type": "string"}}},
    "any value": True,
}
TEXTS = [
    '{"d":true,"da":1}',
    '{"da":1}',
    '{"d":"a","e":"x","f":[{"d":1}]}',
    '{"dab":2,"x":"y"}',
    "[null]",
    '{"d":"db"}',
]


@pytest.mark.parametrize("name", VALUES)
def test_values_after_counted_text_are_those_after_any_text(name: str) -> None:
    value = json_schema(VALUES[name])
    vocabulary = lk.Vocabulary([*(bytes([b]) for b in range(256)), b'","', b'"d', None], eos_ids=[258])
    counted = sequence(any_text(until="!", max_tokens=3), value).constraint(vocabulary)
    free = sequence(any_text(until="!"), value).constraint(vocabulary)
    context = lk.Context.of([[]], vocabulary.size)
    accepted = 0
    for text in TEXTS:
        states = [c.advance(c.init_state(context), torch.tensor([[*b"a!"]])) for c in (counted, free)]
        for byte in text.encode():
            masks = [c.allowed_tokens(s) for c, s in zip((counted, free), states, strict=True)]
            assert torch.equal(*masks), text
            if not masks[0][0, byte]:
                break
            states = [c.advance(s, torch.tensor([byte])) for c, s in zip((counted, free), states, strict=True)]
        else:
            accepted += bool(counted.allowed_tokens(states[0])[0, 258])
    assert accepted


CALLED = {
    "strings": {
        "type": "object",
        "properties": {f"k{i}": {"type": "string", "minLength": 2, "maxLength": 300} for i in range(12)},
        "required": ["k0", "k3"],
        "additionalProperties": False,
    },
    "items": {"type": "array", "items": {"type": "object", "properties": {"a": {"enum": [1, 2]}}}, "maxItems": 400},
}


@pytest.mark.parametrize("name", CALLED)
def test_what_follows_may_call_strings_and_blocks_of_items(name: str) -> None:
    tekken = vocabularies.tekken()
    after = sequence(any_text(until="</think>", max_tokens=20), json_schema(CALLED[name])).constraint(tekken)
    alone = lk.JsonSchema(CALLED[name], tekken)
    nesting = after.automaton.nesting
    assert (nesting.strings > 0, nesting.blocks > 0) == (name == "strings", name == "items")
    context = lk.Context.of([[]], vocabulary_size=tekken.size)
    thought = [int(tekken.trie.tokens_at(bytes([byte]))[0][1]) for byte in b"hm</think>"]
    for seed in range(5):
        chance = random.Random(seed)
        states = [after.advance(after.init_state(context), torch.tensor([thought])), alone.init_state(context)]
        for _ in range(60):
            masks = [c.allowed_tokens(state)[0] for c, state in zip((after, alone), states, strict=True)]
            assert torch.equal(*masks)
            # The first tokens are special, then come those of one byte, which end strings and items soon.
            token = chance.choice(masks[0].nonzero()[:, 0][:200].tolist())
            if token in tekken.eos_ids:
                break
            states = [c.advance(state, torch.tensor([token])) for c, state in zip((after, alone), states, strict=True)]
