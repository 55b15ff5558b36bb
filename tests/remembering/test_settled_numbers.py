"""Numbers that may only become one that is used: `1.` up to 1, or `0e`. Compared with all short texts.

The oracle writes each array of two numbers of at most four characters. A beginning whose last number is shorter is legal if it
begins one of these in which the two differ as decimals.
"""

from __future__ import annotations

import random
from decimal import Decimal
from functools import cache
from itertools import product
from typing import Any

import pytest
import torch

import logitkit as lk
from tests.examples import CI
from tests.remembering.test_masks import array

PARTS = [
    "0e",
    "0.",
    "-0",
    ".0",
    "1.",
    "00",
    ".5",
    "0,",
    ",0",
    ",-",
    "e0",
    ",0e",
    "0]",
    ".0]",
    "-0]",
    "0.0,",
    "[0",
    "[-",
    "],[",
]
TOKENS = [*(bytes([byte]) for byte in range(256)), *(part.encode() for part in PARTS), None]
VOCABULARY = lk.Vocabulary(TOKENS, eos_ids=[len(TOKENS) - 1])
MOST, LOOKED_AT = 4, 2

UP_TO_1 = {"type": "number", "minimum": 0, "maximum": 1}
NUMBERS: dict[str, Any] = {
    "any": {"type": "number"},
    "up to 1": UP_TO_1,
    "up to 0.5": {"type": "number", "exclusiveMinimum": 0, "maximum": 0.5},
    "two intervals": {"anyOf": [UP_TO_1, {"type": "number", "minimum": 10, "maximum": 15}]},
    "an interval and -1": {"anyOf": [UP_TO_1, {"const": -1}]},
}
# Alone, and as the only item of an array.
NESTED = {"alone": "{}", "nested": "[{}]"}


@cache
def language(name: str, nested: str) -> frozenset[str]:
    """All texts of up to two different numbers."""
    plain = lk.JsonSchema(NUMBERS[name], VOCABULARY)
    strings = ("".join(word) for count in range(1, MOST + 1) for word in product("015.-e", repeat=count))
    numbers = [text for text in strings if plain.matches(text)]
    pairs = [
        f"{NESTED[nested].format(a)},{NESTED[nested].format(b)}"
        for a in numbers
        for b in numbers
        if Decimal(a) != Decimal(b)
    ]
    return frozenset(f"[{inside}]" for inside in [*pairs, *[NESTED[nested].format(one) for one in numbers]])


@pytest.mark.parametrize("nested", NESTED)
@pytest.mark.parametrize("name", NUMBERS)
def test_a_beginning_is_legal_if_another_number_can_follow(name: str, nested: str) -> None:
    items = (
        NUMBERS[name] if nested == "alone" else {"type": "array", "items": NUMBERS[name], "minItems": 1, "maxItems": 1}
    )
    constraint = lk.JsonSchema(array(items, minItems=1, maxItems=2), VOCABULARY)
    texts = language(name, nested)
    begun = frozenset(text[:length] for text in texts for length in range(len(text) + 1))
    draw = random.Random(name + nested)
    context = lk.Context.of([[]] * len(TOKENS), vocabulary_size=VOCABULARY.size)
    start = constraint.init_state(context)
    for text in draw.sample(sorted(begun), min(len(begun), 150 if CI else 40)):
        last = text.rpartition(",")[2].strip("[]")
        if len(last) > LOOKED_AT:
            continue
        state = constraint.advance(
            start, torch.tensor([[*text.encode()]] * len(TOKENS)).reshape(len(TOKENS), -1).long()
        )
        legal = constraint.allowed_tokens(state)[0].tolist()
        after = constraint.is_dead(constraint.advance(state, torch.arange(len(TOKENS)))).tolist()
        # The mask and the step agree on all tokens.
        assert [not dead for dead in after] == legal, (
            text,
            [TOKENS[i] for i in range(len(TOKENS)) if legal[i] == after[i]],
        )
        wanted = [text + byte in begun for byte in "015.-e,[]"]
        assert [legal[ord(byte)] for byte in "015.-e,[]"] == wanted, text


def test_zeros_after_a_settled_number_are_not_those_of_another_one() -> None:
    """As `1.0]` where 10 is used, although 1 is all that is remembered of `1.`."""
    constraint = lk.JsonSchema(array(NUMBERS["two intervals"], maxItems=2), VOCABULARY)
    for text in (b"[10,1.", b"[1.0,10."):
        state = constraint.init_state(lk.Context.of([[]], vocabulary_size=VOCABULARY.size))
        state = constraint.advance(state, torch.tensor([[*text]]))
        for token in (b"0", b"00", b"0]"):
            index = TOKENS.index(token)
            assert constraint.allowed_tokens(state)[0, index], (text, token)
            assert not constraint.is_dead(constraint.advance(state, torch.tensor([index])))[0]
