"""Every decode mode of every engine gives what plain greedy decoding gives, or does in each call what the core does."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

import llama_cpp
import numpy as np
import onnxruntime_genai as og
import pytest
from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

from logitkit.errors import ConfigurationError
from logitkit_adapters.llama_cpp import logits_processor
from logitkit_adapters.mlx_vlm import logits_processor as mlx_vlm_processor
from tests.adapters.demo import tokenizer
from tests.adapters.demo_llama_cpp import llama, loaded
from tests.adapters.demo_mlx_vlm import plain
from tests.conformance import (
    matrix,
    modes_llama_cpp,
    modes_mlx_lm,
    modes_mlx_vlm,
    modes_onnxruntime_genai,
    modes_transformers,
)
from tests.conformance.cases import FEWER, processors, prompts
from tests.conformance.families import FAMILIES, family

# vLLM has an environment of its own, and there its tests: tests/adapters_vllm/test_conformance.py.
ENGINES: dict[str, ModuleType] = {
    "transformers": modes_transformers,
    "mlx-lm": modes_mlx_lm,
    "mlx-vlm": modes_mlx_vlm,
    "llama.cpp": modes_llama_cpp,
    "ONNX Runtime GenAI": modes_onnxruntime_genai,
}

Claim = Callable[[str, object], None]


def chosen_prompts() -> list[list[int]]:
    return prompts("record, told not to repeat itself")[0][: 1 if FEWER else 3]


@pytest.mark.parametrize(("engine", "mode", "kind"), matrix.cases(ENGINES))
def test_a_mode_changes_nothing(engine: str, mode: str, kind: str, record_property: Claim) -> None:
    matrix.claim(record_property, engine, mode, kind)
    processor = family(kind)
    continuous = mode.startswith("continuous")
    # The hook of mlx-vlm is that of mlx-lm, so a prompt is enough.
    for prompt in chosen_prompts()[: 1 if continuous or engine == "mlx-vlm" else None]:
        found = getattr(ENGINES[engine], mode.replace(", ", "_"))(prompt, processor)
        if found is None:
            continue  # compared call by call
        wanted = modes_transformers.expected(tuple(prompt), kind)
        if continuous:
            assert found == wanted[: modes_transformers.FIRST_STEPS]
        elif isinstance(found, str):
            shown = tokenizer().decode(wanted, skip_special_tokens=engine == "llama.cpp")
            assert found == shown
        else:
            assert found == wanted


class TestWhatAnEngineHasNot:
    """If one of these fails, there is a new mode to test."""

    @pytest.mark.parametrize(
        ("engine", "module"),
        [("mlx-lm", "mlx_lm.generate"), ("mlx-vlm", "mlx_vlm.generate.ar"), ("llama.cpp", "llama_cpp.llama")],
    )
    def test_beams(self, engine: str, module: str, record_property: Claim) -> None:
        matrix.claim(record_property, engine, "beams", "")
        source = inspect.getsource(import_module(module))
        assert "def generate" in source
        assert "beam" not in source

    def test_batches(self, record_property: Claim) -> None:
        matrix.claim(record_property, "llama.cpp", "batched", "")
        assert "Union[str, List[int]]" in str(inspect.signature(llama_cpp.Llama.create_completion).parameters["prompt"])
        with pytest.raises((TypeError, ValueError)):
            next(llama().generate(chosen_prompts()))

    def test_logits_of_drafts(self, record_property: Claim) -> None:
        matrix.claim(record_property, "ONNX Runtime GenAI", "speculative", "")
        model = modes_onnxruntime_genai.model()
        parameters: Any = og.GeneratorParams(model)
        parameters.set_speculative_options(ngram_size=2)
        drafting: Any = og.Generator(model, parameters)
        drafting.append_tokens(np.array(chosen_prompts()[0] * 2, np.int32))
        with pytest.raises(RuntimeError, match="logits are not available"):  # noqa: PT012 - some step after a draft
            for _ in range(32):
                drafting.get_logits()
                drafting.generate_next_token()

    def test_drafts(self, record_property: Claim) -> None:
        matrix.claim(record_property, "llama.cpp", "speculative", "")
        engine = loaded(draft_model=LlamaPromptLookupDecoding())
        for kind in FAMILIES:
            hooks = logits_processor(family(kind))
            with pytest.raises(ConfigurationError, match="draft_model"):
                next(engine.generate(chosen_prompts()[0], logits_processor=hooks))

    def test_drafts_of_mlx_vlm(self, record_property: Claim) -> None:
        matrix.claim(record_property, "mlx-vlm", "speculative", "")
        source = inspect.getsource(import_module("mlx_vlm.speculative.utils"))
        assert "def run_speculative_rounds" in source
        assert "processor" not in source
        for kind in FAMILIES:
            hooks = [mlx_vlm_processor(family(kind))]
            with pytest.raises(ConfigurationError, match="draft_model"):
                plain(chosen_prompts()[0], hooks, draft_model=SimpleNamespace(), draft_kind="mtp")


def test_the_documentation_says_what_is_tested() -> None:
    assert matrix.published(ENGINES) == matrix.expected(ENGINES), "update it: python -m tests.conformance.matrix"


def test_the_processors_of_the_modes_matter() -> None:
    """Each changes what the model says to at least one of the prompts."""
    bare = processors()["empty chain"]
    unconstrained = [modes_transformers.greedy(prompt, bare) for prompt in chosen_prompts()]
    for kind in FAMILIES:
        if kind != "distribution":  # which changes no greedy choice
            assert [modes_transformers.expected(tuple(prompt), kind) for prompt in chosen_prompts()] != unconstrained, (
                kind
            )
