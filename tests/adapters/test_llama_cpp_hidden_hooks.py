"""Hooks that stand in functions and lists of the caller's, and subclasses of `Llama`: nothing goes unconstrained in silence."""

from __future__ import annotations

import re
from collections import UserList
from collections.abc import Callable
from itertools import islice
from typing import Any

import llama_cpp
import numpy as np
import pytest
from llama_cpp.llama_grammar import LlamaGrammar
from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

import logitkit as lk
from logitkit.errors import ConfigurationError, ProcessorError, VocabularyError
from logitkit_adapters.llama_cpp import logits_processor
from tests.adapters.demo import vocabulary
from tests.adapters.demo_llama_cpp import COLOURS, PROMPT, ids, llama, llama_text, loaded, text_of
from tests.adapters.test_llama_cpp_errors import Surprise, failing

Hide = Callable[[Any], Any]


def in_lambda(hook: Any) -> Any:
    return llama_cpp.LogitsProcessorList([lambda ids, scores: hook(ids, scores)])  # noqa: PLW0108 (it hides the hook)


class OwnList(llama_cpp.LogitsProcessorList):
    """A list that says what is in it to those only who iterate over it."""

    def __init__(self, hook: Any) -> None:
        super().__init__()
        self._hook = hook

    def __iter__(self) -> Any:
        return iter([self._hook])


HIDDEN: dict[str, Hide] = {
    "lambda": in_lambda,
    "lambda in a plain list": lambda hook: list(in_lambda(hook)),
    "user list": lambda hook: UserList([hook]),
    "own list": OwnList,
    "tuple": lambda hook: (hook,),
    "iterator": lambda hook: iter([hook]),
    "no list": lambda hook: hook,
}


def completion(engine: Any, processors: Any, **options: Any) -> str:
    text: str = engine.create_completion(PROMPT, temperature=0, max_tokens=60, logits_processor=processors, **options)[
        "choices"
    ][0]["text"]
    return text


@pytest.mark.parametrize("hide", HIDDEN.values(), ids=HIDDEN)
def test_a_hidden_hook_constrains_text_as_one_in_the_open(hide: Hide) -> None:
    processors, expected = hide(logits_processor(COLOURS)[0]), llama_text(PROMPT.encode()).decode()
    assert completion(llama(), processors) == expected
    if not hasattr(processors, "__next__"):
        assert completion(llama(), processors) == expected


@pytest.mark.parametrize("hide", HIDDEN.values(), ids=HIDDEN)
def test_a_hidden_hook_and_logit_bias_both_work(hide: Hide) -> None:
    first = completion(llama(), logits_processor(COLOURS))
    begin = next(llama().generate(ids(PROMPT), temp=0, logits_processor=logits_processor(COLOURS)))
    bias = {token: -100.0 for token, text in enumerate(vocabulary().tokens) if text and text[:1] == first[:1].encode()}
    assert begin in bias
    expected = completion(llama(), logits_processor(COLOURS), logit_bias=bias)
    assert expected != first
    assert re.fullmatch(COLOURS.pattern, expected)
    assert completion(llama(), hide(logits_processor(COLOURS)[0]), logit_bias=bias) == expected


def test_a_logit_bias_that_cannot_be_is_refused_beside_any_processor() -> None:
    with pytest.raises(VocabularyError):
        completion(llama(), in_lambda(logits_processor(COLOURS)[0]), logit_bias={5000: 1.0})


@pytest.mark.parametrize("hide", HIDDEN.values(), ids=HIDDEN)
def test_a_draft_model_is_refused_with_a_hidden_hook(hide: Hide) -> None:
    engine = loaded(draft_model=LlamaPromptLookupDecoding())
    with pytest.raises(ConfigurationError, match="draft_model"):
        completion(engine, hide(logits_processor(COLOURS)[0]))


def test_penalties_and_grammars_are_judged_with_a_hidden_hook_too() -> None:
    hidden = in_lambda(logits_processor(COLOURS)[0])
    with pytest.raises(ConfigurationError, match="penalty is"):
        completion(llama(), hidden, repeat_penalty=-1.0)
    grammar = LlamaGrammar.from_string("root ::= [0-9]+", verbose=False)
    with pytest.raises(ConfigurationError, match="grammar and logits_processor have no allowed token in common"):
        completion(llama(), hidden, grammar=grammar)


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_function_around_a_hook_that_fails_reaches_the_caller() -> None:
    hook = logits_processor(COLOURS)[0]

    def broken(ids: Any, scores: Any) -> Any:
        hook(ids, scores)
        raise Surprise

    def nothing(ids: Any, scores: Any) -> Any:
        hook(ids, scores)

    with pytest.raises(Surprise):
        completion(llama(), llama_cpp.LogitsProcessorList([broken]))
    with pytest.raises(TypeError):
        completion(llama(), llama_cpp.LogitsProcessorList([nothing]))


@pytest.mark.parametrize("other", ["hidden", "the same", "plain"])
@pytest.mark.parametrize("resumed", [0, 1])
def test_two_generations_of_which_one_hides_a_hook_do_not_mix(other: str, resumed: int) -> None:
    hidden = in_lambda(logits_processor(COLOURS)[0])
    second = {"hidden": in_lambda(logits_processor(COLOURS)[0]), "the same": hidden, "plain": None}[other]
    both = [llama().generate(ids(PROMPT), temp=0, logits_processor=one) for one in (hidden, second)]
    if resumed and other == "plain":
        both.reverse()
    next(both[0]), next(both[1])
    with pytest.raises(ConfigurationError, match="used for something else"):
        next(both[0])


def test_generations_of_two_llamas_with_one_hidden_hook_do_not_disturb_each_other() -> None:
    hidden, engines = in_lambda(logits_processor(COLOURS)[0]), (llama(), loaded())
    both = [engine.generate(ids(PROMPT), temp=0, logits_processor=hidden) for engine in engines]
    for _ in range(5):
        assert next(both[0]) == next(both[1])
    assert text_of(both[0]) == text_of(both[1])


def test_a_new_generation_of_a_hidden_hook_starts_from_the_prompt() -> None:
    hidden = in_lambda(logits_processor(COLOURS)[0])
    begun = list(islice(llama().generate(ids(PROMPT), temp=0, logits_processor=hidden), 2))
    # To ids alone this is the first one, going on.
    text = text_of(llama().generate([*ids(PROMPT), *begun], temp=0, logits_processor=hidden))
    assert re.fullmatch(COLOURS.pattern.encode(), text)


def test_tokens_sent_to_a_generation_with_a_hidden_hook_are_refused() -> None:
    tokens = llama().generate(ids(PROMPT), logits_processor=in_lambda(logits_processor(COLOURS)[0]))
    next(tokens)
    with pytest.raises(ConfigurationError, match="drafts"):
        tokens.send([5, 6])


def test_a_hidden_hook_is_not_ignored_by_a_sample_that_another_generation_left_a_sampler_for() -> None:
    plain = llama().generate(ids(PROMPT), temp=0)
    next(plain)
    token = llama().sample(temp=0, logits_processor=in_lambda(logits_processor(COLOURS)[0]))
    assert vocabulary().decode([token]).decode() in "red green blue"


def test_processors_of_others_alone_are_left_alone(capfd: pytest.CaptureFixture[str]) -> None:
    logits_processor(COLOURS)
    seen: list[int] = []

    def other(ids: Any, scores: Any) -> Any:
        seen.append(len(ids))
        return np.zeros_like(scores)

    engine = loaded(draft_model=LlamaPromptLookupDecoding())
    together = llama_cpp.LogitsProcessorList([other])
    tokens = engine.generate(ids(PROMPT), temp=0, logits_processor=together)
    assert [next(tokens), next(tokens)] == [0, 0]
    assert tokens.send([5, 6]) == 0
    together[0] = lambda ids, scores: np.eye(len(scores), dtype=np.float32)[7]
    assert 7 in islice(tokens, 3)
    assert seen[0] == len(ids(PROMPT))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_errors_of_processors_of_others_alone_are_the_engines_affair() -> None:
    logits_processor(COLOURS)

    def wrong(ids: Any, scores: Any) -> Any:
        raise Surprise

    assert completion(llama(), llama_cpp.LogitsProcessorList([wrong]))


def test_what_the_engine_would_call_nothing_of_is_refused() -> None:
    logits_processor(COLOURS)
    for call in (llama().create_completion, lambda *args, **options: list(llama().generate(ids(PROMPT), **options))):
        with pytest.raises(ConfigurationError, match="pass a LogitsProcessorList"):
            call(PROMPT, logits_processor=lambda ids, scores: scores)


class OwnSample(llama_cpp.Llama):
    """A `Llama` that samples by itself."""

    def sample(self, *args: Any, **options: Any) -> int:
        sampler: Any = self._sampler
        token: int = sampler.sample(self._ctx, -1)
        return token


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("hide", [logits_processor, lambda one: in_lambda(logits_processor(one)[0])])
def test_a_llama_that_samples_by_itself_is_guarded(hide: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = loaded(kind=OwnSample)
    assert completion(engine, hide(COLOURS)) == llama_text(PROMPT.encode()).decode()
    tokens = engine.generate(ids(PROMPT), temp=0, logits_processor=hide(failing(Surprise(), after=2)))
    assert len([next(tokens), next(tokens)]) == 2
    with pytest.raises(Surprise):
        next(tokens)
    tokens = engine.generate(ids(PROMPT), temp=0, logits_processor=hide(COLOURS))
    next(tokens)
    monkeypatch.setattr(OwnSample, "sample", lambda self, **options: 5)
    with pytest.raises(ProcessorError, match="without calling"):
        next(tokens)


class FirstOfAnyName(llama_cpp.Llama):
    """Its `sample` names its parameters in its own way."""

    def sample(llama, top_k: int = 40, *rest: Any, logits_processor: Any = None, **options: Any) -> int:  # noqa: N805
        llama.seen = (top_k, rest, options)
        token: int = super().sample(top_k=top_k, logits_processor=logits_processor)
        return token


@pytest.mark.parametrize("arguments", [(1,), (1, 0.5)])
def test_positions_of_an_own_sample_are_kept(arguments: tuple[Any, ...]) -> None:
    engine = loaded(kind=FirstOfAnyName)
    engine.reset()
    engine.eval(ids(PROMPT))
    assert engine.sample(*arguments, logits_processor=logits_processor(COLOURS), minp=0.1) >= 0
    assert engine.seen == (1, arguments[1:], {"minp": 0.1})


def test_a_sample_at_a_place_before_the_last_sees_the_tokens_up_to_there() -> None:
    engine = loaded(logits_all=True)
    prompt = ids(PROMPT)
    engine.eval(prompt)
    seen: list[int] = []

    def watch(logits: Any, context: lk.Context) -> Any:
        seen.append(int(context.lengths[0]))
        return logits

    engine.sample(idx=3, logits_processor=logits_processor(lk.Stateless(watch)))
    engine.sample(logits_processor=logits_processor(lk.Stateless(watch)))
    assert seen == [4, len(prompt)]
    with pytest.raises(ConfigurationError, match="idx is 3"):
        engine.sample(idx=3, logits_processor=in_lambda(logits_processor(COLOURS)[0]))


@pytest.mark.parametrize(("everything", "idx"), [(True, -1), (True, 40), (False, 3)])
def test_a_place_without_logits_is_an_error_and_not_the_end_of_the_process(everything: bool, idx: Any) -> None:
    engine = loaded(logits_all=everything, n_batch=512)
    engine.eval(ids(PROMPT))
    with pytest.raises(ConfigurationError, match="idx is"):
        engine.sample(idx=idx, logits_processor=logits_processor(COLOURS))


def test_methods_that_others_have_wrapped_are_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrapped(original: Any) -> Any:
        return lambda *args, **options: original(*args, **options)  # noqa: PLW0108 (it has no names)

    logits_processor(COLOURS)
    for name in ("create_completion", "generate", "sample"):
        monkeypatch.setattr(llama_cpp.Llama, name, wrapped(getattr(llama_cpp.Llama, name)))
    expected = llama_text(PROMPT.encode()).decode()
    assert completion(llama(), logits_processor(COLOURS)) == expected
    assert completion(llama(), in_lambda(logits_processor(COLOURS)[0])) == expected
    with pytest.raises(Surprise):
        completion(llama(), logits_processor(failing(Surprise(), after=2)))
