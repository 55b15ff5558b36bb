"""The modes of vLLM in which a plugin's masks have no effect, or come too late. There, requests for processors are refused.

All were found by reading vLLM 0.32 and 0.33. Those marked "run" were also seen to write unconstrained text in an engine.

| mode | vLLM's code | seen |
|---|---|---|
| V1 with speculative decoding | `build_logitsprocs` loads no plugins | run |
| V1 with asynchronous scheduling, plugin not named | the output of a request has placeholders for ever | run |
| drafts that are accepted at given rates | `rejection_sample` compares no logits in its synthetic mode | run |
| a request with a trace of tokens | `TraceReplayState` overwrites the sampled tokens | run |
| models with a sampler of their own: diffusion | `DiffusionSampler` runs no processors | read |
| platforms that load no plugins: TPU | `_load_custom_logitsprocs` returns none | read |
| a prompt that is streamed in parts | its earlier output becomes a part of its prompt | read |

Not among them: all other methods of drafting and of rejection ("standard", "block", "fly"), adaptive verification, sharded
sampling, watermarks, sampling masks and parallelism, which compare or sample processed logits.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any, NamedTuple

from logitkit.errors import ConfigurationError

__all__ = ["MODES", "Mode", "check_mode", "hides_tokens"]

NAME_IT = "name the plugin (--logits-processors logitkit_adapters.vllm:LogitsProcessor)"


class EngineRequest(NamedTuple):
    """A request in an engine.

    Args:
        config: The engine's `VllmConfig`.
        params: The request's `SamplingParams`.
        prompt: Its prompt, or None if it is not known.
    """

    config: Any
    params: Any
    prompt: Any = None


class Mode(NamedTuple):
    """A mode in which requests for processors are refused.

    Args:
        applies: Whether a request is in the mode.
        reason: The reason why its processors would be ignored.
        remedy: An alternative.
    """

    applies: Callable[[EngineRequest], bool]
    reason: str
    remedy: str


def hides_tokens(vllm_config: Any) -> bool:
    """Whether V1 hides the newest token of each request from the plugin: it shows them to named plugins only."""
    return bool(
        not vllm_config.use_v2_model_runner
        and vllm_config.scheduler_config.async_scheduling
        and not vllm_config.model_config.logits_processors
    )


def _loads_no_plugins(request: EngineRequest) -> bool:
    from vllm.platforms import current_platform

    return not request.config.use_v2_model_runner and bool(current_platform.is_tpu())


MODES = (
    Mode(
        lambda request: request.config.speculative_config is not None and not request.config.use_v2_model_runner,
        "vLLM's V1 model runner drops processors when it decodes speculatively",
        "start the server without speculative decoding (--speculative-config), or with the V2 model runner "
        "(VLLM_USE_V2_MODEL_RUNNER=1)",
    ),
    Mode(
        lambda request: hides_tokens(request.config),
        "with asynchronous scheduling, vLLM's V1 model runner hides the newest token from a plugin that is installed but not "
        "named",
        f"{NAME_IT}, or start the server with --no-async-scheduling",
    ),
    Mode(
        lambda request: getattr(request.config.speculative_config, "rejection_sample_method", None) == "synthetic",
        "with rejection_sample_method='synthetic', vLLM accepts drafts whatever the mask says",
        "start the server with another rejection_sample_method",
    ),
    Mode(
        lambda request: getattr(request.params, "trace_decode_token_ids", None) is not None,
        "trace_decode_token_ids replaces the sampled tokens, whatever the mask says",
        "leave it out",
    ),
    Mode(
        lambda request: bool(getattr(request.config.model_config, "is_diffusion", False)),
        "a diffusion model has a sampler of its own, which runs no processors",
        "use a model that writes one token after another",
    ),
    Mode(_loads_no_plugins, "vLLM loads no processors on a TPU", "use another device"),
    Mode(
        lambda request: isinstance(request.prompt, AsyncGenerator),
        "the prompt is streamed in parts, and vLLM makes the output so far a part of it, so that a constraint would begin again",
        "send the whole prompt",
    ),
)


def check_mode(vllm_config: Any, params: Any, prompt: Any = None) -> None:
    """Refuse a request for processors where vLLM would run it without them.

    Args:
        vllm_config: The engine's `VllmConfig`.
        params: The request's `SamplingParams`.
        prompt: Its prompt, if known.

    Raises:
        ConfigurationError: It would run without its processors; the message says what to do.
    """
    request = EngineRequest(vllm_config, params, prompt)
    for mode in MODES:
        if mode.applies(request):
            raise ConfigurationError(
                f"the request has `logitkit`, but it would be ignored here: {mode.reason}. To use it, {mode.remedy}"
            )
