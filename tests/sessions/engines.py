"""The shipped model in four engines, and counters of what is fed to them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from logitkit_adapters.demo import gguf_path, model_dir, onnx_dir

ENGINES = ("transformers", "mlx-lm", "llama.cpp", "onnxruntime-genai")

# Those whose caches can be copied and written to files. A generator of ONNX Runtime GenAI can only be cut: see
# tests/adapters/test_onnxruntime_genai_sessions.py.
COPYING = ENGINES[:3]


@cache
def loaded(name: str) -> tuple[Any, Any]:
    """Return model and tokenizer of an engine, loaded once."""
    if name == "transformers":
        import transformers

        tokenizer = transformers.AutoTokenizer.from_pretrained(model_dir())
        return transformers.AutoModelForCausalLM.from_pretrained(model_dir()), tokenizer
    if name == "mlx-lm":
        import mlx_lm

        return mlx_lm.load(str(model_dir()))[:2]
    if name == "onnxruntime-genai":
        import onnxruntime_genai

        from logitkit_adapters.onnxruntime_genai import Tokenizer

        model = onnxruntime_genai.Model(str(onnx_dir()))
        return model, Tokenizer(model, onnx_dir())
    import llama_cpp

    return (
        llama_cpp.Llama(str(gguf_path()), n_ctx=512, n_threads=1, n_threads_batch=1, type_k=0, type_v=0, verbose=False),
        None,
    )


@contextmanager
def watched(model: Any) -> Iterator[list[int]]:
    """Collect the number of positions of each forward pass of a model."""
    fed: list[int] = []
    if hasattr(model, "generation_config"):
        hook = model.register_forward_pre_hook(
            lambda _module, args, kwargs: fed.append(kwargs["input_ids"].shape[1]), with_kwargs=True
        )
        try:
            yield fed
        finally:
            hook.remove()
        return
    if hasattr(model, "llm_engine"):
        with _reported_by_vllm(model) as fed:
            yield fed
        return
    if hasattr(model, "device_type"):
        with _fed_to_generators() as fed:
            yield fed
        return
    owner, name = (model, "eval") if hasattr(model, "n_ctx") else (type(model), "__call__")
    whole = getattr(owner, name)

    def watching(*args: Any, **kwargs: Any) -> Any:
        fed.append(len(args[-1]) if name == "eval" else args[1].shape[1])
        return whole(*args, **kwargs)

    setattr(owner, name, watching)
    try:
        yield fed
    finally:
        if name == "eval":
            del model.eval
        else:
            setattr(owner, name, whole)


@contextmanager
def _fed_to_generators() -> Iterator[list[int]]:
    """Collect the number of tokens that are appended to generators of ONNX Runtime GenAI."""
    import onnxruntime_genai

    fed: list[int] = []
    whole = onnxruntime_genai.Generator.append_tokens

    def watching(generator: Any, tokens: Any) -> None:
        fed.append(len(tokens))
        whole(generator, tokens)

    onnxruntime_genai.Generator.append_tokens = watching
    try:
        yield fed
    finally:
        onnxruntime_genai.Generator.append_tokens = whole


@contextmanager
def _reported_by_vllm(llm: Any) -> Iterator[list[int]]:
    """Collect for each output the tokens of its prompt that were not cached, and the new tokens that were fed."""
    fed: list[int] = []
    whole = llm.generate

    def watching(*args: Any, **kwargs: Any) -> Any:
        outputs = whole(*args, **kwargs)
        for output in outputs:
            prompt = len(output.prompt_token_ids) - (output.num_cached_tokens or 0)
            fed.append(prompt + len(output.outputs[0].token_ids) - 1)
        return outputs

    llm.generate = watching
    try:
        yield fed
    finally:
        del llm.generate
