"""An error of a processor in every way to generate, and beside everything that may stand around it: it comes out as itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import llama_cpp
import pytest
from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit_adapters.llama_cpp import logits_processor
from tests.adapters.demo import vocabulary
from tests.adapters.demo_llama_cpp import PROMPT, ids, llama, loaded
from tests.adapters.test_llama_cpp_errors import Surprise, failing

DIGITS = lk.Regex("[0-9]{24}", vocabulary())


def same(input_ids: Any, scores: Any) -> Any:
    return scores


def fresh(input_ids: Any, scores: Any) -> Any:
    return scores.copy()


def dropping(hook: Any) -> Any:
    """A function of the caller's that hides what goes wrong in a hook."""

    def call(input_ids: Any, scores: Any) -> Any:
        try:
            return hook(input_ids, scores)
        except Exception:  # noqa: BLE001
            return scores

    return call


class Around:
    """An object of the caller's that calls a hook."""

    def __init__(self, hook: Any) -> None:
        self.hook = hook

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        return self.hook(input_ids, scores)

    def method(self, input_ids: Any, scores: Any) -> Any:
        return self.hook(input_ids, scores)


LISTS: dict[str, Callable[[Any], list[Any]]] = {
    "alone": lambda hook: [hook],
    "others before": lambda hook: [same, fresh, hook],
    "others after": lambda hook: [hook, fresh, same],
    "between others": lambda hook: [fresh, hook, fresh],
    "between ours": lambda hook: [*logits_processor(DIGITS), hook, *logits_processor(lk.RepetitionPenalty(1.1))],
    "in a function": lambda hook: [same, lambda input_ids, scores: hook(input_ids, scores)],  # noqa: PLW0108
    "in an object": lambda hook: [Around(hook), fresh],
    "in a method": lambda hook: [fresh, Around(hook).method],
    "in a partial": lambda hook: [partial(Around.method, Around(hook))],
    "in what drops errors": lambda hook: [same, dropping(hook)],
    "in a list": lambda hook: [llama_cpp.LogitsProcessorList([same, hook])],
}


def texts_of(chunks: Iterator[Any]) -> Iterator[str]:
    """The text of a stream, chunk by chunk, without empty chunks."""
    for chunk in chunks:
        choice = chunk["choices"][0]
        text = choice["text"] if "text" in choice else choice["delta"].get("content", "")
        if text:
            yield text


def tokens(engine: Any, processors: Any) -> Iterator[str]:
    for token in engine.generate(ids(PROMPT), temp=0, logits_processor=processors):
        yield vocabulary().decode([token]).decode()


def stepped(engine: Any, processors: Any) -> Iterator[str]:
    engine.reset()
    engine.eval(ids(PROMPT))
    while True:
        token = engine.sample(temp=0, logits_processor=processors)
        yield vocabulary().decode([token]).decode()
        engine.eval([token])


def completed(engine: Any, processors: Any, **options: Any) -> Iterator[str]:
    answer = engine.create_completion(PROMPT, temperature=0, max_tokens=40, logits_processor=processors, **options)
    yield from texts_of(answer) if options.get("stream") else [answer["choices"][0]["text"]]


def chatted(engine: Any, processors: Any, **options: Any) -> Iterator[str]:
    messages = [{"role": "user", "content": PROMPT}]
    answer = engine.create_chat_completion(
        messages, temperature=0, max_tokens=40, logits_processor=processors, **options
    )
    yield from texts_of(answer) if options.get("stream") else [answer["choices"][0]["message"]["content"]]


BIAS = {"logit_bias": {40: 3.0}}
PATHS: dict[str, Callable[[Any, Any], Iterator[str]]] = {
    "generate": tokens,
    "sample": stepped,
    "completion": completed,
    "completion with logit_bias": partial(completed, **BIAS),
    "stream": partial(completed, stream=True),
    "stream with logit_bias": partial(completed, stream=True, **BIAS),
    "chat": chatted,
    "chat with logit_bias": partial(chatted, **BIAS),
    "chat stream": partial(chatted, stream=True),
    "chat stream with logit_bias": partial(chatted, stream=True, **BIAS),
}


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("around", LISTS)
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("after", [0, 4])
def test_no_token_comes_after_it(path: str, around: str, after: int) -> None:
    hook = logits_processor(lk.chain(DIGITS, failing(Surprise("mine"), after)))[0]
    said: list[str] = []
    with pytest.raises(Surprise, match="mine"):
        said.extend(PATHS[path](llama(), llama_cpp.LogitsProcessorList(LISTS[around](hook))))
    text = "".join(said)
    # Whatever was said before was constrained.
    assert text.isdigit() or not text
    assert len(said) <= after
    if path in ("generate", "sample"):
        assert len(said) == after


@pytest.mark.parametrize("around", LISTS)
@pytest.mark.parametrize("path", [path for path in PATHS if path != "sample"])
def test_a_draft_model_is_refused(drafting: Any, path: str, around: str) -> None:
    hook = logits_processor(DIGITS)[0]
    with pytest.raises(ConfigurationError, match="draft_model"):
        list(PATHS[path](drafting, llama_cpp.LogitsProcessorList(LISTS[around](hook))))


@pytest.fixture(scope="module")
def drafting() -> Any:
    return loaded(draft_model=LlamaPromptLookupDecoding())


STREAMS = [path for path in PATHS if path in ("generate", "stream", "chat stream", "stream with logit_bias")]


@pytest.mark.parametrize("around", ["alone", "others before", "in a function"])
@pytest.mark.parametrize("second", STREAMS)
@pytest.mark.parametrize("first", STREAMS)
def test_two_that_take_turns_do_not_mix(first: str, second: str, around: str) -> None:
    lists = [llama_cpp.LogitsProcessorList(LISTS[around](logits_processor(DIGITS)[0])) for _ in range(2)]
    one, other = (PATHS[path](llama(), processors) for path, processors in zip((first, second), lists, strict=True))
    assert (next(one) + next(other)).isdigit()
    with pytest.raises(ConfigurationError, match="used for something else"):
        next(one)
    # The one that has the engine goes on.
    assert (next(other) + next(other)).isdigit()
