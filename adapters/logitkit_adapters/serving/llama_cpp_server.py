"""The server of llama-cpp-python, whose requests may have structured output.

The server generates for one request at a time, with the methods of one `Llama`. `ReadRequests` stands in front of it. The methods
find the admitted request in the context of their task, put its hook into the list of processors, and write its answer.
"""

from __future__ import annotations

import functools
import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import llama_cpp
from fastapi.responses import JSONResponse
from llama_cpp.server import __main__ as engine
from llama_cpp.server import app as engine_app

from logitkit_adapters.llama_cpp import logits_processor, vocabulary
from logitkit_adapters.serving.answer_reader import AnswerReader, Delta
from logitkit_adapters.serving.messages import Message
from logitkit_adapters.serving.middleware import AdmittedRequest, add_to, admitted
from logitkit_adapters.serving.refusals import RefusedRequest, error_object
from logitkit_adapters.serving.served_model import Options, ServedModel

__all__ = ["main"]

# The path at which the server answers the clients of Copilot, always with the model of this name.
COPILOT, COPILOT_MODEL = "/v1/engines/copilot-codex/completions", "copilot-codex"

PATHS = {"/v1/chat/completions": True, "/v1/completions": False, COPILOT: False}

# The server's own default, for completions only: a chat is as long as its context allows.
COMPLETION_TOKENS = 16

# Why nothing but stops goes with drafts.
DRAFTS = (
    "the server runs with --draft_model, and llama-cpp-python shows drafts to processors as if they were text, so "
    "response_format, tools and logitkit cannot be enforced; leave them out, or start the server without --draft_model"
)

# Formats of chats in which llama-cpp-python itself writes prompts and grammars of tools.
OWN_TOOLS = ("functionary", "chatml-function-calling")


def main(arguments: Sequence[str], options: Options) -> None:
    """Start the server of llama-cpp-python, and serve until the process is stopped.

    Args:
        arguments: The arguments of `llama_cpp.server`.
        options: Those of `logitkit serve`.
    """
    install()
    create_app = engine.create_app

    def create_app_with_requests(*args: Any, **kwargs: Any) -> Any:
        app = create_app(*args, **kwargs)
        models = LlamaCppModels(engine_app._llama_proxy, options)  # noqa: SLF001 - the server has no public name of it
        models.of({})  # reads the default model before the first request comes
        add_to(
            app,
            paths=PATHS,
            model_of=lambda body, path: models.of({"model": COPILOT_MODEL} if path == COPILOT else body),
            # The server limits a completion that says nothing, but none with `null`.
            max_tokens=lambda body, chat: None if chat or "max_tokens" in body else COMPLETION_TOKENS,
            adapted=_adapted,
            is_allowed=_is_allowed,
        )
        return app

    engine.create_app = create_app_with_requests
    sys.argv = ["llama_cpp.server", *arguments]
    engine.main()  # type: ignore[no-untyped-call]


def _adapted(body: dict[str, Any]) -> dict[str, Any]:
    """Return a body in the forms that the server knows, of those that OpenAI's API allows."""
    found, limit = dict(body), body.get("max_completion_tokens")
    if limit is not None:
        found["max_tokens"] = limit
    for name, adapted in (("messages", _adapted_message), ("tools", _adapted_tool)):
        items = body.get(name)
        if isinstance(items, list):
            found[name] = [adapted(item) if isinstance(item, dict) else item for item in items]
    return found


def _adapted_tool(tool: dict[str, Any]) -> dict[str, Any]:
    """Return a tool with parameters, which OpenAI's API allows to leave out or to be null, like the description.

    Example:
        >>> _adapted_tool({"type": "function", "function": {"name": "now", "description": None}})["function"]
        {'name': 'now', 'parameters': {'type': 'object', 'properties': {}}}
    """
    function = tool.get("function")
    if not isinstance(function, dict):
        return tool
    given = {name: value for name, value in function.items() if value is not None}
    return {**tool, "function": {**given, "parameters": given.get("parameters", {"type": "object", "properties": {}})}}


def _adapted_message(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message whose content is a text, in a role that chat formats know.

    The content of calls of tools may be null or left out, which some chat formats cannot read, and others may have parts.

    Example:
        >>> _adapted_message({"role": "assistant", "content": None, "tool_calls": []})
        {'role': 'assistant', 'content': '', 'tool_calls': []}
        >>> _adapted_message({"role": "developer", "content": "Be brief."})
        {'role': 'system', 'content': 'Be brief.'}
        >>> _adapted_message({"role": "tool", "content": [{"type": "text", "text": "sunny"}]})
        {'role': 'tool', 'content': 'sunny'}
    """
    content = message.get("content")
    if message.get("role") == "assistant" and content is None:
        return {**message, "content": ""}
    if message.get("role") == "developer":
        message = {**message, "role": "system"}
    if message.get("role") == "user" or not isinstance(content, list):
        return message
    texts: list[Any] = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
    # Anything else is for the server to refuse.
    whole = len(texts) == len(content) and all(isinstance(text, str) for text in texts)
    return {**message, "content": "".join(texts)} if whole else message


def _is_allowed(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a request has the API key of the server; the engine answers those that have not."""
    key = getattr(engine_app._server_settings, "api_key", None)  # noqa: SLF001
    scheme, _, given = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    return key is None or (scheme.lower() == "bearer" and given.strip() == key)


class LlamaCppModels:
    """The tokens of the models of a server, read without the weights.

    Args:
        proxy: The `LlamaProxy` of the server.
        options: The options of `logitkit serve`.
    """

    def __init__(self, proxy: Any, options: Options) -> None:
        self._settings, self._options = proxy._model_settings_dict, options  # noqa: SLF001
        self._default = proxy._default_model_alias  # noqa: SLF001
        self._lock = threading.Lock()
        self._known: dict[str, ServedModel] = {}

    def of(self, body: Mapping[str, Any]) -> ServedModel:
        """Return the model that a body is for: the default one if it names no other.

        Raises:
            RefusedRequest: It has tools, and the format of the model's chats writes them in its own way.
        """
        named = body.get("model")
        alias = named if isinstance(named, str) and named in self._settings else self._default
        form = self._settings[alias].chat_format
        if body.get("tools") and form is not None and form.startswith(OWN_TOOLS):
            raise RefusedRequest(
                f"tools are given, but the server runs with --chat_format {form}, which writes them in its own way; start it "
                "without --chat_format",
                "tools",
            )
        with self._lock:
            if alias not in self._known:
                self._known[alias] = self._read(self._settings[alias])
            return self._known[alias]

    def _read(self, settings: Any) -> ServedModel:
        only_tokens = settings.model_copy(update={"vocab_only": True, "verbose": False, "draft_model": None})
        llama = engine_app.LlamaProxy.load_llama_from_model_settings(only_tokens)
        template = llama.metadata.get("tokenizer.chat_template")
        only_stops = None if settings.draft_model is None else DRAFTS
        return ServedModel(vocabulary(llama), template, self._options, only_stops=only_stops)


class Recorder:
    """Sees the tokens of a generation. It stands in the list of processors, as nothing else reaches `generate`.

    Args:
        request: The request.
    """

    def __init__(self, request: AdmittedRequest) -> None:
        self._request = request
        self.reader: AnswerReader = request.reader()
        self.deltas: list[Delta] = []
        # How many tokens the engine writes.
        self._passed, self._ends = 0, frozenset(request.model.vocabulary.eos_ids)

    def __call__(self, _: Any, scores: Any) -> Any:
        """Return the scores as they are."""
        return scores

    def take_stops(self, stops: str | Sequence[str] | None) -> None:
        """Look for the texts at which the chat template ends an answer, in place of the engine."""
        listed = [] if stops is None else [stops] if isinstance(stops, str) else stops
        self.reader = self._request.reader(tuple(listed))

    def record(self, tokens: Iterator[int]) -> Iterator[int]:
        """Read the tokens of a generation as they pass, up to a stop, or until the client has left."""
        while not self._request.left.is_set() and (token := next(tokens, None)) is not None:
            self.deltas += self.reader.feed(token)
            # The engine counts the last token too if some of its text comes before the stop.
            if self.reader.stopped and self.reader.text_tokens <= self._passed:
                return
            self._passed += token not in self._ends
            yield token
            if self.reader.stopped:
                return

    @property
    def tokens_of_stop(self) -> int:
        """How many tokens the engine has written that belong to a stop."""
        return max(0, self._passed - self.reader.text_tokens) if self.reader.stopped else 0

    def taken(self) -> list[Delta]:
        """Return the deltas that have not been taken yet."""
        found, self.deltas = self.deltas, []
        return found


def _recorder(processors: Any) -> Recorder | None:
    return next((each for each in processors or () if isinstance(each, Recorder)), None)


@functools.cache
def install() -> None:
    """Change the methods of `Llama` that the server calls. For calls without an admitted request, they are as before."""
    methods: Any = llama_cpp.Llama
    generate, create_completion = methods.generate, methods.create_completion

    @functools.wraps(generate)
    def recorded(self: Any, tokens: Any, *args: Any, **kwargs: Any) -> Any:
        recorder, found = _recorder(kwargs.get("logits_processor")), generate(self, tokens, *args, **kwargs)
        return found if recorder is None else recorder.record(found)

    @functools.wraps(create_completion)
    def without_stops(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = _recorder(kwargs.get("logits_processor"))
        if recorder is not None:
            recorder.take_stops(kwargs.get("stop"))
            kwargs["stop"] = []
        return create_completion(self, *args, **kwargs)

    methods.generate, methods.create_completion = recorded, without_stops
    methods.create_chat_completion = _answering(methods.create_chat_completion, chat=True)
    methods.__call__ = _answering(methods.__call__, chat=False)


def _answering(original: Callable[..., Any], chat: bool) -> Callable[..., Any]:
    @functools.wraps(original)
    def create(self: Any, *args: Any, **kwargs: Any) -> Any:
        request = admitted()
        if request is None:
            return original(self, *args, **kwargs)
        recorder = Recorder(request)
        hooks = [] if request.processor is None else logits_processor(request.processor)
        kwargs["logits_processor"] = llama_cpp.LogitsProcessorList(
            [*(kwargs.get("logits_processor") or ()), *hooks, recorder]
        )
        answer = original(self, *args, **kwargs)
        if kwargs.get("stream"):
            return _streamed(answer, recorder, chat)
        whole = _whole(answer, recorder, chat, kwargs["prompt"] if kwargs.get("echo") else "")
        return _response(whole) if chat else whole

    return create


def _whole(answer: dict[str, Any], recorder: Recorder, chat: bool, echoed: str) -> dict[str, Any]:
    message = Message()
    message.add([*recorder.taken(), *recorder.reader.finish()])
    choice = answer["choices"][0]
    written: dict[str, Any] = {"message": message.body()} if chat else {"text": echoed + message.text()}
    reason = recorder.reader.finish_reason(choice["finish_reason"])
    written["logprobs"] = _without_last(choice.get("logprobs"), recorder.tokens_of_stop)
    return {**answer, "choices": [{**choice, **written, "finish_reason": reason}]}


def _response(answer: dict[str, Any]) -> JSONResponse:
    """Return an answer as a response of its own. From others, the server removes fields that it does not know: reasoning."""
    # Log-probabilities are numbers of numpy; those of forbidden tokens are infinite, which JSON cannot say.
    return JSONResponse(json.loads(json.dumps(answer, default=float), parse_constant=lambda _: None))


def _without_last(logprobs: dict[str, Any] | None, count: int) -> dict[str, Any] | None:
    """Return the log-probabilities of an answer, in the form for chats or for completions, without those of the last tokens."""
    if logprobs is None or not count:
        return logprobs
    return {name: value[:-count] if isinstance(value, list) else value for name, value in logprobs.items()}


def _streamed(answer: Iterator[dict[str, Any]], recorder: Recorder, chat: bool) -> Iterator[dict[str, Any]]:
    chunk: dict[str, Any] = {}
    reason = None

    def written(delta: Delta, finish_reason: str | None = None) -> dict[str, Any]:
        part = {"delta": delta} if chat else {"text": delta.get("content", "")}
        choice = {"index": 0, "logprobs": None, **part, "finish_reason": finish_reason}
        return {**chunk, "choices": [choice]}

    try:
        for chunk in answer:
            choice = chunk["choices"][0]
            reason = choice["finish_reason"] or reason
            if chat and "role" in choice["delta"]:
                yield written({"role": "assistant"})
            for delta in recorder.taken():
                yield written(delta)
    except Exception as error:  # noqa: BLE001 - the answer has begun, so its status is sent
        yield error_object(f"the generation failed: {error}", HTTPStatus.INTERNAL_SERVER_ERROR)
        return
    for delta in [*recorder.taken(), *recorder.reader.finish()]:
        yield written(delta)
    yield written({}, recorder.reader.finish_reason(reason))
