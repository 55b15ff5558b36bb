"""Functions that take a processor refuse hooks, lists of processors and classes, and say what to give instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit_adapters import llama_cpp as for_llama_cpp
from logitkit_adapters import mlx_lm as for_mlx_lm
from logitkit_adapters import transformers as for_transformers
from tests.adapters import demo, demo_mlx_lm
from tests.adapters.demo_llama_cpp import loaded


def continuous_batching(processor: Any) -> None:
    with for_transformers.continuous_batching(demo.model(), processor):
        pass


FRONT_ENDS: dict[str, Callable[[Any], Any]] = {
    "chain": lk.chain,
    "transformers logits_processor": for_transformers.logits_processor,
    "transformers Session": lambda p: for_transformers.Session(demo.model(), demo.tokenizer(), processor=p),
    "transformers continuous": lambda p: for_transformers.continuous(demo.model(), demo.tokenizer(), processor=p),
    "transformers continuous_batching": continuous_batching,
    "mlx-lm logits_processor": for_mlx_lm.logits_processor,
    "mlx-lm Session": lambda p: for_mlx_lm.Session(*demo_mlx_lm.loaded(), processor=p),
    "mlx-lm continuous": lambda p: for_mlx_lm.continuous(*demo_mlx_lm.loaded(), processor=p),
    "llama.cpp logits_processor": for_llama_cpp.logits_processor,
    "llama.cpp Session": lambda p: for_llama_cpp.Session(loaded(), processor=p),
    "llama.cpp continuous": lambda p: for_llama_cpp.continuous(loaded(), processor=p),
}

REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a hook": (lambda: for_transformers.logits_processor(lk.TopK(5)), "give the processor that the hook was made from"),
    "a list of hooks": (lambda: for_llama_cpp.logits_processor(lk.TopK(5)), "logitkit.chain"),
    "a list": (lambda: [lk.TopK(5), lk.TopP(0.5)], "logitkit.chain"),
    "a class": (lambda: lk.TopK, "the class TopK"),
    "a function": (lambda: len, "give a processor"),
}


# A list has the processors of rows, and a function returns those of requests.
TAKEN = {("transformers logits_processor", "a list"), ("transformers continuous_batching", "a function")}
CASES = [(front_end, given) for front_end in FRONT_ENDS for given in REFUSED if (front_end, given) not in TAKEN]


@pytest.mark.parametrize(("front_end", "given"), CASES)
def test_it_says_what_to_give(front_end: str, given: str) -> None:
    make, advice = REFUSED[given]
    if (front_end, given) == ("transformers logits_processor", "a list of hooks"):
        advice = "give the processor that the hook was made from"
    with pytest.raises(ConfigurationError, match=advice):
        FRONT_ENDS[front_end](make())
