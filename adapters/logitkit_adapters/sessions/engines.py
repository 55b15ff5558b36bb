"""Find the engine of a model, and load its session support; no other engine is imported.

Each engine is a package of `logitkit_adapters` with a module `engine`: its `sequence_engine` runs a single sequence, and its
`batch_engine` runs a batch of rows. To add an engine, write both and list the class of its models in `MODELS`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from logitkit.composition.engine_vocabulary import check_tokens_agree, parts_of
from logitkit.errors import ConfigurationError, VocabularyError
from logitkit.protocol.processor import Processor
from logitkit.vocabulary import Vocabulary
from logitkit_adapters.hooks.known_vocabularies import known_vocabulary
from logitkit_adapters.loaded_class import is_instance
from logitkit_adapters.sessions.batch import BatchEngine
from logitkit_adapters.sessions.sequence import SequenceEngine

__all__ = ["batch_engine_of", "check_tokens", "engine_of", "vocabulary_of"]

# The packages of the engines, with the module and name of the class of their models.
MODELS = {
    "llama_cpp": ("llama_cpp", "Llama"),
    "mlx_vlm": ("mlx.nn", "Module"),  # of these, the models that embed images too
    "mlx_lm": ("mlx.nn", "Module"),
    "onnxruntime_genai": ("onnxruntime_genai", "Model"),
    "transformers": ("transformers", "PreTrainedModel"),
}


def engine_of(model: Any, tokenizer: Any = None, make_cache: Callable[[], Any] | None = None) -> SequenceEngine:
    """Return the engine that runs single sequences of a model.

    Args:
        model: A causal language model of transformers, a model of mlx-lm or mlx-vlm, a `llama_cpp.Llama` or an
            `onnxruntime_genai.Model`.
        tokenizer: The tokenizer of the model; llama.cpp has its own. May be None if all prompts are token ids.
        make_cache: Returns the empty cache of one sequence, to replace the engine's default. llama.cpp and ONNX Runtime GenAI
            have none.

    Raises:
        ConfigurationError: The model does not belong to a supported engine.
    """
    engine: SequenceEngine = _module_of(model).sequence_engine(model, tokenizer, make_cache)
    return engine


def batch_engine_of(model: Any, tokenizer: Any, make_cache: Callable[[], Any] | None) -> BatchEngine:
    """Return the engine that runs a batch of rows of a model; the arguments are those of `engine_of`.

    Raises:
        ConfigurationError: The model does not belong to a supported engine, or there is no tokenizer.
    """
    engine: BatchEngine = _module_of(model).batch_engine(model, tokenizer, make_cache)
    if engine.tokenizer is None:
        raise ConfigurationError("tokenizer is None; give the tokenizer of the model")
    return engine


def vocabulary_of(model: Any, tokenizer: Any) -> Vocabulary:
    """Return the vocabulary of a model, which is read once; llama.cpp needs no tokenizer.

    Raises:
        ConfigurationError: The model does not belong to a supported engine.
        VocabularyError: The bytes of the tokens cannot be recovered.
    """
    read = import_module(_package_of(model)).vocabulary
    return known_vocabulary(read, model if tokenizer is None else tokenizer, model)


def check_tokens(processor: Processor[Any] | None, model: Any, tokenizer: Any) -> None:
    """Check that a processor was built for the tokens of a model, if it has a vocabulary.

    Args:
        processor: The processor, or None.
        model: The model.
        tokenizer: Its tokenizer; None for llama.cpp. A tokenizer whose bytes cannot be recovered is not compared.

    Raises:
        VocabularyError: It was built for other tokens.
    """
    if any(isinstance(getattr(part, "vocabulary", None), Vocabulary) for part in parts_of(processor)):
        try:
            vocabulary = vocabulary_of(model, tokenizer)
        except VocabularyError:
            return
        check_tokens_agree(processor, vocabulary)


def _module_of(model: Any) -> Any:
    """Return the module `engine` of the package of a model's engine."""
    return import_module(f"{_package_of(model)}.engine")


def _package_of(model: Any) -> str:
    for package, (module, name) in MODELS.items():
        if is_instance(model, module, name) and (package != "mlx_vlm" or hasattr(model, "get_input_embeddings")):
            return f"logitkit_adapters.{package}"
    raise ConfigurationError(
        f"model is a {type(model).__module__}.{type(model).__qualname__}; give a causal language model of transformers, a "
        "model of mlx-lm or mlx-vlm, a llama_cpp.Llama or an onnxruntime_genai.Model; logitkit_adapters.vllm takes vLLM's LLM"
    )
