"""Random schemas against `jsonschema`: a value is accepted exactly if it is valid, and every text that is written is valid."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

import logitkit as lk
from tests.campaigns.campaign import Campaign, drawn
from tests.campaigns.json_texts import compiled, written
from tests.json_schema.acceptance import BYTES, Accepted
from tests.json_schema.canonical import canonical
from tests.json_schema.generated import instances, leaves, schemas
from tests.json_schema.judge import exact, judge, parse
from tests.json_schema.orders import orders
from tests.json_schema.test_generated import ends

EOS = 256
WRITTEN = 5


@dataclass(frozen=True)
class Case:
    """A schema, values that have a chance to be valid, and the seed of the texts that are written."""

    schema: Any
    values: tuple[Any, ...]
    seed: int


@st.composite
def cases(draw: DrawFn) -> Case:
    schema = draw(schemas | leaves)
    return Case(schema, tuple(draw(st.lists(instances(schema), min_size=6, max_size=12))), draw(st.integers(0, 2**32)))


def check(case: Case, tried: Counter[str]) -> None:
    validator = judge(case.schema)
    assume(ends(validator))
    texts = [canonical(value, validator) for value in case.values]
    valid = [validator.is_valid(exact(value)) for value in case.values]
    constraint = compiled(case.schema, "schemas", lambda: any(valid), tried)
    if constraint is None:
        return
    tried["schemas compared"] += 1
    accepted_texts = Accepted(constraint)
    for text, is_valid in zip(texts, valid, strict=True):
        accepted = may_end(constraint, text.encode())[-1]
        if is_valid and not accepted:
            # The judge does not know every rule by which a schema orders members: another order has to be accepted.
            others = (
                other for other in orders(parse(text), "", accepted_texts) if may_end(constraint, other.encode())[-1]
            )
            assert next(others, None) is not None, f"{text} is valid, in any order"
            tried["valid values accepted in another order of their members"] += 1
            continue
        assert accepted == is_valid, f"{text} is {'valid' if is_valid else 'not valid'}"
        tried["valid values accepted" if is_valid else "invalid values not accepted"] += 1
    for found in written(accepted_texts, case.seed, WRITTEN, tried):
        validator.validate(parse(found))
        assert may_end(constraint, found)[-1], f"{found.decode()} is written; its mask does not let it end"
        tried["texts written, found valid"] += 1


def may_end(constraint: lk.JsonSchema, text: bytes) -> list[bool]:
    """Return for each beginning of a text whether EOS is legal after it, and see that the mask of no other is empty."""
    context = lk.Context.of([[]] * (len(text) + 1), BYTES.size)
    rows = [[*text[:n], *[-1] * (len(text) - n)] for n in range(len(text) + 1)]
    state = constraint.advance(constraint.init_state(context), torch.tensor(rows, dtype=torch.int64))
    masked = constraint.process_logits(state, torch.ones(len(rows), BYTES.size), context)[1]
    dead = constraint.is_dead(state)
    # A dead row is left EOS at logit 0.
    assert ((masked == 1).any(1) != dead).all(), (
        f"a beginning of {text!r} is alive without a legal token, or dead with one"
    )
    return (masked[:, EOS] == 1).tolist()


CAMPAIGN = Campaign(
    "schemas", "random JSON Schemas, values and written texts, with `jsonschema`", drawn(cases(), 40, check)
)
