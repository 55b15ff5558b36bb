"""Requests with languages of one sort share a step, and a request may have any number of languages."""

from __future__ import annotations

import random
from contextlib import nullcontext
from typing import Any

import pytest
import torch

import logitkit as lk
from logitkit.batching import BatchedRequests, NewRequest, steps_of
from logitkit.runtime.constraint import Constraint
from tests.batches import tensor_path

VOCABULARY = lk.Vocabulary([*(bytes([b]) for b in b'[]{}":,ab01'), b"]]", b'["', b"01", b"],", None], eos_ids=[15])
LISTS: dict[str, Any] = {"$defs": {"l": {"type": "array", "items": {"$ref": "#/$defs/l"}}}, "$ref": "#/$defs/l"}
WORDS: dict[str, Any] = {"type": "array", "items": {"type": "string", "maxLength": 30}, "maxItems": 3}
DEEP: dict[str, Any] = {"anyOf": [LISTS["$defs"]["l"], WORDS], "$defs": LISTS["$defs"]}


class NeverThree:
    """Bans token 3, as a kind of its own."""

    role = lk.Role.CONSTRAINT
    may_empty_rows = True

    def init_state(self, context: lk.Context) -> Any:
        return ()

    def advance(self, state: Any, tokens: torch.Tensor) -> Any:
        return state

    def process_logits(self, state: Any, logits: torch.Tensor, context: lk.Context) -> Any:
        return state, logits.index_fill(1, torch.tensor([3]), -torch.inf)


CONFIGURATIONS: tuple[Any, ...] = (
    None,
    {"regex": "[01]{3,9}"},
    {"banned_strings": ["01", "a0", "bb,bb,"]},
    {"json_schema": LISTS},
    {"json_schema": {"schema": WORDS, "closing": 9}},
    {"then": {"first": {"regex": "[ab]*"}, "second": {"json_schema": LISTS}, "marker": ":"}},
    {"regex": r"[^0]{,40}", "json_schema": LISTS},
    {"banned_strings": ["]]]"], "regex": r"[^{]*", "json_schema": {"schema": DEEP, "max_depth": 5}},
    {"chain": [{"json_schema": LISTS}, {"json_schema": {"schema": DEEP, "max_depth": 3}}]},
    {"chain": [{"json_schema": DEEP}, {"regex": r"[^,]*"}]},
)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("tensors", [False, True], ids=["rows", "tensors"])
def test_rows_of_all_languages_are_as_alone(seed: int, tensors: bool) -> None:
    """Rows enter, leave and move, and take legal tokens and, rarely, others."""
    path = tensor_path if tensors else nullcontext
    chance = random.Random(seed)
    made = [None if c is None else lk.from_config(c, VOCABULARY) for c in CONFIGURATIONS]
    batch, rows = BatchedRequests("cpu"), list[tuple[Any, Any]]()
    for _ in range(40):
        kept = [row for row in range(len(rows)) if chance.random() < 0.95]
        chance.shuffle(kept)
        new = [chance.choice(made) for _ in range(max(0, chance.randint(4, 8) - len(kept)))]
        batch.arrange([*kept, *(None if p is None else NewRequest(p, [0]) for p in new)])
        context = lk.Context.of([[0]], VOCABULARY.size)
        rows = [*(rows[row] for row in kept), *((p, None if p is None else p.init_state(context)) for p in new)]
        logits = torch.randn(len(rows), VOCABULARY.size)
        with path():
            found = batch.process_logits(logits.clone())
        for (processor, state), before, after in zip(rows, logits, found, strict=True):
            alone = (
                before if processor is None else processor.process_logits(state, before[None].clone(), context)[1][0]
            )
            assert torch.equal(alone, after)
        best = found.softmax(1).multinomial(1)[:, 0].tolist()
        tokens = [chance.randrange(VOCABULARY.size) if chance.random() < 0.02 else token for token in best]
        with path():
            batch.advance(torch.tensor(tokens))
        rows = [
            (p, None if p is None else p.advance(state, torch.tensor([token])))
            for (p, state), token in zip(rows, tokens, strict=True)
        ]


def test_one_call_for_all_languages_with_stacks_and_one_for_all_without(monkeypatch: pytest.MonkeyPatch) -> None:
    batch, calls = BatchedRequests("cpu"), list[bool]()
    batch.arrange([NewRequest(lk.from_config(c, VOCABULARY), [0]) for c in CONFIGURATIONS[1:6]])
    original = Constraint.process_logits

    def counted(self: Constraint, state: Any, logits: torch.Tensor, context: lk.Context) -> Any:
        calls.append(bool(state.stack.shape[1]))
        return original(self, state, logits, context)

    monkeypatch.setattr(Constraint, "process_logits", counted)
    batch.process_logits(torch.zeros(5, VOCABULARY.size))
    assert calls == [False, True]


def test_languages_of_a_request_are_numbered() -> None:
    steps = [*steps_of(lk.from_config(CONFIGURATIONS[8], VOCABULARY))]
    assert [step[0] for step in steps if isinstance(step, tuple)] == [0, 1]
    # A chain joins those that nest nothing, so that they are one language.
    assert len(steps_of(lk.from_config(CONFIGURATIONS[7], VOCABULARY))) == 2


def test_a_registered_constraint_may_stand_between_languages() -> None:
    lk.register("never_three", NeverThree, order=100)
    made = lk.from_config({"regex": "[^a]*", "never_three": {}, "json_schema": LISTS}, VOCABULARY)
    alone = lk.from_config({"never_three": {}, "json_schema": LISTS}, VOCABULARY)
    assert len(steps_of(made)) == 3
    assert len(steps_of(alone)) == 2
    batch = BatchedRequests("cpu", columns=VOCABULARY.size)
    batch.arrange([NewRequest(made, [0]), NewRequest(alone, [0]), NewRequest(lk.Regex("0", VOCABULARY), [0])])
    found = batch.process_logits(torch.zeros(3, VOCABULARY.size)).isfinite()
    assert [row.nonzero()[:, 0].tolist() for row in found] == [[0], [0], [9]]
