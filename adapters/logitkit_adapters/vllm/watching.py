"""The outputs of requests with a constraint, which the front end follows to judge texts that may have ended early.

Judged are texts that may end early, texts of no tokens (a worker without room for an automaton ends a request at once), and the
first ones of each engine, because an unknown mode may ignore the masks of plugins.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from http import HTTPStatus
from typing import Any
from weakref import WeakKeyDictionary, WeakSet, ref

from logitkit.errors import ConfigurationError, LogitkitError
from logitkit_adapters.admission.asked import KEY, Asked
from logitkit_adapters.admission.bans import has_language
from logitkit_adapters.admission.configurations import Configurations
from logitkit_adapters.vllm.answers import http_error, refusal
from logitkit_adapters.vllm.configurations import configurations_of
from logitkit_adapters.vllm.early_ends import (
    EARLY_END,
    IGNORED,
    count_early_end,
    ends_early,
    leaves_language,
    vllm_may_end_early,
)
from logitkit_adapters.vllm.internals import is_missing
from logitkit_adapters.vllm.modes import check_mode
from logitkit_adapters.vllm.parameters import asked, check_prompt_length, prompt_length, tokens_of_prompt
from logitkit_adapters.vllm.settings import settings

__all__ = [
    "Watch",
    "check_request",
    "install_following",
    "is_configured",
    "watch_of",
    "watched",
]

_logger = logging.getLogger(__name__)

# Requests of `LLM` that were aborted leave an entry; the oldest entries go first.
MOST_OFFLINE = 4096

# Engines that have followed a constraint, and the requests of `LLM` that are followed.
_proven: WeakSet[Any] = WeakSet()
_offline: WeakKeyDictionary[Any, OrderedDict[str, Watch]] = WeakKeyDictionary()


def is_configured(params: Any) -> bool:
    """Whether a request asks for processors, of a plugin that is on."""
    return KEY in (getattr(params, "extra_args", None) or ()) and settings().enabled


def check_request(engine: Any, params: Any, prompt: Any) -> None:
    """Refuse a request for processors that needs its prompt to be judged; `validate_params` does not get it.

    Args:
        engine: The `AsyncLLM` or `LLMEngine`.
        params: Its `SamplingParams`.
        prompt: Its prompt.

    Raises:
        VLLMValidationError: It is refused.
    """
    try:
        check_mode(engine.vllm_config, params, prompt)
        check_prompt_length(params, prompt)
    except ConfigurationError as error:
        raise refusal(str(error)) from None


def watch_of(engine: Any, params: Any, prompt: Any) -> Watch | None:
    """Return what follows a request that was admitted, or None if no constraint says where its text ends.

    Args:
        engine: The `AsyncLLM` or `LLMEngine`.
        params: The request's `SamplingParams`.
        prompt: Its prompt.
    """
    what = asked(params, engine.vllm_config)
    if what is None:
        return None
    configurations = configurations_of(engine.vllm_config)
    verdict = configurations.verdicts.get(what)
    begin = prompt_length(params)
    begun = [] if begin is None else tokens_of_prompt(prompt)
    may_end = verdict is None or verdict.may_end_early or vllm_may_end_early(params)
    if begun is None or (not may_end and verdict is not None and not verdict.forces_text):
        return None
    return Watch(engine, configurations, what, params, begun[begin:], may_end)


class Watch:
    """Follows the tokens of a request's samples, and judges each when it ends: a stream tells the client of each end at once.

    Args:
        engine: The `AsyncLLM` or `LLMEngine`.
        configurations: The configurations of the engine.
        what: The configuration of the request.
        params: Its `SamplingParams`.
        begun: The tokens of its prompt that count as output.
        may_end: Whether its text may end early.
    """

    def __init__(
        self, engine: Any, configurations: Configurations, what: Asked, params: Any, begun: list[int], may_end: bool
    ) -> None:
        # Weak, because requests that are aborted would keep the engine, and with it the memory of its model.
        self._engine = ref(engine)
        self._configurations, self._what, self._begun, self._may_end = configurations, what, begun, may_end
        self._is_delta = params.output_kind.name == "DELTA"
        self._tokens: dict[int, Any] = {}
        self._ends: dict[int, tuple[str | None, Any]] = {}

    @property
    def is_judged(self) -> bool:
        """Whether the samples seen so far need a judgement."""
        unproven = self._engine() not in _proven
        return self._may_end or unproven or any(len(tokens) < 2 for tokens in self._tokens.values())

    def see(self, output: Any) -> bool:
        """Note the tokens of a `RequestOutput`, and return whether a sample ended."""
        for sample in output.outputs:
            if self._is_delta:
                self._tokens.setdefault(sample.index, []).extend(sample.token_ids)
            else:  # all of its tokens, which are not copied in each step
                self._tokens[sample.index] = sample.token_ids
            self._ends[sample.index] = sample.finish_reason, sample.stop_reason
        return any(sample.finish_reason is not None for sample in output.outputs)

    def early_ends(self) -> dict[int, str]:
        """Return the samples that have ended, and whose texts are not what their constraint allows, each with a message.

        Each sample is judged once. This may take some milliseconds, to load automata.
        """
        if not self.is_judged:
            return {}
        eos_ids = self._configurations.vocabulary.eos_ids
        try:
            processor = self._configurations.processor(self._what)
        except LogitkitError as error:  # the registry is full, for example
            _logger.warning("a text was not checked for an early end: %s", error)
            return {}
        found: dict[int, str] = {}
        ended = [index for index, (reason, _) in self._ends.items() if reason is not None]
        for index in ended if has_language(processor) else ():
            new, (reason, stop) = self._tokens.pop(index), self._ends.pop(index)
            tokens = [*self._begun, *new]
            if reason == "stop" and (stop is None or stop in eos_ids) and ends_early(processor, tokens, eos_ids):
                found[index] = EARLY_END.format(tokens=len(new))
            elif not self._may_end and len(new) > 1:
                if leaves_language(processor, tokens, eos_ids):
                    found[index] = IGNORED
                else:
                    _proven.add(self._engine())
        return found


def watched(queue: Any, watch: Watch, request_id: str) -> Any:
    """Return vLLM's queue of a request's outputs, which raises an error in place of the last output if the text ended early.

    Args:
        queue: A `RequestOutputCollector`.
        watch: The watch of the request.
        request_id: Its id, for the log.
    """
    original = queue.get

    async def get() -> Any:
        output = await original()
        if watch.see(output) and watch.is_judged:
            early = await asyncio.to_thread(watch.early_ends)
            for message in early.values():
                count_early_end(request_id, message)
                raise http_error(message, HTTPStatus.UNPROCESSABLE_ENTITY)
        return output

    # vLLM awaits `get` if `get_nowait` has nothing.
    queue.get, queue.get_nowait = get, lambda: None
    return queue


def _following_requests(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `LLMEngine.add_request`, which checks requests for processors, and lets `_following_steps` follow them."""

    @wraps(original)
    def add_request(self: Any, request_id: str, prompt: Any, params: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_configured(params):
            return original(self, request_id, prompt, params, *args, **kwargs)
        check_request(self, params, prompt)
        found = original(self, request_id, prompt, params, *args, **kwargs)
        watch = watch_of(self, params, prompt)
        if watch is not None:
            watches = _offline.setdefault(self, OrderedDict())
            watches[request_id] = watch
            if len(watches) > MOST_OFFLINE:
                watches.popitem(last=False)
        return found

    return add_request


def _following_steps(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `LLMEngine.step`, whose samples that end early have the finish reason "error", and the message as stop reason."""

    @wraps(original)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        outputs = original(self, *args, **kwargs)
        watches = _offline.get(self, OrderedDict())
        for output in outputs if watches else ():
            watch = watches.get(output.request_id)
            if watch is not None:
                if watch.see(output):
                    _mark(output, watch.early_ends())
                if output.finished:
                    del watches[output.request_id]
        return outputs

    return step


def install_following() -> None:
    """Change `LLMEngine`, with which `LLM` runs requests offline."""
    if not (is_missing("LLMEngine.add_request") or is_missing("LLMEngine.step")):
        from vllm.v1.engine.llm_engine import LLMEngine

        LLMEngine.add_request = _following_requests(LLMEngine.add_request)
        LLMEngine.step = _following_steps(LLMEngine.step)


def _mark(output: Any, early: dict[int, str]) -> None:
    for sample in output.outputs:
        if sample.index in early:
            sample.finish_reason, sample.stop_reason = "error", early[sample.index]
            count_early_end(output.request_id, early[sample.index])
