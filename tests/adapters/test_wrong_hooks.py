"""Processors without a hook, hooks outside of their list and hooks of another engine: every engine raises, and writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import llama_cpp
import mlx_lm
import pytest
import torch
from mlx_vlm.generate import generate

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit_adapters import llama_cpp as for_llama_cpp
from logitkit_adapters import mlx_lm as for_mlx_lm
from logitkit_adapters import mlx_vlm as for_mlx_vlm
from logitkit_adapters import transformers as for_transformers
from tests.adapters import demo, demo_mlx_lm, vision_models
from tests.adapters.demo_llama_cpp import llama
from tests.sessions.misuse import WithoutAdvance

PROMPT = "The price of the lamp is "
CHOICE = lk.Choice(["a", "b"], demo.vocabulary())
BARE = (
    CHOICE,
    lk.chain(CHOICE, lk.TopK(5)),
    lk.Temperature(2.0),
    lk.RepetitionPenalty(1.1),
    lk.StopStrings([","], demo.vocabulary()),
)


class Foreign:
    """A processor that derives from nothing of logitkit's."""

    def init_state(self, context: lk.Context) -> tuple[()]:
        return ()

    def advance(self, state: tuple[()], tokens: torch.Tensor) -> tuple[()]:
        return state

    def process_logits(
        self, state: tuple[()], logits: torch.Tensor, context: lk.Context
    ) -> tuple[tuple[()], torch.Tensor]:
        return state, logits


def in_transformers(hooks: Any) -> None:
    inputs = demo.tokenizer()(PROMPT, return_tensors="pt")
    demo.model().generate(**inputs, max_new_tokens=3, logits_processor=hooks)


def in_mlx_lm(hooks: Any) -> None:
    mlx_lm.generate(*demo_mlx_lm.loaded(), PROMPT, max_tokens=3, logits_processors=hooks)


def in_mlx_lm_batches(hooks: Any) -> None:
    model, tokenizer = demo_mlx_lm.loaded()
    mlx_lm.batch_generate(model, tokenizer, [tokenizer.encode(PROMPT)], max_tokens=3, logits_processors=hooks)


def in_mlx_vlm(hooks: Any) -> None:
    generate(*vision_models.loaded("shipped"), PROMPT, max_tokens=3, logits_processors=hooks)


def in_llama_cpp(hooks: Any) -> None:
    llama().create_completion(PROMPT, max_tokens=3, logits_processor=hooks)


def in_llama_cpp_chats(hooks: Any) -> None:
    llama().create_chat_completion([{"role": "user", "content": PROMPT}], max_tokens=3, logits_processor=hooks)


def in_llama_cpp_generate(hooks: Any) -> None:
    next(llama().generate([1, 5], logits_processor=hooks))


def in_llama_cpp_sample(hooks: Any) -> None:
    model = llama()
    model.reset()
    model.eval([1, 5])
    model.sample(logits_processor=hooks)


class Engine(NamedTuple):
    name: str
    run: Callable[[Any], None]
    hook: Callable[[Any], Any]  # the hook, without the list that some adapters put around it


ENGINES = (
    Engine("transformers", in_transformers, for_transformers.logits_processor),
    Engine("mlx-lm", in_mlx_lm, for_mlx_lm.logits_processor),
    Engine("mlx-lm", in_mlx_lm_batches, for_mlx_lm.logits_processor),
    *(
        Engine("llama.cpp", run, lambda p: for_llama_cpp.logits_processor(p)[0])
        for run in (in_llama_cpp, in_llama_cpp_chats, in_llama_cpp_generate, in_llama_cpp_sample)
    ),
    Engine("mlx-vlm", in_mlx_vlm, for_mlx_vlm.logits_processor),
)

pytestmark = pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.run.__name__)


@pytest.mark.parametrize("processor", BARE, ids=lambda processor: type(processor).__name__)
@pytest.mark.parametrize("around", [lambda p: [p], lambda p: p], ids=["in a list", "alone"])
def test_a_processor_is_not_a_hook(engine: Engine, processor: Any, around: Callable[[Any], Any]) -> None:
    with pytest.raises(
        ConfigurationError, match=rf"given the processor {type(processor).__name__} itself.*logits_processor\("
    ):
        engine.run(around(processor))


def test_a_processor_of_a_class_of_its_own(engine: Engine) -> None:
    # transformers and mlx-lm raise by themselves, when they call it.
    with pytest.raises(
        ConfigurationError if engine.name == "llama.cpp" else (AttributeError, TypeError), match="Foreign"
    ):
        engine.run([Foreign()])


@pytest.mark.parametrize("around", [lambda p: [p], lambda p: p], ids=["in a list", "alone"])
def test_a_class_or_an_object_without_a_method(engine: Engine, around: Callable[[Any], Any]) -> None:
    said = {
        lk.TopK: "the class TopK; create an instance, TopK",
        dict: "the class dict",
        WithoutAdvance(): "without advance",
    }
    for given, words in said.items():
        if engine.name == "llama.cpp":
            with pytest.raises(ConfigurationError, match=f"an item of the hooks for llama.cpp is .*{words}"):
                engine.run(around(given))
        else:
            # transformers and mlx-lm raise by themselves, when they call it or look at its parameters.
            with pytest.raises((AttributeError, TypeError, ValueError)):
                engine.run(around(given))


@pytest.mark.parametrize("other", [ENGINES[0], ENGINES[1], ENGINES[3], ENGINES[-1]], ids=lambda other: other.name)
def test_hooks_of_other_engines(engine: Engine, other: Engine) -> None:
    if other.name == engine.name:
        engine.run([other.hook(CHOICE)])
        return
    for hooks in ([other.hook(CHOICE)], [other.hook(lk.TopK(5))]):
        with pytest.raises(
            ConfigurationError, match=rf"^{engine.name} was given a hook made for {other.name}.*adapter"
        ):
            engine.run(hooks)


def test_lists_of_llama_cpp(engine: Engine) -> None:
    """It has a list of its own kind, which is callable."""
    hooks = llama_cpp.LogitsProcessorList([for_llama_cpp.logits_processor(CHOICE)[0]])
    if engine.name == "llama.cpp":
        engine.run(hooks)
        engine.run([hooks])
        return
    for given in (hooks, [hooks]):
        with pytest.raises(ConfigurationError, match=r"hook made for llama\.cpp"):
            engine.run(given)


def test_a_hook_outside_of_its_list(engine: Engine) -> None:
    hook = engine.hook(CHOICE)
    if engine.name == "llama.cpp":
        engine.run(hook)  # which the guard can put into one
        assert hook.state is not None
        return
    with pytest.raises(ConfigurationError, match=r"a hook outside of a list; write logits_processors?=\["):
        engine.run(hook)
    assert bool(hook)
