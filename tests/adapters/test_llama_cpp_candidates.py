"""The candidates of llama.cpp are seen where they are, and generations of our hooks alone see them so."""

from __future__ import annotations

import ctypes
from itertools import islice
from types import SimpleNamespace
from typing import Any

import llama_cpp
import numpy as np
import pytest

import logitkit as lk
from logitkit_adapters.llama_cpp import logits_processor
from logitkit_adapters.llama_cpp.candidates import Candidates, call_instead
from logitkit_adapters.llama_cpp.guarded_list import GuardedList
from tests.adapters.demo import vocabulary
from tests.adapters.demo_llama_cpp import llama, loaded

PRICE = lk.Regex(r" [0-9]{2,3} francs", vocabulary())


def pointer(data: Any) -> Any:
    first = ctypes.cast(data, ctypes.POINTER(llama_cpp.llama_token_data))
    return ctypes.pointer(llama_cpp.llama_token_data_array(data=first, size=len(data), selected=-1, sorted=False))


def test_candidates_are_written_where_they_lie() -> None:
    candidates = Candidates()
    short, long = ((llama_cpp.llama_token_data * size)() for size in (3, 5))
    for data in (short, long, short):
        for i, one in enumerate(data):
            one.id, one.logit, one.p = i, i + 0.5, -1.0
        logits = candidates.logits(pointer(data))
        assert logits.tolist() == [i + 0.5 for i in range(len(data))]
        logits[1] = -np.inf
        found: list[Any] = [(one.id, one.logit, one.p) for one in data[:3]]
        assert found == [(0, 0.5, -1.0), (1, -np.inf, -1.0), (2, 2.5, -1.0)]
    assert candidates.logits(pointer(short)) is candidates.logits(pointer(short))
    assert len(candidates.logits(pointer(long))) == 5


@pytest.mark.parametrize(
    "custom", [None, [], [1], [(0, 1)], [(0, SimpleNamespace(apply_func=print))], [(0, 1), (1, 2)]]
)
def test_samplers_that_are_made_otherwise_are_left_alone(custom: Any) -> None:
    sampler = SimpleNamespace(custom_samplers=custom)
    before = repr(sampler)
    call_instead(sampler, [], lambda given: None)
    assert repr(sampler) == before


def test_what_a_llama_adds_to_the_processors_goes_on() -> None:
    lengths: list[int] = []

    class Watching(llama_cpp.Llama):
        def _init_sampler(self, *args: Any, **options: Any) -> Any:
            def watch(ids: Any, scores: Any) -> Any:
                lengths.append(len(ids))
                return scores

            options["logits_processor"] = llama_cpp.LogitsProcessorList([*(options["logits_processor"] or ()), watch])
            return super()._init_sampler(*args, **options)

    own = loaded(kind=Watching)
    ids = own.tokenize(b"The price of the lamp is")
    tokens = [*islice(own.generate(ids, temp=0, logits_processor=logits_processor(PRICE)), 5)]
    assert lengths == [len(ids) + n for n in range(5)]
    assert tokens == [*islice(llama().generate(ids, temp=0, logits_processor=logits_processor(PRICE)), 5)]


def test_a_hook_sees_the_tokens_up_to_the_place_that_is_asked_about() -> None:
    class Held:
        input_ids, n_tokens = np.arange(8, dtype=np.intc), 5

    seen: list[list[int]] = []

    def call(ids: Any, scores: Any) -> Any:
        seen.append(ids.tolist())
        return scores + 1

    held, data = Held(), (llama_cpp.llama_token_data * 3)()
    guarded = GuardedList([call], held, lambda: None)
    for guarded.idx in (None, 4, 2):
        guarded._run_alone(pointer(data))
    assert seen == [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4], [0, 1, 2]]
    assert [one.logit for one in data] == [3.0] * 3
    assert (guarded.runs, guarded.errors) == (3, [])


@pytest.mark.parametrize("beside", [False, True])
def test_all_but_the_first_token_of_hooks_alone_are_chosen_so(beside: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def logits(self: Candidates, given: Any, inner: Any = Candidates.logits) -> Any:
        seen.append(given.contents.size)
        return inner(self, given)

    monkeypatch.setattr(Candidates, "logits", logits)
    hooks = logits_processor(PRICE)
    given = llama_cpp.LogitsProcessorList([*hooks, lambda _, scores: scores]) if beside else hooks
    ids = llama().tokenize(b"The price of the lamp is")
    tokens = [*islice(llama().generate(ids, temp=0, logits_processor=given), 5)]
    assert seen == [] if beside else [vocabulary().size] * 4
    assert tokens == [*islice(llama().generate(ids, temp=0, logits_processor=logits_processor(PRICE)), 5)]
