"""Decoders take their caches as `cache`, `past_key_values` or `cache_params`: each name serves sessions, states and fixed caches.

The models here keep the weights of another one and rename its argument, like transformers 5.24 and like code from a model hub.
"""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from logitkit.errors import ConfigurationError
from logitkit_adapters.sessions import Session, continuous
from logitkit_adapters.transformers import fixed_cache, prefill
from logitkit_adapters.transformers.cache_argument import cache_argument, makes_own_cache
from tests.adapters import demo
from tests.sessions import recurrent_models

IDS = [280, 661, 509, 277, 372, 81, 87, 338, 311, 1086]


def renamed(model: Any, name: str) -> Any:
    """Return a model whose `forward` takes its cache under a name, and which returns it under this name."""
    native = cache_argument(model)

    def run(self: Any, given: Any, options: dict[str, Any]) -> Any:
        output = super(kind, self).forward(**options, **{native: given})
        return SimpleNamespace(logits=output.logits, **{name: output.get(native)})

    def cache(self: Any, input_ids: Any = None, cache: Any = None, position_ids: Any = None, **others: Any) -> Any:
        return run(self, cache, {"input_ids": input_ids, "position_ids": position_ids, **others})

    def past_key_values(
        self: Any, input_ids: Any = None, past_key_values: Any = None, position_ids: Any = None, **others: Any
    ) -> Any:
        return run(self, past_key_values, {"input_ids": input_ids, "position_ids": position_ids, **others})

    def cache_params(self: Any, input_ids: Any = None, cache_params: Any = None, **others: Any) -> Any:
        return run(self, cache_params, {"input_ids": input_ids, **others})

    forwards: dict[str, Any] = {"cache": cache, "past_key_values": past_key_values, "cache_params": cache_params}
    kind: Any = type(type(model).__name__, (type(model),), {"forward": forwards[name]})
    changed = copy.copy(model)
    changed.__class__ = kind
    return changed


@pytest.mark.parametrize("name", ["cache", "past_key_values"])
def test_an_attention_model_takes_its_cache_under_either_name(name: str) -> None:
    model, original = renamed(demo.model(), name), demo.model()
    assert cache_argument(model) == name
    with Session(model) as session:
        first = session.generate(IDS, max_new_tokens=4)
        again = session.generate([*IDS, *first.rows[0].token_ids, 300], max_new_tokens=4)
        assert again.rows[0].cached_tokens > len(IDS)
    with Session(original) as session:
        same = session.generate([*IDS, *first.rows[0].token_ids, 300], max_new_tokens=4)
        assert same.rows[0].token_ids == again.rows[0].token_ids

    prompts = ["The price of", "On"]
    state = continuous(model, demo.tokenizer())(prompts, max_new_tokens=4)
    assert state.kv_cache is not None
    longer = continuous(model, demo.tokenizer())(state, max_new_tokens=4)
    assert longer.rows == continuous(original, demo.tokenizer())(prompts, max_new_tokens=8).rows

    ids = torch.tensor([IDS])
    held = prefill(model, ids[:, 4:], prefill(model, ids[:, :4], fixed_cache(model, 1, 32)))
    torch.testing.assert_close(held.logits, original(ids).logits[:, -1], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("kind", "name"), [("Mamba", "cache"), ("Mamba", "cache_params"), ("xLSTM", "cache")])
def test_a_recurrent_model_takes_and_returns_its_cache_under_any_name(kind: str, name: str) -> None:
    model = renamed(recurrent_models.model(kind), name)
    assert makes_own_cache(model) == (kind == "xLSTM" or name == "cache_params")
    with Session(model) as session:
        first = session.generate(IDS, max_new_tokens=4).rows[0].token_ids
        again = session.generate([*IDS, *first, 9], max_new_tokens=4)
        assert again.rows[0].cached_tokens > len(IDS)
    assert [token for token in again.rows[0].token_ids if token != 2] == recurrent_models.greedy(
        kind, [*IDS, *first, 9], 4
    )
    if makes_own_cache(model):
        with pytest.raises(ConfigurationError, match=rf"makes its cache \({name}\) by itself"):
            Session(model, make_cache=list)


def test_a_compiled_model_is_asked_for_the_name_that_the_model_has() -> None:
    model = renamed(demo.model(), "cache")
    assert cache_argument(torch.compile(model, backend="eager")) == "cache"
    with pytest.raises(
        ConfigurationError, match=r"Linear takes no cache \(cache, past_key_values, cache_params, state\)"
    ):
        cache_argument(torch.nn.Linear(2, 2))
