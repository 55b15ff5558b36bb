"""logitkit in vLLM: a plugin, for offline use and for servers.

plugin             `logitkit_adapters.vllm:LogitsProcessor`, which vLLM creates
v1, v2             the rows of the two model runners
parameters, configurations, requests    the configuration of a request: read, compiled for its engine, run in a batch
modes, mistakes    requests that would be ignored are refused
early_ends, watching        texts that end before their constraint allows it, and the requests that are followed to find them
admission          a server compiles configurations in other processes before it admits a request
request_checks, answers, internals    changed classes of HTTP requests; errors with a status; private names of vLLM
openai_fields      the fields of OpenAI's API as a configuration, by a switch of the operator
clients            tells clients apart
sampling           sampling_params: the sampling parameters of a request for an output type
session, beams     Session, which remembers its last_call, and beam search on an engine
text_model         the engine as generate_typed, trace and probabilities use it
engine, settings   the engine's configuration; the operator's settings

`logitkit_adapters.admission` compiles configurations, for the servers of other engines too.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from logitkit_adapters.lazy_names import OF_SESSIONS, lazy_names

if TYPE_CHECKING:
    from logitkit_adapters.sessions import generate_typed as generate_typed
    from logitkit_adapters.sessions import probabilities as probabilities
    from logitkit_adapters.sessions import trace as trace
    from logitkit_adapters.vllm.beams import beam_search as beam_search
    from logitkit_adapters.vllm.engine import vocabulary as vocabulary
    from logitkit_adapters.vllm.plugin import LogitsProcessor as LogitsProcessor
    from logitkit_adapters.vllm.sampling import sampling_params as sampling_params
    from logitkit_adapters.vllm.session import Session as Session

__all__ = [
    "LogitsProcessor",
    "Session",
    "beam_search",
    "generate_typed",
    "probabilities",
    "sampling_params",
    "trace",
    "vocabulary",
]


# With it, a type checker would allow any name.
if not TYPE_CHECKING:
    MODULES = {
        **OF_SESSIONS,
        "LogitsProcessor": f"{__name__}.plugin",
        "Session": f"{__name__}.session",
        "beam_search": f"{__name__}.beams",
        "sampling_params": f"{__name__}.sampling",
        "vocabulary": f"{__name__}.engine",
    }

    def __getattr__(name: str) -> Any:
        """Import the plugin, and with it vLLM, when a name is first used: the process that compiles needs neither."""
        if name in MODULES:
            import_module(f"{__name__}.plugin")
        return lazy_names(__name__, MODULES)(name)
