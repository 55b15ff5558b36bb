"""`transformers serve`, whose requests may have structured output.

`ReadRequests` stands in front of the server. The handlers of chats and completions prepare a generation as before, and hand it to
`ServedGeneration` if the request is one of ours.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import weakref
from collections.abc import AsyncIterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi.responses import JSONResponse, StreamingResponse
from openai.types.completion_usage import CompletionUsage
from transformers.cli.serving import chat_completion, completion
from transformers.cli.serving import server as engine
from transformers.cli.serving.utils import split_model_id

from logitkit.errors import ConfigurationError
from logitkit_adapters.serving.answer_reader import Delta
from logitkit_adapters.serving.messages import Message
from logitkit_adapters.serving.middleware import add_to, admitted
from logitkit_adapters.serving.refusals import error_object
from logitkit_adapters.serving.served_model import Options, ServedModel
from logitkit_adapters.serving.transformers_generation import ServedGeneration
from logitkit_adapters.transformers import vocabulary

__all__ = ["main"]

PATHS = {"/v1/chat/completions": True, "/v1/completions": False}

# The least number of tokens that the server generates if nobody says another.
TOKENS = 1024


def main(arguments: Sequence[str], options: Options) -> None:
    """Start `transformers serve`, and serve until the process is stopped.

    Args:
        arguments: The arguments of `transformers serve`.
        options: Those of `logitkit serve`.

    Raises:
        ConfigurationError: The server would use continuous batching.
    """
    if any(argument.partition("=")[0] == "--continuous-batching" for argument in arguments):
        raise ConfigurationError(
            "logitkit serve transformers does not support --continuous-batching, whose server has one generation configuration "
            "and no processors for its requests; leave it out"
        )
    build_server = engine.build_server

    def build_server_with_requests(model_manager: Any, *args: Any, **kwargs: Any) -> Any:
        app = build_server(model_manager, *args, **kwargs)
        models = TransformersModels(model_manager, options)
        add_to(app, paths=PATHS, model_of=lambda body, _: models.of(body), max_tokens=models.max_tokens)
        return app

    engine.build_server = build_server_with_requests
    chat_completion.ChatCompletionHandler = ChatHandler  # type: ignore[misc]
    completion.CompletionHandler = TextHandler  # type: ignore[misc]
    from transformers.cli.transformers import app

    sys.argv = ["transformers", "serve", *arguments]
    app()


class TransformersModels:
    """The tokens of the models of a server.

    Args:
        manager: The `ModelManager` of the server, which loads models.
        options: The options of `logitkit serve`.
    """

    def __init__(self, manager: Any, options: Options) -> None:
        self._manager, self._options = manager, options
        self._lock = threading.Lock()
        # The server unloads models that are not used.
        self._known: weakref.WeakKeyDictionary[Any, ServedModel] = weakref.WeakKeyDictionary()

    def of(self, body: Mapping[str, Any]) -> ServedModel | None:
        """Return the model that a body is for; None if the engine refuses the body."""
        forced, named = self._manager.force_model, body.get("model")
        if not isinstance(named or forced, str) or (forced is not None and named not in (None, forced)):
            return None
        model, processor = self._loaded(named or forced)
        with self._lock:
            if model not in self._known:
                tokenizer = getattr(processor, "tokenizer", processor)
                self._known[model] = ServedModel(vocabulary(tokenizer, model), tokenizer, self._options)
            return self._known[model]

    def _loaded(self, name: str) -> tuple[Any, Any]:
        model, file = split_model_id(name)
        found: tuple[Any, Any] = self._manager.load_model_and_processor(
            self._manager.process_model_name(model), gguf_file=file
        )
        return found

    def max_tokens(self, body: Mapping[str, Any], _: bool) -> int | None:
        """Return the maximum number of tokens if a body does not say it, as the server finds it."""
        if body.get("generation_config") is not None:
            return None
        model, _ = self._loaded(body.get("model") or self._manager.force_model)
        return max(TOKENS, model.generation_config.max_new_tokens or 0)


class ChatHandler(chat_completion.ChatCompletionHandler):
    """Answers chats."""

    def _streaming(
        self,
        request_id: str,
        model: Any,
        processor: Any,
        model_id: str,
        inputs: Any,
        gen_config: Any,
        gen_manager: Any,
        tools: Any = None,
    ) -> Any:
        request = admitted()
        if request is None:
            return super()._streaming(request_id, model, processor, model_id, inputs, gen_config, gen_manager, tools)
        generation = ServedGeneration(request, model, processor, inputs, gen_config, gen_manager)

        def chunk(delta: Delta, **end: Any) -> str:
            return self._build_chunk_sse(request_id, model=model_id, **delta, **end)

        async def events() -> AsyncIterator[str]:
            yield chunk({"role": "assistant"})
            async for event in _events(generation, chunk):
                yield event

        return StreamingResponse(events(), media_type="text/event-stream")

    async def _non_streaming(
        self,
        request_id: str,
        model: Any,
        processor: Any,
        model_id: str,
        inputs: Any,
        gen_config: Any,
        gen_manager: Any,
        tools: Any = None,
    ) -> Any:
        request = admitted()
        if request is None:
            return await super()._non_streaming(
                request_id, model, processor, model_id, inputs, gen_config, gen_manager, tools
            )
        generation = ServedGeneration(request, model, processor, inputs, gen_config, gen_manager)
        message = await _message(generation)
        if isinstance(message, JSONResponse):
            return message
        written = message.body()
        return JSONResponse(
            self._build_completion(
                request_id,
                written["content"],
                model_id,
                finish_reason=generation.finish_reason,
                usage=_usage(generation),
                tool_calls=written.get("tool_calls"),
                reasoning_content=written.get("reasoning_content"),
            )
        )


class TextHandler(completion.CompletionHandler):
    """Answers completions of a text."""

    def _streaming(
        self,
        request_id: str,
        model: Any,
        processor: Any,
        model_id: str,
        inputs: Any,
        gen_config: Any,
        gen_manager: Any,
        suffix: str | None = None,
    ) -> Any:
        request = admitted()
        if request is None:
            return super()._streaming(request_id, model, processor, model_id, inputs, gen_config, gen_manager, suffix)
        generation = ServedGeneration(request, model, processor, inputs, gen_config, gen_manager)

        def chunk(delta: Delta, **end: Any) -> str:
            return self._build_chunk_sse(request_id, model_id, text=delta.get("content", ""), **end)

        return StreamingResponse(_events(generation, chunk, suffix or ""), media_type="text/event-stream")

    async def _non_streaming(
        self,
        request_id: str,
        model: Any,
        processor: Any,
        model_id: str,
        inputs: Any,
        gen_config: Any,
        gen_manager: Any,
        suffix: str | None = None,
    ) -> Any:
        request = admitted()
        if request is None:
            return await super()._non_streaming(
                request_id, model, processor, model_id, inputs, gen_config, gen_manager, suffix
            )
        generation = ServedGeneration(request, model, processor, inputs, gen_config, gen_manager)
        message = await _message(generation)
        if isinstance(message, JSONResponse):
            return message
        reason: Any = generation.finish_reason
        choice = completion.CompletionChoice(
            text=message.text() + (suffix or ""), index=0, logprobs=None, finish_reason=reason
        )
        return JSONResponse(
            completion.Completion(
                id=request_id,
                created=int(time.time()),
                model=model_id,
                choices=[choice],
                object="text_completion",
                usage=_usage(generation),
            ).model_dump(exclude_none=True)
        )


async def _events(generation: ServedGeneration, chunk: Any, suffix: str = "") -> AsyncIterator[str]:
    """Yield the events of a stream, up to its end or its failure."""
    try:
        async for delta in generation.deltas():
            yield chunk(delta)
    except Exception as error:  # noqa: BLE001 - the answer has begun, so its status is sent
        body = error_object(f"the generation failed: {error}", HTTPStatus.INTERNAL_SERVER_ERROR)
        yield f"data: {json.dumps(body)}\n\n"
        return
    if suffix:
        yield chunk({"content": suffix})
    yield chunk({}, finish_reason=generation.finish_reason, usage=_usage(generation))


async def _message(generation: ServedGeneration) -> Message | JSONResponse:
    """Return the whole message, or the answer if the generation fails."""
    message = Message()
    try:
        async for delta in generation.deltas():
            message.add([delta])
    except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to this request
        # The engine's own arguments are checked when it generates, with a ValueError.
        is_wrong = isinstance(error, ValueError)
        status = HTTPStatus.BAD_REQUEST if is_wrong else HTTPStatus.INTERNAL_SERVER_ERROR
        return JSONResponse(error_object(f"the generation failed: {error}", status), status_code=int(status))
    return message


def _usage(generation: ServedGeneration) -> CompletionUsage:
    prompt, answer = generation.prompt_tokens, generation.completion_tokens
    return CompletionUsage(prompt_tokens=prompt, completion_tokens=answer, total_tokens=prompt + answer)
