"""logitkit in ONNX Runtime GenAI.

generation        generate, generate_step: the engine's own loop, with its batches and sampling, and a processor at every step
search_options    the options of that loop, and those that are refused
processed_rows    the processor's state for the rows of a loop
tokenizer         Tokenizer: the tokenizer of a model's folder; vocabulary reads its tokens
model_limits      what a model supports, found out once
engine            session support: sequence runs one sequence (generators)
"""

from typing import TYPE_CHECKING

from logitkit_adapters.lazy_names import OF_SESSIONS, lazy_names
from logitkit_adapters.onnxruntime_genai.generation import generate as generate
from logitkit_adapters.onnxruntime_genai.generation import generate_step as generate_step
from logitkit_adapters.onnxruntime_genai.tokenizer import Tokenizer as Tokenizer
from logitkit_adapters.onnxruntime_genai.vocabulary import vocabulary as vocabulary

if TYPE_CHECKING:
    from logitkit_adapters.sessions import Session as Session
    from logitkit_adapters.sessions import continuous as continuous
    from logitkit_adapters.sessions import generate_typed as generate_typed
    from logitkit_adapters.sessions import probabilities as probabilities
    from logitkit_adapters.sessions import trace as trace

__all__ = [
    "Session",
    "Tokenizer",
    "continuous",
    "generate",
    "generate_step",
    "generate_typed",
    "probabilities",
    "trace",
    "vocabulary",
]

# With it, a type checker would allow any name.
if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, OF_SESSIONS)
