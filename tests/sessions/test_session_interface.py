"""One interface of sessions: what is written for one engine can be written for vLLM."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import pytest

from logitkit.errors import ConfigurationError
from logitkit_adapters.sessions import Session, continuous
from logitkit_adapters.vllm.session import Session as VllmSession


@pytest.mark.parametrize("method", ["__init__", "__enter__", "__exit__", "close", "generate"])
def test_methods_take_the_same_parameters(method: str) -> None:
    ours, theirs = (
        [
            # In vLLM a processor may be its configuration too, and a model is a `LLM`.
            (
                p.name if p.name != "llm" else "model",
                p.kind,
                p.default,
                "" if p.name == "processor" else str(p.annotation),
            )
            for p in inspect.signature(getattr(kind, method)).parameters.values()
        ]
        for kind in (Session, VllmSession)
    )
    assert ours == theirs


def test_sessions_have_the_same_properties() -> None:
    def public(kind: type) -> dict[str, tuple[bool, bool]]:
        return {
            name: (isinstance(value, property), isinstance(value, property) and value.fset is not None)
            for name, value in inspect.getmembers_static(kind)
            if not name.startswith("_")
        }

    assert public(Session) == public(VllmSession)
    assert public(Session)["position"] == (True, True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rolling": True}, "rolling=True is not possible: vLLM's cached blocks .* leave rolling=False"),
        ({"max_cached_tokens": 100}, "max_cached_tokens is 100, but vLLM bounds its cache by itself; give LLM"),
        ({"make_cache": list}, "make_cache is given, but vLLM makes its cache by itself; give LLM"),
    ],
    ids=str,
)
def test_what_vllm_decides_is_refused_by_name(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        VllmSession(object(), **options)


@pytest.mark.parametrize("engine", ["transformers", "mlx_lm", "llama_cpp"])
def test_each_adapter_offers_sessions_and_generators(engine: str) -> None:
    module = importlib.import_module(f"logitkit_adapters.{engine}")
    assert module.Session is Session
    assert module.continuous is continuous
    assert {"Session", "continuous"} <= {*module.__all__}
