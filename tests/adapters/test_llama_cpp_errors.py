"""Errors that llama-cpp-python alone would drop reach the caller, and no token is returned instead."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from itertools import islice
from typing import Any

import llama_cpp
import numpy as np
import pytest
import torch
from llama_cpp.llama_grammar import LlamaGrammar
from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

import logitkit as lk
from logitkit.errors import BatchMismatch, ConfigurationError, ProcessorError, VocabularyError
from logitkit_adapters.llama_cpp import logits_processor
from tests.adapters.demo_llama_cpp import COLOURS, PROMPT, ids, llama, loaded

FIRST = """
import re
import llama_cpp
import logitkit as lk
from logitkit_adapters.demo import gguf_path
from logitkit_adapters.llama_cpp import logits_processor, vocabulary
llama = llama_cpp.Llama(str(gguf_path()), n_ctx=64, verbose=False)
date = lk.Regex(r" [0-9]{4}-[0-9]{2}", vocabulary(llama))
answer = llama.create_completion("The price of", max_tokens=16, logit_bias={5: 1.0}, logits_processor=logits_processor(date))
text = answer["choices"][0]["text"]
assert re.fullmatch(r" [0-9]{4}-[0-9]{2}", text), text
"""


def test_the_first_call_of_a_process_is_guarded_too() -> None:
    subprocess.run([sys.executable, "-c", FIRST], check=True)


class Surprise(Exception):
    pass


def failing(error: BaseException, after: int = 0) -> lk.Stateless:
    """A processor that raises in its call number `after`."""
    calls = iter(range(after))

    def fail(logits: torch.Tensor, context: lk.Context) -> torch.Tensor:
        if next(calls, None) is None:
            raise error
        return logits

    return lk.Stateless(fail)


def generated(processors: Any) -> list[int]:
    return list(islice(llama().generate(ids(PROMPT), logits_processor=processors), 9))


def streamed(processors: Any) -> list[Any]:
    return list(llama().create_completion(PROMPT, stream=True, logits_processor=processors))


def chat(processors: Any) -> Any:
    return llama().create_chat_completion([{"role": "user", "content": PROMPT}], logits_processor=processors)


def sampled(processors: Any) -> int:
    llama().reset()
    llama().eval(ids(PROMPT))
    token: int = llama().sample(logits_processor=processors)
    return token


MODES: dict[str, Callable[[Any], Any]] = {
    "generate": generated,
    "completion": lambda processors: llama().create_completion(PROMPT, logits_processor=processors),
    "call": lambda processors: llama()(PROMPT, logits_processor=processors),
    "stream": streamed,
    "chat": chat,
    "sample": sampled,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("error", [Surprise("first"), KeyboardInterrupt(), SystemExit(3), StopIteration()])
def test_an_error_reaches_the_caller_as_it_is(mode: str, error: BaseException) -> None:
    with pytest.raises(BaseException) as raised:  # noqa: PT011
        MODES[mode](logits_processor(failing(error)))
    # A generator turns StopIteration into RuntimeError, whoever raises it.
    found = raised.value.__cause__ if isinstance(error, StopIteration) and mode != "sample" else raised.value
    assert found is error
    # Nothing is left of it.
    text = llama().create_completion(PROMPT, max_tokens=40, logits_processor=logits_processor(COLOURS))
    assert re.fullmatch(COLOURS.pattern, text["choices"][0]["text"])


def test_tokens_before_an_error_are_returned_and_none_after() -> None:
    tokens = llama().generate(ids(PROMPT), temp=0, logits_processor=logits_processor(failing(Surprise(), after=3)))
    assert len([next(tokens), next(tokens), next(tokens)]) == 3
    with pytest.raises(Surprise):
        next(tokens)
    assert list(tokens) == []


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize(
    ("other", "error"),
    [
        pytest.param(lambda ids, scores: scores[9999], IndexError, id="raises"),
        pytest.param(lambda ids, scores: None, TypeError, id="returns nothing"),
        pytest.param(lambda ids, scores: scores[:-1], ValueError, id="returns less"),
    ],
)
def test_other_processors_of_the_list_are_guarded_too(place: int, other: Any, error: type[Exception]) -> None:
    together = llama_cpp.LogitsProcessorList(logits_processor(COLOURS))
    together.insert(place, other)
    with pytest.raises(error):
        llama().create_completion(PROMPT, logits_processor=together)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # ctypes says what it drops
def test_an_error_of_a_hook_in_a_function_reaches_the_caller() -> None:
    hook = logits_processor(failing(Surprise()))[0]

    def twice(input_ids: Any, scores: Any) -> Any:
        return hook(input_ids, hook(input_ids, scores))

    with pytest.raises(Surprise):
        llama().create_completion(PROMPT, logits_processor=llama_cpp.LogitsProcessorList([twice]))


def test_a_token_that_no_hook_had_a_say_in_is_not_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    # As after Ctrl-C between llama.cpp and the list, which ctypes drops.
    monkeypatch.setattr(llama_cpp.llama_cpp, "llama_sampler_sample", lambda *arguments: 5)
    with pytest.raises(ProcessorError, match="without calling logits_processor"):
        llama().create_completion(PROMPT, logits_processor=logits_processor(COLOURS))


def test_an_error_of_a_call_by_hand_is_raised_there_and_never_again() -> None:
    hook = logits_processor(failing(Surprise()))[0]
    with pytest.raises(Surprise):
        hook(np.array([1, 2], np.int32), np.zeros(4, np.float32))
    assert llama().create_completion(PROMPT, max_tokens=2)["usage"]["completion_tokens"] == 2


def test_a_draft_model_is_refused() -> None:
    engine = loaded(draft_model=LlamaPromptLookupDecoding())
    with pytest.raises(ConfigurationError, match="draft_model"):
        engine.create_completion(PROMPT, logits_processor=logits_processor(COLOURS))


def test_tokens_sent_to_a_generation_are_refused() -> None:
    tokens = llama().generate(ids(PROMPT), logits_processor=logits_processor(COLOURS))
    next(tokens)
    with pytest.raises(ConfigurationError, match="drafts"):
        tokens.send([5, 6])


@pytest.mark.parametrize(
    ("bias", "error"),
    [({5000: 1.0}, VocabularyError), ({-1: 1.0}, ConfigurationError), ({5: float("nan")}, ConfigurationError)],
)
def test_a_logit_bias_that_cannot_be_is_refused(bias: dict[int, float], error: type[Exception]) -> None:
    for processors in (logits_processor(COLOURS), llama_cpp.LogitsProcessorList([*logits_processor(COLOURS)])):
        with pytest.raises(error):
            llama().create_completion(PROMPT, logit_bias=bias, logits_processor=processors)


@pytest.mark.parametrize("mode", ["completion", "stream", "generate", "chat"])
@pytest.mark.parametrize(
    "grammar", ["root ::= [0-9]+", 'root ::= "blue" [a-z]*', 'root ::= ("red" | "blue") "x"*', "json"]
)
def test_a_grammar_that_leaves_no_token_is_an_error_and_not_the_end_of_the_process(mode: str, grammar: str) -> None:
    text = llama_cpp.llama_grammar.JSON_GBNF if grammar == "json" else grammar
    options = {"grammar": LlamaGrammar.from_string(text, verbose=False), "logits_processor": logits_processor(COLOURS)}
    calls = {
        "completion": lambda: llama().create_completion(PROMPT, max_tokens=60, **options),
        "stream": lambda: list(llama().create_completion(PROMPT, max_tokens=60, stream=True, **options)),
        "generate": lambda: list(llama().generate(ids(PROMPT), **options)),
        "chat": lambda: llama().create_chat_completion([{"role": "user", "content": PROMPT}], max_tokens=60, **options),
    }
    with pytest.raises(ConfigurationError, match="grammar and logits_processor have no allowed token in common"):
        calls[mode]()


def test_an_error_of_a_processor_beside_a_grammar_reaches_the_caller() -> None:
    def spoil(ids: Any, scores: Any) -> Any:
        scores[:] = -np.inf
        raise Surprise

    grammar = LlamaGrammar.from_string("root ::= [a-z]+", verbose=False)
    together = llama_cpp.LogitsProcessorList([*logits_processor(lk.RepetitionPenalty(1.1)), spoil])
    with pytest.raises(Surprise):
        llama().create_completion(PROMPT, logits_processor=together, grammar=grammar)


@pytest.mark.parametrize(
    "penalty",
    [
        {"repeat_penalty": -1.0},
        {"repeat_penalty": 0.0},
        {"frequency_penalty": 1e39},
        {"presence_penalty": float("-inf")},
    ],
)
def test_penalties_that_would_bring_masked_tokens_back_are_refused(penalty: dict[str, float]) -> None:
    llama().reset()
    llama().eval(ids(PROMPT))
    for call in (llama().sample, lambda **options: llama().create_completion(PROMPT, **options)):
        with pytest.raises(ConfigurationError, match="penalty is"):
            call(logits_processor=logits_processor(COLOURS), **penalty)


def test_a_prompt_that_the_engine_is_not_given_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="prompt"):
        llama().create_completion(PROMPT, logits_processor=logits_processor(COLOURS, prompt=[7, 8, 9]))


def test_a_value_that_is_not_a_processor_is_refused() -> None:
    for wrong in (lk.Regex, lambda ids, scores: scores, None):
        with pytest.raises(ConfigurationError, match="processor"):
            logits_processor(wrong)


def test_scores_that_do_not_fit_the_ids_are_refused() -> None:
    hook = logits_processor(COLOURS)[0]
    with pytest.raises(BatchMismatch):
        hook(np.zeros((2, 3), np.int32), np.zeros((3, 1280), np.float32))
    with pytest.raises(ConfigurationError):
        hook(np.zeros(3, np.int32), np.zeros(1280, np.int32))
