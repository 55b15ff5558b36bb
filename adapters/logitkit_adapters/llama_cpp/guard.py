"""The guard of llama-cpp-python's generation: errors of hooks, the shared sampler and context, and `logit_bias`.

llama.cpp calls a hook through ctypes, which drops exceptions, and then chooses a token from unconstrained logits. Also, all
generations of a `Llama` share its sampler and its context. A hook cannot solve that itself, so `install` wraps three public
methods of `Llama`. Calls without `logits_processor` pass through unchanged, and so do calls with other processors, unless one
of them turns out to call a hook of logitkit.

- `sample` raises the exception of a hook instead of returning the token.
- `generate` runs the hooks of its list from the start, raises if anything else used the `Llama` between two of its
  tokens, and refuses a draft model.
- `create_completion` turns `logit_bias` into a hook before the others, because the engine would drop all of them. It passes the
  maximum number of tokens to hooks.
"""

# ruff: noqa: SLF001 (only `_sampler` shows whether a generation still has its `Llama` for itself)

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any

import llama_cpp

from logitkit.errors import ConfigurationError
from logitkit.tracking.generation import Room
from logitkit_adapters.hooks.engine_hook import EngineHook
from logitkit_adapters.llama_cpp.after_hooks import check_penalties
from logitkit_adapters.llama_cpp.guarded_list import GuardedList, flat, has_hook, on_thread

__all__ = ["install"]

_MARK = "_logitkit_guard"
_lock = threading.Lock()

# Attributes of the current sampler of a `Llama`: the list that it calls, and whether that is known to contain no hook.
_LIST, _CALLS_NONE = "_logitkit_list", "_logitkit_calls_none"


def install(bias: Callable[[Mapping[int, float]], EngineHook]) -> None:
    """Wrap the methods of `Llama`, unless that has been done.

    Args:
        bias: Returns a hook that adds to the logits of token ids.
    """
    methods: Any = llama_cpp.Llama
    with _lock:
        # Other wrappers around these have the mark too, if they use `functools.wraps`.
        if not hasattr(methods.generate, _MARK):
            methods.create_completion = _create_completion(methods.create_completion, bias)
            methods.generate = _generate(methods.generate)
            methods.sample = _sample(methods.sample)
            setattr(methods.generate, _MARK, True)


def _create_completion(original: Any, bias: Callable[[Mapping[int, float]], EngineHook]) -> Any:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def create_completion(*args: Any, **options: Any) -> Any:
        call = signature.bind(*args, **options)
        given, added = call.arguments.get("logits_processor"), call.arguments.get("logit_bias")
        # In any case, because a function in the list may turn out to call a hook of logitkit.
        if given is not None and added is not None:
            first = bias({int(token): number for token, number in added.items()})
            call.arguments["logits_processor"] = llama_cpp.LogitsProcessorList([first, *flat(given)])
            call.arguments["logit_bias"] = None
        processors = flat(call.arguments.get("logits_processor"))
        if has_hook(processors):
            most = call.arguments.get("max_tokens", signature.parameters["max_tokens"].default)
            bounded: Any = llama_cpp.LogitsProcessorList(processors)
            # `generate` does not get the limit itself. None, 0 and negative numbers mean as many as fit.
            bounded.max_new_tokens = most if most and most > 0 else None
            call.arguments["logits_processor"] = bounded
        return original(*call.args, **call.kwargs)

    return create_completion


def _generate(original: Any) -> Any:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def generate(*args: Any, **options: Any) -> Any:
        call = signature.bind(*args, **options)
        if call.arguments.get("logits_processor") is None:
            return original(*args, **options)
        return _in_turn(original, call, flat(call.arguments["logits_processor"]))

    return generate


def _in_turn(original: Any, call: inspect.BoundArguments, processors: Iterable[Any]) -> Generator[int, Any, None]:
    """Yield the tokens of a generation, as long as it has its `Llama` for itself, if that matters."""
    llama, arguments = call.arguments["self"], dict(call.arguments)
    room = Room(llama.n_ctx(), getattr(processors, "max_new_tokens", None))
    guarded = GuardedList(processors, llama, lambda: _check(llama, arguments), room)
    call.arguments["logits_processor"] = guarded
    tokens, sampler, sent = original(*call.args, **call.kwargs), None, None
    try:
        while True:
            runs = guarded.runs
            try:
                token = tokens.send(sent)
            except StopIteration:
                return
            # For a `Llama` with its own `sample`, the errors are raised here.
            if guarded.errors or guarded.runs == runs:
                guarded.raise_errors(runs)
            sampler, length = llama._sampler, llama.n_tokens
            sent = yield token
            if guarded.ours and sent is not None:
                raise ConfigurationError(
                    "tokens were sent to a generation, but llama-cpp-python treats them as drafts and shows them to hooks as if "
                    "they were text; end the generation, and start one whose prompt has them"
                )
            if guarded.ours and (llama._sampler is not sampler or llama.n_tokens != length):
                raise _disturbed()
    finally:
        tokens.close()
        # A sampler left in place would be used by the next caller of `sample`.
        if guarded.ours and (sampler is None or llama._sampler is sampler):
            llama._sampler = None


def _check(llama: Any, arguments: Mapping[str, Any]) -> None:
    if llama.draft_model is not None:
        raise ConfigurationError(
            "the Llama has a draft_model, whose drafts it shows to hooks as if they were text; load it without draft_model "
            "to use logits_processor"
        )
    check_penalties(arguments)


def _sample(original: Any) -> Any:
    signature = inspect.signature(original)
    # Wrappers by others without `functools.wraps` have other parameters.
    has_names = "logits_processor" in signature.parameters

    @functools.wraps(original)
    def sample(self: Any, *args: Any, **options: Any) -> Any:
        call = signature.bind(self, *args, **options) if args and has_names else None
        arguments = options if call is None else call.arguments
        given, idx = arguments.get("logits_processor"), arguments.get("idx")
        if isinstance(given, GuardedList):
            # This runs at every token, when the model has evicted everything from the CPU caches, so each call is expensive.
            runs = given.runs
            _turn(self, given, idx)
            token = original(self, *args, **options)
            if given.errors or given.runs == runs:
                given.raise_errors(runs)
            return token
        sampler = self._sampler
        turn: GuardedList | None = None if sampler is None else getattr(sampler, _LIST, None)
        if turn is not None and turn.ours:
            # Another generation had its turn, and its context has changed: that generation raises too.
            self._sampler = None
            raise _disturbed()
        if given is None:
            if sampler is not None:
                setattr(sampler, _CALLS_NONE, True)
            return _raising(original, self, args, options)
        processors = flat(given)
        # `Llama` ignores the list if an earlier generation has left a sampler.
        ignored = sampler is None or turn is not None or hasattr(sampler, _CALLS_NONE)
        if not (ignored or has_hook(processors)):
            return _raising(original, self, args, options)
        arguments["logits_processor"] = guarded = GuardedList(processors, self, lambda: check_penalties(arguments))
        self._sampler = None
        try:
            _turn(self, guarded, idx)
            token = original(self, *args, **options) if call is None else original(*call.args, **call.kwargs)
            guarded.raise_errors(0)
            return token
        finally:
            self._sampler = sampler

    return sample


def _turn(llama: Any, guarded: GuardedList, idx: Any) -> None:
    """Give a list its turn."""
    if llama._sampler is not None:
        setattr(llama._sampler, _LIST, guarded)
    if idx is not None and idx != llama.n_tokens - 1:
        _check_place(llama, idx)
    guarded.idx = idx


def _check_place(llama: Any, idx: Any) -> None:
    """Refuse a position without logits: llama.cpp would end the process."""
    known = llama._batch.n_tokens() if llama._logits_all else 1
    first = max(0, llama.n_tokens - known)
    if not first <= idx < llama.n_tokens:
        raise ConfigurationError(
            f"idx is {idx!r}, but llama.cpp only has the logits of tokens {first} to {llama.n_tokens - 1}; pass one of these"
            + ("" if llama._logits_all else ", or load the Llama with logits_all=True")
        )


def _raising(original: Any, llama: Any, args: Any, options: Any) -> Any:
    """Call `sample`, and raise the errors that hooks reported on this thread meanwhile."""
    errors: list[BaseException] = []
    outer, on_thread.errors = on_thread.errors, errors
    try:
        token = original(llama, *args, **options)
    finally:
        on_thread.errors = outer
    if errors:
        raise errors[0]
    return token


def _disturbed() -> ConfigurationError:
    return ConfigurationError(
        "this Llama was used for something else between two tokens of a generation with logits_processor, but they share "
        "one sampler and one context. End or close() a generation before the next one starts, or load a second Llama"
    )
