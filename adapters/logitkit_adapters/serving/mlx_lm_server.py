"""The server of mlx-lm, whose requests may have structured output.

The server has a thread per request and one thread that generates, in batches where the model and the request allow it. A request
with fields of ours is read and compiled in its own thread. Its hook is made in the thread that generates, where the tokens of the
prompt are known. Its answer is written by `MlxLmAnswer`, in the engine's own form.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import mlx_lm.server as engine

from logitkit.errors import ConfigurationError, LogitkitError
from logitkit.protocol.processor import Processor
from logitkit_adapters.admission.clients import Client, client_at
from logitkit_adapters.hooks.model_tokens import columns_of
from logitkit_adapters.mlx_lm import logits_processor
from logitkit_adapters.serving.guarded_hook import GuardedHook
from logitkit_adapters.serving.http_bodies import check_length, constrained_body
from logitkit_adapters.serving.mlx_lm_answer import MlxLmAnswer
from logitkit_adapters.serving.mlx_lm_models import MlxLmModels
from logitkit_adapters.serving.refusals import RefusedRequest, error_object, refusal_of, refused_stops
from logitkit_adapters.serving.requests import FIELDS, ServedRequest
from logitkit_adapters.serving.served_model import Options, ServedModel

__all__ = ["main"]

# The paths whose bodies are read.
PATHS = ("/v1/completions", "/v1/chat/completions", "/chat/completions")

# The largest number of tokens that an array of the engine can have.
MOST_TOKENS = 2**31 - 1

# The largest threshold of the engine's XTC sampling.
MOST_XTC_THRESHOLD = 0.5

# The attribute of `GenerationArguments.logits` with which the request of ours goes to the thread that generates.
ASKED = "logitkit"


def main(arguments: Sequence[str], options: Options) -> None:
    """Start the server of mlx-lm, and serve until the process is stopped.

    Args:
        arguments: The arguments of `mlx_lm.server`.
        options: Those of `logitkit serve`.

    Raises:
        ConfigurationError: The server would run on several machines.
    """
    if mx.distributed.init().size() > 1:
        raise ConfigurationError("logitkit serve mlx-lm runs on one machine; start mlx_lm.server itself to use several")
    own_processors = engine._make_logits_processors  # noqa: SLF001 - the server has no public way to add one

    def with_hooks(args: Any) -> list[Any]:
        found: ConstrainedRequest | None = getattr(args.logits, ASKED, None)
        return [*own_processors(args), *([] if found is None or found.hook is None else [found.hook])]

    def run(host: str, port: int, model_provider: Any, **_: Any) -> None:
        cache = engine.LRUPromptCache(model_provider.cli_args.prompt_cache_size)
        generator = Generator(model_provider, cache)
        generator.models = MlxLmModels(model_provider, options)
        generator.models.prepare()
        engine._run_http_server(host, port, generator, handler_class=Handler)  # noqa: SLF001

    server: Any = engine
    server._make_logits_processors, server.run = with_hooks, run  # noqa: SLF001
    sys.argv = ["mlx_lm.server", *arguments]
    engine.main()


class ConstrainedRequest:
    """A request of ours on its way to the thread that generates.

    Args:
        processor: Its processor, or None.
    """

    def __init__(self, processor: Processor[Any] | None) -> None:
        self.processor = processor
        self.hook: GuardedHook | None = None
        # Whether it is generated alone. Then mlx-lm hides cached tokens, and with drafts the whole prompt.
        self.alone = False

    @property
    def error(self) -> Exception | None:
        """The error of the processor, if there was one."""
        return None if self.hook is None else self.hook.error

    def make_hook(self, prompt: list[int], max_tokens: int, ends: Sequence[int]) -> None:
        """Make the hook, once the tokens of the prompt are known."""
        if self.processor is None:
            return
        hook = logits_processor(self.processor, max_new_tokens=max_tokens, prompt=prompt if self.alone else None)
        self.hook = GuardedHook(hook, self.only_ends(ends))

    @staticmethod
    def only_ends(ends: Sequence[int]) -> Callable[[mx.array], mx.array]:
        """Return a function that allows nothing but EOS in logits."""

        def masked(logits: mx.array) -> mx.array:
            row = mx.full(logits.shape, -mx.inf, dtype=logits.dtype)
            row[:, mx.array([*ends])] = 0
            return row

        return masked


class Generator(engine.ResponseGenerator):
    """The thread that generates, which makes the hooks of requests."""

    models: MlxLmModels

    def _serve_single(self, request: Any, stream: Any) -> None:
        asked: ConstrainedRequest | None = getattr(request[2].logits, ASKED, None)
        if asked is not None:
            asked.alone = True
        super()._serve_single(request, stream)

    def _tokenize(self, tokenizer: Any, request: Any, args: Any) -> Any:
        if request.request_type == "text" and not isinstance(request.prompt, str):
            raise ConfigurationError(
                f"prompt is {request.prompt!r:.100}; give one text, and send several prompts in several requests"
            )
        found = super()._tokenize(tokenizer, request, args)
        _check_arguments(found[0], args, columns_of(self.model_provider.model))
        asked: ConstrainedRequest | None = getattr(args.logits, ASKED, None)
        if asked is not None:
            asked.make_hook(found[0], args.max_tokens, sorted(tokenizer.eos_token_ids))
        return found


def _check_arguments(prompt: list[int], args: Any, columns: int | None) -> None:
    """Refuse a request that would end the thread that generates for all, or the process.

    Args:
        prompt: The tokens of the prompt.
        args: The engine's arguments of the generation.
        columns: The number of columns of the model's logits, or None if unknown.

    Raises:
        ConfigurationError: The prompt is empty or not token ids, an id or number is beyond the model's tokens, or the engine
            cannot count as far.
    """
    if not isinstance(prompt, list) or not all(isinstance(token, int) for token in prompt[:1]):
        raise ConfigurationError(
            "the prompt is not a list of token ids; leave return_tensors and the like out of chat_template_kwargs"
        )
    if len(prompt) == 0:
        raise ConfigurationError("the prompt is empty; give a text with at least one token")
    for name in ("repetition", "presence", "frequency"):
        penalty, size = getattr(args.logits, f"{name}_penalty"), getattr(args.logits, f"{name}_context_size")
        _check_number(f"{name}_penalty", penalty)
        if penalty != 0 and size > MOST_TOKENS:
            raise ConfigurationError(f"{name}_context_size is {size}; allowed are numbers up to {MOST_TOKENS}")
    if args.seed is not None and not 0 <= args.seed < 2**64:
        raise ConfigurationError(f"seed is {args.seed}; allowed are integers from 0 to 2**64 - 1")
    for token in args.logits.logit_bias or ():
        if columns is not None and not -columns <= token < columns:
            raise ConfigurationError(f"logit_bias has the token id {token}; allowed are ids from 0 to {columns - 1}")
    if args.sampling.temperature != 0:
        _check_sampling(args.sampling, columns)


def _check_sampling(sampling: Any, columns: int | None) -> None:
    """Refuse options of sampling that the engine checks only while it samples, or not at all."""
    _check_number("temperature", sampling.temperature)
    if sampling.top_k is True:
        raise ConfigurationError("top_k is true; give an integer")
    if columns is not None and sampling.top_k >= columns:
        raise ConfigurationError(
            f"top_k is {sampling.top_k}; allowed are numbers below {columns}, the number of the model's tokens"
        )
    # NaN, which Python reads in JSON, has passed the engine's checks.
    if math.isnan(sampling.min_p):
        raise ConfigurationError("min_p is nan; allowed are numbers from 0 to 1")
    if sampling.xtc_probability > 0 and not 0 <= sampling.xtc_threshold <= MOST_XTC_THRESHOLD:
        raise ConfigurationError(
            f"xtc_threshold is {sampling.xtc_threshold}; allowed are numbers from 0 to {MOST_XTC_THRESHOLD}"
        )


def _check_number(name: str, value: float) -> None:
    """Refuse an integer that has more than 64 bits."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ConfigurationError(f"{name} is an integer of {value.bit_length()} bits; allowed are up to 63 bits")


class ArgumentsKnown(BaseException):
    """Carries the arguments of a generation out of the engine's code that puts them together, instead of generating."""

    def __init__(self, args: Any, progress: Callable[..., None]) -> None:
        super().__init__()
        self.arguments, self.progress = args, progress


class Handler(engine.APIHandler):
    """Handles the requests of one connection."""

    response_generator: Any

    # What this request asks of logitkit: the request, its model, and its processor; None if nothing.
    _ours: tuple[ServedRequest, ServedModel, ConstrainedRequest] | None = None

    def do_POST(self) -> None:  # noqa: N802 - the name that `http.server` calls
        """Answer a request: the engine does, or `MlxLmAnswer` if it has fields of ours."""
        self._ours = None
        if self.path in PATHS:
            try:
                self._read_body()
            except (RefusedRequest, RecursionError) as error:
                self._refuse(refusal_of(error))
                return
        super().do_POST()

    def _read_body(self) -> None:
        """Read the body, and give the engine one without our fields."""
        if self.headers.get("Content-Length") is None:
            return  # the engine refuses it
        content = self.rfile.read(check_length(self.headers["Content-Length"]))
        body = constrained_body(content)
        if body is not None:
            content = json.dumps(self._read_request(body)).encode()
        self.rfile = BytesIO(content)
        self.headers.replace_header("Content-Length", str(len(content)))

    def _read_request(self, body: dict[str, Any]) -> dict[str, Any]:
        chat = self.path != PATHS[0]
        name = body.get("model", "default_model")
        model = self.response_generator.models.of(name) if isinstance(name, str) else None
        if model is None:
            return body  # the engine refuses it
        given = body if chat else {name: value for name, value in body.items() if name != "tools"}
        asked = model.read(given, self.response_generator.cli_args.max_tokens)
        if asked is None:
            return body
        keys = [
            value.encode() for name, value in self.headers.items() if name.lower() in ("authorization", "x-api-key")
        ]
        client: Client = client_at(self.client_address[0], keys)
        self._ours = asked, model, ConstrainedRequest(model.processor(asked, client))
        return {name: value for name, value in body.items() if name not in FIELDS}

    def _refuse(self, refused: RefusedRequest) -> None:
        self._answer_json(refused.status, refused.body(), refused.retry_after)

    def _answer_json(self, status: HTTPStatus, body: Mapping[str, Any], retry_after: int | None = None) -> None:
        content = json.dumps(body).encode()
        self._set_completion_headers(int(status))
        self.send_header("Content-Length", str(len(content)))
        if retry_after is not None:
            self.send_header("Retry-After", str(retry_after))
        self.end_headers()
        self.wfile.write(content)

    def handle_completion(self, request: Any, stop_words: list[str]) -> None:
        """Generate an answer and send it."""
        if self._ours is None:
            super().handle_completion(request, stop_words)
            return
        asked, model, constrained = self._ours
        try:
            answer = MlxLmAnswer(self, asked, model.vocabulary)
        except LogitkitError as error:
            self._refuse(refused_stops(error))
            return
        known = self._arguments(request)
        setattr(known.arguments.logits, ASKED, constrained)
        try:
            context, responses = self.response_generator.generate(
                request, known.arguments, progress_callback=known.progress
            )
        except LogitkitError as error:
            self._refuse(RefusedRequest(str(error)))
        except Exception as error:  # noqa: BLE001 - as the engine does
            self._answer_json(HTTPStatus.NOT_FOUND, error_object(str(error), HTTPStatus.NOT_FOUND))
        else:
            try:
                answer.write(context, responses, known.arguments, lambda: constrained.error)
            finally:
                context.stop()

    def _arguments(self, request: Any) -> ArgumentsKnown:
        """Return the arguments of the generation, as the engine puts them together from the body."""

        def generate(_request: Any, args: Any, progress_callback: Any = None) -> Any:
            raise ArgumentsKnown(args, progress_callback)

        own, self.response_generator = self.response_generator, SimpleNamespace(generate=generate)
        try:
            super().handle_completion(request, [])
        except ArgumentsKnown as known:
            return known
        finally:
            self.response_generator = own
        raise AssertionError("mlx-lm's server has not called its generator")
