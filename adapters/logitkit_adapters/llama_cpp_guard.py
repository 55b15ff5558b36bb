"""What llama-cpp-python leaves to luck while a hook of logitkit is in use: its errors, its turn, and `logit_bias`.

llama.cpp calls a hook through ctypes, which drops what the hook raises, and goes on to choose a token from
logits that nobody constrained. And all generations of one `Llama` share its sampler and its context. No hook can
mend that from within, so `install` wraps three public methods of `Llama`. Calls without a hook pass through as
they are.

- `sample` raises what a hook raised, in place of returning the token.
- `generate` runs the hooks of its list afresh, raises if anything else used the `Llama` between two of its
  tokens, and refuses a draft model.
- `create_completion` turns `logit_bias` into a hook before the others; by itself it would drop all of them.
"""

# ruff: noqa: SLF001 (whether a generation still has its `Llama` for itself, only `_sampler` tells)

from __future__ import annotations

import functools
import inspect
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, TypeAlias
from weakref import ref

import llama_cpp
import numpy as np

from logitkit.errors import ConfigurationError, ProcessorError
from logitkit_adapters.llama_cpp_after_hooks import check_grammar, check_penalties, grammar_of

__all__ = ["Call", "GuardedHook", "install", "report"]

Call: TypeAlias = Callable[[Any, Any], Any]

_MARK = "_logitkit_guard"
_lock = threading.Lock()
_sampling = threading.local()


class GuardedHook(ABC):
    """A hook whose errors must reach the caller of the engine."""

    @abstractmethod
    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Return the processed scores, [V] float32, which may be those given."""

    @abstractmethod
    def for_generation(self) -> Call:
        """Return the hook for one generation that begins with the next call."""


def report(error: BaseException) -> None:
    """Let `Llama.sample` raise an error, if it is what called this thread, in case ctypes drops it on the way."""
    errors: list[BaseException] | None = getattr(_sampling, "errors", None)
    if errors is not None:
        errors.append(error)


def install(bias: Callable[[Mapping[int, float]], GuardedHook]) -> None:
    """Wrap the methods of `Llama`, unless that was done before.

    Args:
        bias: Makes a hook that adds to the logits of token ids.
    """
    methods: Any = llama_cpp.Llama
    with _lock:
        # Wrappers that others put around these have the mark too, if they are made by `functools.wraps`.
        if not hasattr(methods.generate, _MARK):
            methods.create_completion = _create_completion(methods.create_completion, bias)
            methods.generate = _generate(methods.generate)
            methods.sample = _sample(methods.sample)
            setattr(methods.generate, _MARK, True)


class _Guarded(llama_cpp.LogitsProcessorList):
    """The one call that the engine makes for all hooks of a list."""

    def __init__(self, calls: Iterable[Call], llama: Any) -> None:
        self._calls = tuple(calls)
        self._llama: Any = ref(llama)
        self._grammar: Any = None
        self.runs = 0
        super().__init__([self._run])

    def _run(self, input_ids: Any, scores: Any) -> Any:
        if not self.runs:
            self._grammar = grammar_of(self._llama()._sampler)
        self.runs += 1
        before = None if self._grammar is None else scores.copy()
        try:
            for call in self._calls:
                processed = call(input_ids, scores)
                if processed is not scores:
                    # numpy would take None for NaN.
                    np.copyto(scores, processed, casting="same_kind")
            if before is not None:
                check_grammar(self._grammar, scores)
        except BaseException as error:  # noqa: BLE001 (raised by `sample`)
            report(error)
            if before is not None:
                # llama.cpp chooses a token all the same, and ends the process if its grammar forbids that.
                np.copyto(scores, before)
        return scores


# The attribute of a sampler that tells which list it calls. A sampler is an attribute of its `Llama` for as long as no other
# takes its place.
_LIST = "_logitkit_list"


def _hooks(processors: Any) -> list[Any]:
    """Return the processors of a list and of lists in it, if any is a hook of logitkit; else none."""
    flat = _flat(processors) if isinstance(processors, list) else []
    return flat if any(isinstance(one, GuardedHook) for one in flat) else []


def _flat(processors: list[Any]) -> list[Any]:
    return [inner for one in processors for inner in (_flat(one) if isinstance(one, list) else [one])]


def _create_completion(original: Any, bias: Callable[[Mapping[int, float]], GuardedHook]) -> Any:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def create_completion(*args: Any, **options: Any) -> Any:
        call = signature.bind(*args, **options)
        hooks, told = _hooks(call.arguments.get("logits_processor")), call.arguments.get("logit_bias")
        if hooks and told is not None:
            first = bias({int(token): number for token, number in told.items()})
            call.arguments["logits_processor"] = llama_cpp.LogitsProcessorList([first, *hooks])
            call.arguments["logit_bias"] = None
        return original(*call.args, **call.kwargs)

    return create_completion


def _generate(original: Any) -> Any:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def generate(*args: Any, **options: Any) -> Any:
        call = signature.bind(*args, **options)
        hooks = _hooks(call.arguments.get("logits_processor"))
        return _in_turn(original, call, hooks) if hooks else original(*args, **options)

    return generate


def _in_turn(original: Any, call: inspect.BoundArguments, hooks: list[Any]) -> Generator[int, Any, None]:
    """Yield the tokens of a generation for as long as it has its `Llama` for itself."""
    llama = call.arguments["self"]
    if llama.draft_model is not None:
        raise ConfigurationError(
            "a Llama with a draft_model shows its hooks drafts as if they were text; load it without draft_model "
            "to use logits_processor"
        )
    check_penalties(call.arguments)
    call.arguments["logits_processor"] = _Guarded(
        (hook.for_generation() if isinstance(hook, GuardedHook) else hook for hook in hooks), llama
    )
    tokens, sampler = original(*call.args, **call.kwargs), None
    try:
        for token in tokens:
            sampler, length = llama._sampler, llama.n_tokens
            sent = yield token
            if sent is not None:
                raise ConfigurationError(
                    "tokens that are sent to a generation are drafts to llama-cpp-python, which shows them to hooks as if "
                    "they were text; let the generation end, and begin one whose prompt has them"
                )
            if llama._sampler is not sampler or llama.n_tokens != length:
                raise _disturbed()
    finally:
        tokens.close()
        # A sampler that is left behind would serve whoever calls `sample` next.
        if sampler is None or llama._sampler is sampler:
            llama._sampler = None


def _sample(original: Any) -> Any:
    signature = inspect.signature(original)
    place = list(signature.parameters).index("logits_processor") - 1

    @functools.wraps(original)
    def sample(self: Any, *args: Any, **options: Any) -> Any:
        given = args[place] if len(args) > place else options.get("logits_processor")
        if isinstance(given, _Guarded):
            return _sample_guarded(original, self, given, args, options)
        if _list_of(self._sampler) is not None:
            # Another generation's turn, whose context has changed by now: that generation raises too.
            self._sampler = None
            raise _disturbed()
        hooks = _hooks(given)
        if not hooks:
            return _raising(original, self, args, options)
        check_penalties(signature.bind(self, *args, **options).arguments)
        # `Llama` gives no heed to the list if an earlier generation has left a sampler.
        guarded, left = _Guarded(hooks, self), self._sampler
        if len(args) > place:
            args = (*args[:place], guarded, *args[place + 1 :])
        else:
            options["logits_processor"] = guarded
        self._sampler = None
        try:
            return _sample_guarded(original, self, guarded, args, options)
        finally:
            self._sampler = left

    return sample


def _sample_guarded(original: Any, llama: Any, guarded: _Guarded, args: Any, options: Any) -> Any:
    """Return a token that all hooks of a list had a say in."""
    if llama._sampler is not None:
        setattr(llama._sampler, _LIST, guarded)
    runs = guarded.runs
    token = _raising(original, llama, args, options)
    if guarded.runs == runs:
        raise ProcessorError(
            "llama.cpp chose a token without calling logits_processor, as it does where its own code around that call is "
            "interrupted; the token was not returned"
        )
    return token


def _raising(original: Any, llama: Any, args: Any, options: Any) -> Any:
    """Call `sample`, and raise what hooks reported meanwhile on this thread."""
    outer: list[BaseException] | None = getattr(_sampling, "errors", None)
    errors: list[BaseException] = []
    _sampling.errors = errors
    try:
        token = original(llama, *args, **options)
    finally:
        _sampling.errors = outer
    if errors:
        raise errors[0]
    return token


def _list_of(sampler: Any) -> _Guarded | None:
    return getattr(sampler, _LIST, None)


def _disturbed() -> ConfigurationError:
    return ConfigurationError(
        "this Llama was used for something else between two tokens of a generation with logits_processor: they share "
        "one sampler and one context. Let a generation end, or close() it, before the next begins; or load a second Llama"
    )
