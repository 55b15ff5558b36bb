"""logitkit in mlx-lm.

hook      logits_processor: the hook for `generate(logits_processors=[...])`; vocabulary
caller    what the variables of the calling function say
engine    session support: the model (sequence), and its caches in files (files)
particles  particles.sample: texts of a model given that they are in a language

Most of it is in `logitkit_adapters.mlx`, which mlx-vlm uses too.
"""

from typing import TYPE_CHECKING

from logitkit_adapters.lazy_names import OF_SESSIONS, lazy_names
from logitkit_adapters.mlx_lm.hook import MlxLmLogitsProcessor as MlxLmLogitsProcessor
from logitkit_adapters.mlx_lm.hook import logits_processor as logits_processor
from logitkit_adapters.mlx_lm.hook import vocabulary as vocabulary

if TYPE_CHECKING:
    from logitkit_adapters.sessions import Session as Session
    from logitkit_adapters.sessions import continuous as continuous
    from logitkit_adapters.sessions import generate_typed as generate_typed
    from logitkit_adapters.sessions import probabilities as probabilities
    from logitkit_adapters.sessions import trace as trace

__all__ = [
    "MlxLmLogitsProcessor",
    "Session",
    "continuous",
    "generate_typed",
    "logits_processor",
    "probabilities",
    "trace",
    "vocabulary",
]

# With it, a type checker would allow any name.
if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, OF_SESSIONS)
