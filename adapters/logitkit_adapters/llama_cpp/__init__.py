"""logitkit in llama-cpp-python.

hook                   logits_processor: the list for `create_completion(logits_processor=...)`
guard, guarded_list    errors in hooks reach the caller; processors and foreign hooks are refused before the first token
after_hooks, candidates    checks of llama.cpp's later steps; our hooks work on the candidates in place, without copies
vocabulary             the vocabulary of a model
engine                 session support: sequence runs one sequence with its cache (context, files, tokenizer)
"""

from typing import TYPE_CHECKING

from logitkit_adapters.lazy_names import OF_SESSIONS, lazy_names
from logitkit_adapters.llama_cpp.hook import LlamaCppLogitsProcessor as LlamaCppLogitsProcessor
from logitkit_adapters.llama_cpp.hook import logits_processor as logits_processor
from logitkit_adapters.llama_cpp.vocabulary import vocabulary as vocabulary

if TYPE_CHECKING:
    from logitkit_adapters.sessions import Session as Session
    from logitkit_adapters.sessions import continuous as continuous
    from logitkit_adapters.sessions import generate_typed as generate_typed
    from logitkit_adapters.sessions import probabilities as probabilities
    from logitkit_adapters.sessions import trace as trace

__all__ = [
    "LlamaCppLogitsProcessor",
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
