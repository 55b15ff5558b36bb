"""The one call that llama.cpp makes for all hooks of a list, and how what goes wrong in it comes to the caller."""

# ruff: noqa: SLF001 (what a generation runs on, only private attributes of `Llama` tell)

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, TypeVar
from weakref import ref

import llama_cpp
import numpy as np

from logitkit.errors import ConfigurationError, ProcessorError
from logitkit_adapters.llama_cpp_after_hooks import check_grammar, grammar_of
from logitkit_adapters.llama_cpp_candidates import Candidates, call_instead

__all__ = ["Call", "GuardedHook", "GuardedList", "collect", "flat", "has_hook", "own_of_generation", "report"]

Call: TypeAlias = Callable[[Any, Any], Any]
T = TypeVar("T")

_thread = threading.local()


class GuardedHook(ABC):
    """A hook whose errors must reach the caller of the engine."""

    @abstractmethod
    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Return the processed scores, [V] float32, which may be those given."""

    @abstractmethod
    def for_generation(self) -> Call:
        """Return the hook for one generation that begins with the next call."""


class GuardedList(llama_cpp.LogitsProcessorList):
    """The list that the engine is given in place of the caller's.

    Args:
        calls: What runs, one after the other.
        llama: Whose logits they are.
        check: Raises what speaks against a hook of logitkit here.
        ours: Whether one of the calls is known to run a hook of logitkit. If not, one may yet be found in a function of the
            caller's, by its call; until then all goes on as if there were no guard.
        generation: Whether the calls are those of one generation.
        alone: Whether all calls are hooks of logitkit, by themselves.

    `runs` is how many calls of llama.cpp there were, and `errors` is what was raised in them and is yet to be raised.
    """

    def __init__(
        self,
        calls: Iterable[Call],
        llama: Any,
        check: Callable[[], None],
        *,
        ours: bool,
        generation: bool,
        alone: bool = False,
    ) -> None:
        self._calls = tuple(calls) if ours or iter(calls) is calls else calls
        self._llama: Any = ref(llama)
        self._check = check
        self._exact, self._generation, self._alone = ours, generation, alone
        self._own: dict[int, tuple[GuardedHook, Any]] = {}
        self._grammar: Any = None
        self._candidates = Candidates()
        self.errors: list[BaseException] = []
        self.runs = 0
        self.ours = ours
        self.idx: int | None = None
        super().__init__([self._run])
        if ours:
            check()

    def found(self, hook: GuardedHook, make: Callable[[], T]) -> T | None:
        """Take note that a hook of logitkit runs, and return what is its own in this generation, if it is one."""
        if not self.ours:
            self.ours = True
            self._check()
        if not self._exact and self.idx is not None and self.idx + 1 != self._llama().n_tokens:
            raise ConfigurationError(
                f"idx is {self.idx}, but a hook in a function sees tokens behind it; put the hook itself into the list"
            )
        if not self._generation:
            return None
        if id(hook) not in self._own:
            self._own[id(hook)] = hook, make()
        own: T = self._own[id(hook)][1]
        return own

    def raise_errors(self, runs: int) -> None:
        """Raise what a call raised, or if there was none where a hook of logitkit had to be called.

        Args:
            runs: How many calls there had been before.
        """
        errors, self.errors = self.errors, []
        if errors:
            raise errors[0]
        if self.ours and self.runs == runs:
            raise ProcessorError(
                "llama.cpp chose a token without calling logits_processor, as it does where its own code around that call is "
                "interrupted; the token was not returned"
            )

    def _run(self, input_ids: Any, scores: Any) -> Any:
        if not self.runs:
            self._grammar = grammar_of(self._llama()._sampler)
            if self._alone and self._grammar is None:
                call_instead(self._llama()._sampler, self, self._run_alone)
        self.runs += 1
        before = None if self._grammar is None else scores.copy()
        if self._exact and self.idx is not None and self.idx + 1 != len(input_ids):
            input_ids = input_ids[: self.idx + 1]
        outer = getattr(_thread, "running", None), getattr(_thread, "errors", None)
        _thread.running, _thread.errors = self, self.errors
        try:
            for call in self._calls:
                processed = call(input_ids, scores)
                if not self.ours:
                    scores[:] = processed
                elif processed is not scores:
                    # numpy would take None for NaN.
                    np.copyto(scores, processed, casting="same_kind")
            if before is not None and self.ours:
                check_grammar(self._grammar, scores)
        except BaseException as error:
            if not self.ours:
                raise
            self.errors.append(error)
        finally:
            _thread.running, _thread.errors = outer
        if before is not None and self.errors:
            # llama.cpp chooses a token all the same, and ends the process if its grammar forbids that.
            np.copyto(scores, before)
        return scores

    def _run_alone(self, given: Any) -> None:
        """Do what `_run` does where nothing of the caller's or the engine's has a say: every token pays for each line."""
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


def collect(errors: list[BaseException] | None) -> list[BaseException] | None:
    """Put into a list what hooks report on this thread from now on, None for nowhere, and return where it went before."""
    outer: list[BaseException] | None = getattr(_thread, "errors", None)
    _thread.errors = errors
    return outer


def report(error: BaseException) -> None:
    """Let whatever called `Llama.sample` have an error, if that is what runs on this thread, in case it is dropped on the way."""
    errors: list[BaseException] | None = getattr(_thread, "errors", None)
    if errors is not None:
        errors.append(error)


def own_of_generation(hook: GuardedHook, make: Callable[[], T]) -> T | None:
    """Return what a hook in a function of the caller's keeps for the generation that runs on this thread, made on first use.

    Raises:
        ConfigurationError: The engine cannot run a hook here.
    """
    running: GuardedList | None = getattr(_thread, "running", None)
    return None if running is None else running.found(hook, make)


def flat(processors: Any) -> Iterable[Any]:
    """Return the processors that a caller gave; of lists in a list, what is in them.

    Raises:
        ConfigurationError: They are no list, so that the engine would call none of them, and say nothing.
    """
    if processors is None:
        return ()
    if isinstance(processors, GuardedHook):
        return (processors,)
    if not isinstance(processors, Iterable):
        raise ConfigurationError(
            f"logits_processor is {processors!r}, of which llama.cpp would call nothing; give a LogitsProcessorList"
        )
    if not isinstance(processors, list | tuple):
        return processors
    inner = (flat(one) if isinstance(one, list | tuple) else [one] for one in processors)
    return processors if not any(isinstance(one, list | tuple) for one in processors) else [o for i in inner for o in i]


def has_hook(processors: Iterable[Any]) -> bool:
    """Whether one of the processors of a list is a hook of logitkit; one in a function shows at its call only."""
    return isinstance(processors, list | tuple) and any(isinstance(one, GuardedHook) for one in processors)
