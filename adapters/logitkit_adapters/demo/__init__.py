"""A small model that ships with logitkit, with which demos and tests generate text on any machine.

The model is a `LlamaForCausalLM` of 0.7 million float32 weights (4 layers of width 128, 4 heads of size 32 with 2 key-value
heads, tied embeddings, 2048 positions) with a byte-level BPE tokenizer of 1280 tokens. It generates contact cards, dates,
prices, JSON records, short sentences, answers and lists, and nothing else. `scripts/train-demo-model` in the source repository
trains it.
"""

from pathlib import Path

__all__ = ["gguf_path", "model_dir", "onnx_dir"]


def model_dir() -> Path:
    """Return the folder of the shipped model, in the Hugging Face layout.

    The tokenizer does not add special tokens itself. The model was trained on prompts with and without a leading `<s>`.

    Returns:
        A folder with `config.json`, `generation_config.json`, `model.safetensors`, `tokenizer.json` and
        `tokenizer_config.json`, and the graph of the model for ONNX Runtime, `model.onnx`; at most 3 MB in total.

    Example:
        >>> from logitkit_adapters.demo import model_dir
        >>> (model_dir() / "config.json").is_file()
        True
    """
    return Path(__file__).resolve().parent / "model"


def gguf_path() -> Path:
    """Return the shipped model as a GGUF file with float32 weights, for llama.cpp.

    The file is written once, to the folder `logitkit` in `$XDG_CACHE_HOME` (default `~/.cache`), under a name that identifies
    its content. If that folder is not writable, the file goes to a temporary folder that is deleted when the process ends.

    Returns:
        A file of 2.9 MB.

    Raises:
        ConfigurationError: Neither folder is writable.

    Example:
        >>> from logitkit_adapters.demo import gguf_path
        >>> gguf_path().suffix
        '.gguf'
    """
    from logitkit_adapters.demo.cached_files import cached
    from logitkit_adapters.demo.gguf_model import convert

    return cached(convert(model_dir()), "demo.gguf")


def onnx_dir() -> Path:
    """Return the shipped model as a folder for ONNX Runtime GenAI, with float32 weights.

    The folder is written once, like the file of `gguf_path`.

    Returns:
        A folder of 3.2 MB, with the graph that the model builder of ONNX Runtime GenAI makes.

    Raises:
        ConfigurationError: Neither the cache nor a temporary folder is writable.

    Example:
        >>> from logitkit_adapters.demo import onnx_dir
        >>> (onnx_dir() / "genai_config.json").is_file()
        True
    """
    from logitkit_adapters.demo.cached_files import cached_folder
    from logitkit_adapters.demo.onnx_model import convert

    return cached_folder(convert(model_dir()), "demo-onnx")
