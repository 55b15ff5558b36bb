"""A request in a bank gets the same logits as alone, whatever row it has, and whoever had the row before."""

from __future__ import annotations

import random
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import logitkit as lk
from logitkit.batching import NewRequest, StateBank
from logitkit.errors import BrokenLogits, ConfigurationError, ProcessorError
from logitkit.protocol import leaves
from tests.batches import COLUMNS, Batch, run, same_bits, sound_logits, tensor_path
from tests.examples import examples
from tests.registry import EOS, ONE_PASS, Row, ids, vocabulary

CPU = torch.device("cpu")
SINGLE = [row for row in ONE_PASS if getattr(row.processor, "batch_size", None) is None]
STEPS = 4


class Request:
    """A request: its processor, tokens and logits, how many tokens are committed, and what it gets alone."""

    def __init__(self, chance: random.Random, number: int, rows: list[Row]) -> None:
        row = chance.choice(rows)
        self.processor: Any = row.processor
        tokens = [*chance.choice(row.runs)[:STEPS]]
        tokens += [chance.randrange(COLUMNS) for _ in range(STEPS - len(tokens))]
        self.tokens = tokens
        prompt = [chance.randrange(3, 40) for _ in range(chance.randint(0, 4))]
        self.batch = Batch(
            [prompt], torch.tensor([tokens]), sound_logits(number, (STEPS + 1, 1, COLUMNS), torch.float32), [number]
        )
        # Rows that have ended or are dead accept any logits, others only those of a model.
        self.batch.logits[:, :, EOS] = 1.5
        self.number, self.seen, self.started = number, 0, False

    def wanted(self) -> Tensor:
        return run(self.processor, self.batch).logits[self.seen][0]

    def new(self, output: int) -> NewRequest:
        return NewRequest(
            self.processor, self.batch.prompts[0], self.tokens[:output], self.number, max_length=64, limit=64
        )


@settings(max_examples=examples(24))
@given(st.integers(0, 2**32), st.booleans())
def test_each_request_gets_what_it_gets_alone(seed: int, tensors: bool) -> None:
    """In steps of any requests and orders, with requests that enter late, leave, and come back by a replay."""
    chance = random.Random(seed)
    rows = [row for row in SINGLE if not (tensors and row.on_host)]
    requests = [Request(chance, number, rows) for number in range(6)]
    bank = StateBank(CPU, COLUMNS, (EOS,))
    bank.grow(5)
    places: dict[int, Request] = {}
    with tensor_path() if tensors else nullcontext():
        for _ in range(8):
            entering = {}
            for place in range(1, 5):
                if place not in places or chance.random() < 0.2:
                    places.pop(place, None)
                    absent = [r for r in requests if r not in places.values() and r.seen < STEPS]
                    if absent:
                        places[place] = chance.choice(absent)
                        entering[place] = places[place].new(places[place].seen)
                        places[place].started = False
            if entering:
                bank.put(entering)
            chosen = chance.sample(sorted(places), chance.randint(0, len(places)))
            if not chosen:
                continue
            advance = [places[place].started and places[place].seen < STEPS for place in chosen]
            tokens = [
                places[place].tokens[places[place].seen] if moves else -1
                for place, moves in zip(chosen, advance, strict=True)
            ]
            for place, moves in zip(chosen, advance, strict=True):
                places[place].seen += moves
                places[place].started = True
            unused = chance.randint(0, 2)  # places that a graph has beside the requests
            logits = torch.cat([places[place].batch.logits[places[place].seen] for place in chosen])
            found = bank.step(
                torch.tensor([*chosen, *[0] * unused]),
                torch.tensor([*tokens, *[-1] * unused]),
                torch.cat([logits, torch.zeros(unused, COLUMNS)]),
            )
            for place, got in zip(chosen, found, strict=False):
                assert same_bits(got, places[place].wanted())
            assert (found[len(chosen) :] == 0).all()


def bank_of(processor: Any, **options: Any) -> StateBank:
    bank = StateBank(CPU, COLUMNS, (EOS,), **options)
    bank.grow(4)
    bank.put({1: NewRequest(processor, [], limit=40, max_length=40)})
    return bank


def test_tensors_stay_in_place_while_requests_fit() -> None:
    regex = lk.Regex("[a-z]+", vocabulary())
    bank = bank_of(lk.chain(lk.RepetitionPenalty(1.2, window=8), regex))
    version = bank.version
    memory = [leaf.data_ptr() for leaf in leaves(bank._state)]
    for other in (lk.Regex("[0-9]+", vocabulary()), lk.RepetitionPenalty(1.5, window=4), None):
        bank.put({2: NewRequest(other, [5], limit=40, max_length=40)})  # type: ignore[arg-type]
        bank.step(torch.tensor([1, 2]), torch.tensor([-1, -1]), torch.zeros(2, COLUMNS))
    assert (bank.version, [leaf.data_ptr() for leaf in leaves(bank._state)]) == (version, memory)
    bank.put({2: NewRequest(lk.TopK(3), [5], limit=40)})  # a new step
    assert bank.version > version
    version = bank.version
    bank.put({3: NewRequest(lk.RepetitionPenalty(1.5, window=99), [5], limit=40)})  # a wider window
    assert bank.version > version


def test_a_processor_that_fails_changes_nothing() -> None:
    class Fails(lk.Regex):
        def init_state(self, context: lk.Context) -> Any:
            raise OSError("cannot begin")

    bank = bank_of(lk.Regex("[a-z]+", vocabulary()))
    before = [leaf.clone() for leaf in leaves(bank._state)]
    with pytest.raises(OSError, match="cannot begin"):
        bank.put({1: NewRequest(Fails("[0-9]+", vocabulary()), [])})
    assert all(one.equal(other) for one, other in zip(before, leaves(bank._state), strict=True))


def test_what_graphs_cannot_run_is_refused() -> None:
    bank = StateBank(CPU, COLUMNS, (EOS,), captured=True)
    bank.grow(3)
    unique = lk.JsonSchema({"type": "array", "uniqueItems": True, "items": {"type": "integer"}}, vocabulary())
    with pytest.raises(ConfigurationError, match="uniqueItems"):
        bank.put({1: NewRequest(unique, [], limit=9)})
    with pytest.raises(ConfigurationError, match="a request with Regex has no maximum length"):
        bank.put({1: NewRequest(lk.Regex("a", vocabulary()), [])})


class Grows(lk.Regex):
    """Its state becomes wider with each token."""

    def init_state(self, context: lk.Context) -> Any:
        return (torch.zeros(context.batch_size, 1, dtype=torch.int64),)

    def advance(self, state: Any, tokens: Tensor) -> Any:
        return (torch.cat([state[0], tokens.reshape(len(tokens), -1)], 1),)

    def process_logits(self, state: Any, logits: Tensor, context: lk.Context) -> Any:
        return state, logits + state[0].shape[1]


def test_a_state_that_grows_without_a_limit() -> None:
    grows = Grows("[a-z]+", vocabulary())
    (a,) = ids(b"a")
    one, minus = torch.tensor([1]), torch.tensor([a])
    bank = bank_of(grows)
    version = bank.version
    assert (bank.step(one, minus, torch.zeros(1, COLUMNS)) == 2).all()
    assert bank.version > version
    frozen = bank_of(grows, captured=True)
    with pytest.raises(ProcessorError, match="has grown"):
        frozen.step(one, minus, torch.zeros(1, COLUMNS))


def test_broken_logits_are_an_error_or_end_their_row() -> None:
    logits = torch.zeros(1, COLUMNS)
    logits[0, 7] = torch.nan
    one, none = torch.tensor([1]), torch.tensor([-1])
    with pytest.raises(BrokenLogits):
        bank_of(lk.Regex("[a-z]+", vocabulary())).step(one, none, logits.clone())
    with tensor_path():
        reporting = bank_of(lk.Regex("[a-z]+", vocabulary()))
        ended = reporting.step(one, none, logits.clone())
        assert (ended[0] > -torch.inf).nonzero()[:, 0].tolist() == [EOS]
        with pytest.raises(BrokenLogits):
            reporting.step(one, none, torch.zeros(1, COLUMNS))
        reporting.step(one, none, logits.clone())
        with pytest.raises(BrokenLogits):
            reporting.grow(9)
        quiet = bank_of(lk.Regex("[a-z]+", vocabulary()), reports=False)
        assert quiet.step(one, none, logits.clone()).equal(ended)
        quiet.step(one, none, torch.zeros(1, COLUMNS))
        quiet.raise_broken()


def test_requests_with_and_without_a_maximum_length_enter_together() -> None:
    """Each has the limit that it has alone: a text closes within its own."""
    text = lk.JsonSchema({"type": "string"}, vocabulary(), closing=True)
    bank = StateBank(CPU, COLUMNS, (EOS,))
    bank.grow(4)
    bank.put(
        {
            1: NewRequest(text, [5]),
            2: NewRequest(text, [5], limit=3, max_length=3),
            3: NewRequest(lk.BanTokens([7]), [5]),
        }
    )
    quote, a = ids(b'"', b"a")
    bank.step(torch.tensor([1, 2]), torch.tensor([quote, quote]), torch.zeros(2, COLUMNS))
    found = bank.step(torch.tensor([3, 2, 1]), torch.tensor([-1, -1, -1]), torch.zeros(3, COLUMNS))
    assert (found[1] > -torch.inf).nonzero()[:, 0].tolist() == [quote]
    assert found[2, a] == 0
    assert found[0].isinf().nonzero()[:, 0].tolist() == [7]
