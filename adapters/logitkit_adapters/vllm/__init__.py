"""logitkit in vLLM: the plugin `logitkit_adapters.vllm:LogitsProcessor`, for offline use and for servers.

plugin             LogitsProcessor, which vLLM makes (v1, v2: the two model runners)
parameters, configurations, requests    what a request asks for: read, compiled, kept
admission          a server compiles in another process before it admits a request (compiler, compile_process,
                   compile_messages, compiled)
session, beams     Session and beam search on an engine
engine, settings   what the engine's configuration says; the operator's settings
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from logitkit_adapters.vllm.beams import beam_search as beam_search
    from logitkit_adapters.vllm.configurations import Configurations as Configurations
    from logitkit_adapters.vllm.configurations import Verdict as Verdict
    from logitkit_adapters.vllm.engine import check_tokens_are_shown as check_tokens_are_shown
    from logitkit_adapters.vllm.engine import engine_vocabulary as engine_vocabulary
    from logitkit_adapters.vllm.engine import vocabulary as vocabulary
    from logitkit_adapters.vllm.parameters import Asked as Asked
    from logitkit_adapters.vllm.parameters import asked as asked
    from logitkit_adapters.vllm.plugin import LogitsProcessor as LogitsProcessor
    from logitkit_adapters.vllm.requests import Requests as Requests
    from logitkit_adapters.vllm.session import Session as Session
    from logitkit_adapters.vllm.v1 import V1Rows as V1Rows
    from logitkit_adapters.vllm.v2 import V2Slots as V2Slots

__all__ = ["LogitsProcessor", "Session", "beam_search", "vocabulary"]

_PARTS = {
    "configurations": {"Configurations", "Verdict"},
    "engine": {"check_tokens_are_shown", "engine_vocabulary"},
    "parameters": {"Asked", "asked"},
    "requests": {"Requests"},
    "v1": {"V1Rows"},
    "v2": {"V2Slots"},
    "plugin": set(__all__),
}


def __getattr__(name: str) -> Any:
    """Import vLLM, which takes seconds, only where it is used: the process that compiles does without."""
    for module, names in _PARTS.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
