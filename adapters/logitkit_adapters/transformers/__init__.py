"""logitkit in transformers.

hook                   logits_processor: the hook for `generate(logits_processor=[...])`
guidance_pass          GuidancePass: how to compute the second pass of the model, which `Guidance` needs (second_pass)
engine_bans            warn of bans of `generate` that leave none of the tokens that a constraint allows
continuous_batching    the same for continuous batching (request_processors, request_slots, known_processors)
vocabulary             the vocabulary of a tokenizer
engine                 session support: sequence and recurrent run one sequence, batch runs rows
                       (model, cache_argument)
particles              particles.sample: texts of a model given that they are in a language
fixed_cache, prefill   a cache of fixed shape, and prompts fed into it (prefill_arguments, static_layers)
"""

from typing import TYPE_CHECKING

from logitkit_adapters.lazy_names import OF_SESSIONS, lazy_names
from logitkit_adapters.loaded_class import needed_for

with needed_for("transformers", "transformers", "transformers"):
    import transformers as _  # noqa: F401 - so that its absence is named before any module here needs it

from logitkit_adapters.transformers.continuous_batching import continuous_batching as continuous_batching
from logitkit_adapters.transformers.engine_bans import EngineBansWarning as EngineBansWarning
from logitkit_adapters.transformers.fixed_cache import FixedCache as FixedCache
from logitkit_adapters.transformers.fixed_cache import fixed_cache as fixed_cache
from logitkit_adapters.transformers.hook import TransformersLogitsProcessor as TransformersLogitsProcessor
from logitkit_adapters.transformers.hook import logits_processor as logits_processor
from logitkit_adapters.transformers.prefill import prefill as prefill
from logitkit_adapters.transformers.vocabulary import vocabulary as vocabulary

if TYPE_CHECKING:
    from logitkit_adapters.sessions import Session as Session
    from logitkit_adapters.sessions import continuous as continuous
    from logitkit_adapters.sessions import generate_typed as generate_typed
    from logitkit_adapters.sessions import probabilities as probabilities
    from logitkit_adapters.sessions import trace as trace
    from logitkit_adapters.transformers.guidance_pass import GuidancePass as GuidancePass

__all__ = [
    "EngineBansWarning",
    "FixedCache",
    "GuidancePass",
    "Session",
    "TransformersLogitsProcessor",
    "continuous",
    "continuous_batching",
    "fixed_cache",
    "generate_typed",
    "logits_processor",
    "prefill",
    "probabilities",
    "trace",
    "vocabulary",
]

# With it, a type checker would allow any name.
if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, {**OF_SESSIONS, "GuidancePass": "logitkit_adapters.transformers.guidance_pass"})
