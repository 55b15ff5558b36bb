"""The names of vLLM that the plugin uses although they do not belong to vLLM's interface for plugins, and the effect of each.

They are looked up when vLLM loads the plugin. If requests could run without their constraint because a name is missing, all
requests for processors are refused; otherwise, the log warns. Two dependencies have no name, and the tests run them: V1 marks a
token that is being sampled by a negative number, and `AsyncLLM.generate` awaits a queue's `get` if `get_nowait` returns None.
"""

from __future__ import annotations

import inspect
import logging
import pkgutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import is_dataclass
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

__all__ = ["INTERNALS", "Internal", "http_requests", "is_missing", "missing", "report_internals", "why_refused"]

_logger = logging.getLogger(__name__)

# The releases with which the tests ran.
TESTED = ("0.32", "0.33")

CONFIG = "it tells which modes ignore the masks of plugins, and which vocabulary the engine has"


class Internal(NamedTuple):
    """A name of vLLM.

    Args:
        name: The object, after its module: a class, or its method.
        module: The module.
        parts: The parameters, fields, or attributes set by its `__init__`, that it must have.
        purpose: The use of it.
        without: The effect of its absence; None: requests for processors are refused.
    """

    name: str
    module: str
    parts: tuple[str, ...]
    purpose: str
    without: str | None = None


def _request(name: str, module: str, *methods: str) -> Internal:
    return Internal(
        name,
        f"vllm.entrypoints.{module}.protocol",
        ("vllm_xargs", "model_extra", *methods),
        "it sees unknown fields of a request, and requests for beam search, in which vLLM drops configurations",
        "a configuration in a wrong field, or beside use_beam_search, is ignored without an error",
    )


BOTH = "to_sampling_params", "to_beam_search_params"

HTTP_REQUESTS = (
    _request("CompletionRequest", "openai.completion", *BOTH),
    _request("ChatCompletionRequest", "openai.chat_completion", *BOTH),
    _request("ResponsesRequest", "openai.responses", BOTH[0]),
    _request("TranscriptionRequest", "speech_to_text.transcription", *BOTH),
    _request("TranslationRequest", "speech_to_text.translation", *BOTH),
)

INTERNALS = (
    Internal(
        "AsyncLLM.add_request",
        "vllm.v1.engine.async_llm",
        ("self", "request_id", "prompt", "params"),
        "a request waits until its configuration is compiled elsewhere, and its end is judged",
        "the server waits while configurations compile, and a text that ends early is not reported",
    ),
    Internal("AsyncLLM", "vllm.v1.engine.async_llm", ("vllm_config",), CONFIG),
    Internal(
        "init_entrypoints_middleware",
        "vllm.entrypoints.launchers.app",
        ("args", "app"),
        "the address and the API key tell clients apart, which take turns",
        "all requests take turns as if they came from one client",
    ),
    Internal(
        "RequestOutputCollector",
        "vllm.v1.engine.output_processor",
        ("get", "get_nowait"),
        "a text that ends early becomes an error of its request",
        "a text that ends early looks complete",
    ),
    Internal(
        "LLMEngine.add_request",
        "vllm.v1.engine.llm_engine",
        ("self", "request_id", "prompt", "params"),
        "the end of a request of `LLM` is judged",
        "a text that ends early looks complete offline",
    ),
    Internal(
        "LLMEngine.step",
        "vllm.v1.engine.llm_engine",
        ("self",),
        "the end of a request of `LLM` is judged",
        "a text that ends early looks complete offline",
    ),
    Internal(
        "LLMEngine.abort_request",
        "vllm.v1.engine.llm_engine",
        ("request_ids", "internal"),
        "a `Session` aborts its requests",
        "a Session whose call fails leaves requests in the engine",
    ),
    Internal(
        "LLMEngine",
        "vllm.v1.engine.llm_engine",
        ("vllm_config", "output_processor"),
        "the engine of a request of `LLM` is known, and a `Session` runs its own requests",
        "requests of `LLM` with a configuration, and Sessions, fail",
    ),
    Internal("LLM", "vllm", ("llm_engine",), "`Session`, `beam_search` and typed output find the engine", "they fail"),
    Internal(
        "OutputProcessor",
        "vllm.v1.engine.output_processor",
        ("request_states",),
        "a `Session` aborts its own requests only",
        "a Session fails",
    ),
    Internal("InputProcessor", "vllm.v1.engine.input_processor", ("vllm_config",), CONFIG),
    Internal(
        "VllmConfig",
        "vllm.config",
        ("model_config", "scheduler_config", "speculative_config", "device_config", "use_v2_model_runner"),
        CONFIG,
    ),
    Internal(
        "VllmConfig",
        "vllm.config",
        ("instance_id",),
        "all processes of an engine find the same files of automata",
        "each worker compiles all automata itself",
    ),
    Internal(
        "ModelConfig",
        "vllm.config",
        ("is_diffusion", "logits_processors", "max_model_len", "get_vocab_size", "try_get_generation_config"),
        CONFIG,
    ),
    Internal("SchedulerConfig", "vllm.config", ("async_scheduling",), CONFIG),
    Internal("SpeculativeConfig", "vllm.config", ("rejection_sample_method", "num_speculative_tokens"), CONFIG),
    Internal("Platform.is_tpu", "vllm.platforms.interface", ("self",), CONFIG),
    Internal("cached_tokenizer_from_config", "vllm.tokenizers", ("model_config",), CONFIG),
    Internal(
        "SamplingParams",
        "vllm",
        ("extra_args", "max_tokens", "output_kind", "trace_decode_token_ids", "structured_outputs"),
        "they carry the configuration of a request, and what may contradict it",
    ),
    Internal(
        "SamplingParams",
        "vllm",
        ("allowed_token_ids", "bad_words", "bad_words_token_ids", "update_from_tokenizer", "clone"),
        "constraints are compiled without the tokens that a request bans",
        "bans beside a constraint may end a text early",
    ),
    Internal(
        "BatchUpdate",
        "vllm.v1.sample.logits_processor",
        ("removed", "added", "moved", "batch_size"),
        "the rows of V1 follow the batch",
    ),
    Internal(
        "LogitsProcRequestState",
        "vllm.v1.worker.gpu.sample.logits_processor",
        ("device", "max_num_reqs", "all_token_ids", "prompt_len", "prefill_len"),
        "the rows of V2 follow the slots",
    ),
    Internal(
        "LogitsContext",
        "vllm.v1.worker.gpu.sample.logits_processor",
        ("expanded_idx_mapping", "idx_mapping_np", "expanded_local_pos", "pos", "input_ids"),
        "the rows of V2 follow the slots",
    ),
    Internal(
        "StagedWriteTensor",
        "vllm.v1.worker.gpu.buffer_utils",
        ("_staged_write_indices", "_staged_write_contents", "_staged_write_cu_lens"),
        "V2 reads the tokens of a new request before they are on the device",
        "the host waits for the device when a request enters",
    ),
    Internal(
        "VLLMValidationError",
        "vllm.exceptions",
        ("message", "parameter"),
        "a refused request is answered with status 400",
        "some refused requests are answered with status 500",
    ),
    Internal(
        "GracefulHTTPError",
        "vllm.exceptions",
        ("message", "http_status"),
        "a request that waits in vain is answered with status 503, and a text that ends early with 422",
        "they are answered with status 500",
    ),
    Internal(
        "OpenAIServingResponses.responses_stream_generator",
        "vllm.entrypoints.openai.responses.serving",
        ("self",),
        "a stream of /v1/responses whose text ends early ends with an event of the error",
        "the connection of such a stream breaks off",
    ),
    Internal(
        "validation_exception_handler",
        "vllm.entrypoints.serve.exception_handling.register",
        ("req", "exc"),
        "the refusal of a configuration that is not a string says what to send",
        "it only names the field",
    ),
    Internal(
        "create_error_response",
        "vllm.entrypoints.serve.exception_handling.error_response",
        ("message",),
        "the refusal of a configuration that is not a string says what to send",
        "it only names the field",
    ),
    Internal(
        "OnlineRenderer.preprocess_chat",
        "vllm.renderers.online_renderer",
        ("self", "request", "parser"),
        "with LOGITKIT_VLLM_RESPONSE_FORMAT=1, the fields of a chat are read before vLLM adds a grammar for its tools",
        "with LOGITKIT_VLLM_RESPONSE_FORMAT=1, chats with `tools` are refused",
    ),
    *HTTP_REQUESTS,
)


@cache
def missing() -> tuple[tuple[Internal, tuple[str, ...]], ...]:
    """Return the names that this release of vLLM lacks, each with the parts that are missing; without parts, all of it is."""
    return tuple(_missing())


def http_requests() -> Iterator[type]:
    """Yield the classes of HTTP requests that become sampling parameters, as far as this release of vLLM has them."""
    for internal in HTTP_REQUESTS:
        with suppress(ImportError, AttributeError):
            yield pkgutil.resolve_name(f"{internal.module}:{internal.name}")


def _missing() -> Iterator[tuple[Internal, tuple[str, ...]]]:
    for internal in INTERNALS:
        try:
            found = pkgutil.resolve_name(f"{internal.module}:{internal.name}")
        except (ImportError, AttributeError):
            yield internal, ()
            continue
        lacks = tuple(part for part in internal.parts if not _has(found, part))
        if lacks or (internal.name == "AsyncLLM.add_request" and not inspect.iscoroutinefunction(found)):
            yield internal, lacks


def is_missing(name: str) -> bool:
    """Whether this release of vLLM lacks a name, or a part of it."""
    return any(internal.name == name for internal, _ in missing())


def _has(found: Any, part: str) -> bool:
    if not isinstance(found, type):
        return part in inspect.signature(found).parameters
    fields = {*(found.__dataclass_fields__ if is_dataclass(found) else ()), *getattr(found, "model_fields", ())}
    # Attributes that the constructor sets, and its parameters; `admission` wraps one of them.
    own = vars(found).get("__init__")
    made = None if own is None else getattr(inspect.unwrap(own), "__code__", None)
    return part in fields or hasattr(found, part) or (made is not None and part in {*made.co_names, *made.co_varnames})


def why_refused() -> str | None:
    """Return why all requests for processors are refused with this release of vLLM, or None."""
    needed = [_described(internal, parts) for internal, parts in missing() if internal.without is None]
    if not needed:
        return None
    return (
        f"logitkit cannot serve vLLM {_release()}, which lacks {'; '.join(needed)}. Install a release that it was tested with: "
        f"{' or '.join(TESTED)}"
    )


def report_internals() -> None:
    """Write to the log what this release of vLLM lacks, and whether logitkit was tested with it."""
    release = _release()
    if not any(release == tested or release.startswith(f"{tested}.") for tested in TESTED):
        _logger.warning("logitkit was tested with vLLM %s, and this is vLLM %s", " and ".join(TESTED), release)
    refused = why_refused()
    if refused is not None:
        _logger.error("requests for processors are refused: %s", refused)
    for internal, parts in missing():
        if internal.without is not None:
            _logger.warning("vLLM %s lacks %s, so: %s", release, _described(internal, parts), internal.without)


def _described(internal: Internal, parts: tuple[str, ...]) -> str:
    what = f"{internal.module}.{internal.name}"
    return f"{what} with {', '.join(parts)}" if parts else what


def _release() -> str:
    return str(getattr(import_module("vllm"), "__version__", "of an unknown version"))
