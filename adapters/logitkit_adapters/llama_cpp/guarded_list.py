"""The single call that llama.cpp makes for all hooks of a list, and the way of its errors to the caller."""

# ruff: noqa: SLF001 (only private attributes of `Llama` show the state of a generation)

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, TypeVar
from weakref import ref

import llama_cpp
import numpy as np

from logitkit.errors import ConfigurationError, ProcessorError
from logitkit.tracking.generation import Room
from logitkit_adapters.hooks.engine_hook import EngineHook, check_hooks
from logitkit_adapters.llama_cpp.after_hooks import check_grammar, grammar_of
from logitkit_adapters.llama_cpp.candidates import Candidates, call_instead

__all__ = [
    "Call",
    "GuardedList",
    "eos_of",
    "eos_of_running",
    "flat",
    "has_hook",
    "on_thread",
    "own_of_generation",
    "report",
]

Call: TypeAlias = Callable[[Any, Any], Any]
T = TypeVar("T")


class GuardedList(llama_cpp.LogitsProcessorList):
    """The list that the engine gets instead of the caller's.

    Args:
        processors: The functions to run, in order.
        llama: The `Llama` of the logits.
        check: Raises if a hook of logitkit cannot be used here.
        room: The token limits of the generation that all calls belong to, if they do.

    `ours` says whether one of the functions is known to run a hook of logitkit. If not, a call may still reveal one; until then,
    everything works as without the guard. `runs` counts the calls by llama.cpp, and `errors` contains the exceptions that are
    still to be raised.
    """

    def __init__(
        self, processors: Iterable[Any], llama: Any, check: Callable[[], None], room: Room | None = None
    ) -> None:
        self._llama: Any = ref(llama)
        self._check = check
        self._generation = room is not None
        self.ours = self._exact = has_hook(processors)
        self._alone = self.ours and self._generation and all(map(is_hook, processors))
        self._calls: Iterable[Call] = processors
        if self.ours and room is not None:
            ends = eos_of(llama)
            self._calls = [one.for_generation(room, ends) if is_hook(one) else one for one in processors]
        self._own: dict[EngineHook, Any] = {}
        self._grammar: Any = None
        self._candidates = Candidates()
        self.errors: list[BaseException] = []
        self.runs = 0
        self.idx: int | None = None
        super().__init__([self._run])
        if self.ours:
            check()

    def found(self, hook: EngineHook, make: Callable[[], T]) -> T | None:
        """Record that a hook of logitkit runs, and return its data for this generation, if it is one."""
        if not self.ours:
            self.ours = True
            self._check()
        if not self._exact and self.idx is not None and self.idx + 1 != self._llama().n_tokens:
            raise ConfigurationError(
                f"idx is {self.idx}, but a hook inside a function sees the tokens after it; put the hook itself into the list"
            )
        if not self._generation:
            return None
        if hook not in self._own:
            self._own[hook] = make()
        own: T = self._own[hook]
        return own

    def raise_errors(self, runs: int) -> None:
        """Raise the error of a call, or an error if a hook of logitkit should have been called but was not.

        Args:
            runs: The number of calls before.
        """
        errors, self.errors = self.errors, []
        if errors:
            raise errors[0]
        if self.ours and self.runs == runs:
            raise ProcessorError(
                "llama.cpp chose a token without calling logits_processor, as it does if its own code around that call is "
                "interrupted; the token was not returned"
            )

    def _run(self, input_ids: Any, scores: Any) -> Any:
        if not self.runs:
            self._begin()
        self.runs += 1
        before = None if self._grammar is None else scores.copy()
        if self._exact and self.idx is not None and self.idx + 1 != len(input_ids):
            input_ids = input_ids[: self.idx + 1]
        outer = on_thread.running, on_thread.errors
        on_thread.running, on_thread.errors = self, self.errors
        try:
            for call in self._calls:
                processed = call(input_ids, scores)
                if not self.ours:
                    scores[:] = processed
                elif processed is not scores:
                    # numpy would convert None to NaN.
                    np.copyto(scores, processed, casting="same_kind")
            if before is not None and self.ours:
                check_grammar(self._grammar, scores)
        except BaseException as error:
            if not self.ours:
                raise
            self.errors.append(error)
        finally:
            on_thread.running, on_thread.errors = outer
        if before is not None and self.errors:
            # llama.cpp chooses a token nevertheless, and ends the process if its grammar forbids that token.
            np.copyto(scores, before)
        return scores

    def _begin(self) -> None:
        """Look for a grammar, and use the faster path if the list contains only our hooks."""
        self._grammar = grammar_of(self._llama()._sampler)
        if self._alone and self._grammar is None:
            call_instead(self._llama()._sampler, self, self._run_alone)

    def _run_alone(self, given: Any) -> None:
        """Like `_run`, for lists with only our hooks and no grammar: every line costs time at every token."""
        self.runs += 1
        try:
            llama, idx = self._llama(), self.idx
            input_ids = llama.input_ids[: llama.n_tokens if idx is None else idx + 1]
            scores = self._candidates.logits(given)
            for call in self._calls:
                processed = call(input_ids, scores)
                if processed is not scores:
                    np.copyto(scores, processed, casting="same_kind")
        except BaseException as error:  # noqa: BLE001 - ctypes would drop it
            self.errors.append(error)


class OnThread(threading.local):
    """The list that runs on a thread, and the errors that hooks there have reported; None if nothing collects them."""

    running: GuardedList | None = None
    errors: list[BaseException] | None = None


on_thread = OnThread()


def report(error: BaseException) -> None:
    """Report an error to the `Llama.sample` running on this thread, if any, in case the error is dropped on the way."""
    if on_thread.errors is not None:
        on_thread.errors.append(error)


def own_of_generation(hook: EngineHook, make: Callable[[], T]) -> T | None:
    """Return the data that a hook in a caller's function keeps for the generation on this thread, created on first use.

    Raises:
        ConfigurationError: The engine cannot run a hook here.
    """
    return None if on_thread.running is None else on_thread.running.found(hook, make)


def eos_of(llama: Any) -> tuple[int, ...]:
    """Return the EOS id of a `Llama`, if it has one."""
    end = llama.token_eos()
    return (end,) if end >= 0 else ()


def eos_of_running() -> tuple[int, ...]:
    """Return the EOS id of the `Llama` that runs on this thread, if there is one."""
    return () if on_thread.running is None else eos_of(on_thread.running._llama())


def flat(processors: Any) -> Iterable[Any]:
    """Return the given processors, including those of nested lists.

    Raises:
        ConfigurationError: They are not in a list, so the engine would silently call none of them; or one is a processor itself
            or a hook of another engine, whose exceptions the engine would drop.
    """
    if processors is None:
        return ()
    check_hooks((processors,), "llama.cpp")
    if is_hook(processors):
        return (processors,)
    if not isinstance(processors, Iterable):
        raise ConfigurationError(
            f"logits_processor is {processors!r}, which llama.cpp would never call; pass a LogitsProcessorList"
        )
    if not isinstance(processors, list | tuple):
        kept: Iterable[Any] = tuple(processors) if iter(processors) is processors else processors
        check_hooks(kept, "llama.cpp")
        return kept
    inner = [one for part in processors for one in (flat(part) if isinstance(part, list | tuple) else [part])]
    check_hooks(inner, "llama.cpp")
    return inner if any(isinstance(part, list | tuple) for part in processors) else processors


def has_hook(processors: Iterable[Any]) -> bool:
    """Whether a list contains a hook of logitkit; one inside a function is found only when it is called."""
    return isinstance(processors, list | tuple) and any(map(is_hook, processors))


def is_hook(one: Any) -> bool:
    """Whether a function that `flat` has returned is a hook of logitkit, which `flat` lets pass only if it is for llama.cpp."""
    return isinstance(one, EngineHook)
