"""A generation of `transformers serve` whose tokens are read as they come."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

from logitkit_adapters.serving.answer_reader import Delta
from logitkit_adapters.serving.middleware import AdmittedRequest
from logitkit_adapters.transformers import logits_processor

__all__ = ["ServedGeneration"]

_logger = logging.getLogger(__name__)


class Cancelled(Exception):
    """Ends `generate` from within its streamer."""


class TokenStreamer:
    """Passes the tokens of `generate` to an event loop.

    Args:
        loop: The loop.
        queue: Its queue: lists of tokens, an exception if the generation fails, and None at the end.
        left: Set when the client has left.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        queue: asyncio.Queue[list[int] | Exception | None],
        left: threading.Event,
    ) -> None:
        self._loop, self._queue, self._left = loop, queue, left
        self._is_prompt = True
        self.cancelled = threading.Event()

    def put(self, value: Any) -> None:
        """Take tokens; the first are those of the prompt.

        Raises:
            ValueError: The prompt has several rows, whose tokens would be mixed.
        """
        if self.cancelled.is_set() or self._left.is_set():
            raise Cancelled
        if self._is_prompt:
            if value.dim() > 1 and len(value) != 1:
                raise ValueError(
                    f"a request has one answer, but its generation_config has num_return_sequences={len(value)}"
                )
            self._is_prompt = False
        else:
            self.send([int(token) for token in value.reshape(-1).tolist()])

    def end(self) -> None:
        """Take the end of the generation, which `ServedGeneration` notes itself."""

    def send(self, what: list[int] | Exception | None) -> None:
        """Put something into the queue, from any thread."""
        self._loop.call_soon_threadsafe(self._queue.put_nowait, what)


class ServedGeneration:
    """Generates the answer to a request on the engine's own thread, once its deltas are asked for.

    Args:
        request: The request.
        model: The model.
        processor: The tokenizer or processor of the engine.
        inputs: The inputs of the model.
        gen_config: The generation configuration.
        gen_manager: The engine's manager, which has the thread.
    """

    def __init__(
        self, request: AdmittedRequest, model: Any, processor: Any, inputs: Any, gen_config: Any, gen_manager: Any
    ) -> None:
        self._reader = request.reader()
        self.prompt_tokens = int(inputs["input_ids"].shape[-1])
        self.completion_tokens = 0
        self._ends, self._has_eos = frozenset(request.model.vocabulary.eos_ids), False
        self._queue: asyncio.Queue[list[int] | Exception | None] = asyncio.Queue()
        streamer = self._streamer = TokenStreamer(asyncio.get_running_loop(), self._queue, request.left)
        hooks = [] if request.processor is None else [logits_processor(request.processor)]
        given = {**inputs, "generation_config": gen_config, "tokenizer": processor}
        if hasattr(model, "has_talker"):  # a model that may also speak
            given["generation_mode"] = "text"

        def run() -> None:
            try:
                model.generate(**given, streamer=streamer, logits_processor=hooks)
            except Cancelled:
                pass
            except Exception as error:  # noqa: BLE001 - the answer reports it
                _logger.warning("a generation failed: %s", error)
                streamer.send(error)
            streamer.send(None)

        self._start: Callable[[], object] = lambda: gen_manager.submit(run)

    @property
    def finish_reason(self) -> str:
        """OpenAI's `finish_reason`, at the end."""
        # Whatever the limit is: `max_new_tokens`, or the `max_length` or `max_time` of a `generation_config`.
        return self._reader.finish_reason("stop" if self._has_eos else "length")

    async def deltas(self) -> AsyncIterator[Delta]:
        """Generate, and yield the deltas of the answer as they come. If the caller stops early, so does the generation.

        Raises:
            Exception: The generation fails.
        """
        self._start()
        try:
            while (item := await self._queue.get()) is not None:
                if isinstance(item, Exception):
                    raise item
                for token in item:
                    self.completion_tokens += 1
                    self._has_eos = token in self._ends
                    for delta in self._reader.feed(token):
                        yield delta
                if self._reader.stopped:
                    break
            for delta in self._reader.finish():
                yield delta
        finally:
            self._streamer.cancelled.set()
