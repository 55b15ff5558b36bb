"""Copies of a state go on as it does, by themselves; what cannot be pickled says what to do instead."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch

import logitkit as lk
from logitkit.errors import LogitkitError
from logitkit.protocol import leaves
from logitkit.sessions.sequence_state import TENSORS
from logitkit_adapters.sessions import continuous
from tests.adapters.demo import vocabulary
from tests.sessions.continuation import PROMPTS
from tests.sessions.engines import ENGINES, loaded, watched
from tests.sessions.spelling import state_of


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_goes_on_with_the_cache(engine: str, copied: Callable[[Any], Any]) -> None:
    date = lk.Regex(r" [0-9]{4}-[0-9]{2}-[0-9]{2}\.", vocabulary())
    text = continuous(*loaded(engine), lk.chain(lk.FrequencyPenalty(0.5), date))
    state = text(PROMPTS, max_new_tokens=4)
    other = copied(state)
    assert other is not state
    assert (other.rows, other.texts, repr(other)) == (state.rows, state.texts, repr(state))
    for carry in (True, False):
        expected = text(state, max_new_tokens=5, carry_state=carry)
        with watched(loaded(engine)[0]) as fed:
            found = text(other, max_new_tokens=5, carry_state=carry)
        assert found.rows == expected.rows
        torch.testing.assert_close(found.weights, expected.weights)
        assert max(fed) == 1


def test_a_deep_copy_has_tensors_of_its_own_and_shares_the_rest() -> None:
    text = continuous(*loaded("transformers"), lk.FrequencyPenalty(0.5))
    state, fresh = (text(PROMPTS, max_new_tokens=2) for _ in range(2))
    other, again = copy.deepcopy([state, state])
    assert other is again
    assert (other.kv_cache, other.port, other.tokenizer) == (state.kv_cache, state.port, state.tokenizer)
    for tensor in (*(getattr(other, name) for name in TENSORS), *leaves(other.processor_state)):
        tensor.zero_()
    carried = [text(one, max_new_tokens=3, carry_state=True) for one in (state, fresh)]
    assert carried[0].rows == carried[1].rows
    torch.testing.assert_close(carried[0].weights, carried[1].weights)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickling_says_what_to_do(protocol: int) -> None:
    with pytest.raises(TypeError, match=r"state\.save\(folder\)") as caught:
        pickle.dumps(state_of([[97, 98]]), protocol)
    assert isinstance(caught.value, LogitkitError)
