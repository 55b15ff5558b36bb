"""Try the installed distribution, away from its sources: `python -I wheel_smoke.py core|serve|ENGINE`, such as `mlx_lm`.

CI runs it in a clean environment: with what the core needs alone, where no engine can be imported, and then
with each engine and the servers.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import sysconfig
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

import logitkit as lk
import logitkit_adapters
from logitkit_adapters.demo import model_dir

INSTALLED = Path(sysconfig.get_path("purelib"))


def check_files() -> None:
    for package in (lk, logitkit_adapters):
        folder = Path(str(package.__file__)).parent
        assert folder.parent == INSTALLED, f"{package.__name__} was imported from {folder}, not from {INSTALLED}"
        assert (folder / "py.typed").is_file()
    assert model_dir().is_relative_to(INSTALLED)
    assert (model_dir() / "model.safetensors").stat().st_size > 100_000
    for root in ("processors", "adapters"):
        assert importlib.util.find_spec(root) is None, f"{root!r} is importable"
    assert lk.__version__ == version("logitkit")


def check_command() -> None:
    command = [str(Path(sysconfig.get_path("scripts")) / "logitkit"), "demo", "--help"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "--regex" in result.stdout


def check_core() -> None:
    assert importlib.util.find_spec("transformers") is None, "this environment is not the core's alone"
    vocabulary = lk.Vocabulary([b"a", b"b", b"ab", None], eos_ids=[3])
    regex = lk.Regex("ab+", vocabulary)
    context = lk.Context.of([[]], vocabulary_size=4)
    state = regex.init_state(context)
    allowed = []
    for token in ([], [2]):
        if token:
            state = regex.advance(state, torch.tensor([token]))
        state, logits = regex.process_logits(state, torch.zeros(1, 4), context)
        allowed.append(torch.isfinite(logits[0]).nonzero().flatten().tolist())
    assert allowed == [[0, 2], [1, 3]], allowed


def check_transformers() -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from logitkit_adapters.transformers import logits_processor, vocabulary

    tokenizer = AutoTokenizer.from_pretrained(model_dir())
    model: Any = AutoModelForCausalLM.from_pretrained(model_dir())
    date = lk.Regex(r"\d{4}-\d{2}-\d{2}", vocabulary(tokenizer))
    inputs = tokenizer("The invoice is dated", return_tensors="pt")
    output = model.generate(
        **inputs,
        num_beams=4,
        num_return_sequences=4,
        max_new_tokens=20,
        do_sample=False,
        logits_processor=[logits_processor(date)],
    )
    prompt_length = inputs["input_ids"].shape[1]
    texts = tokenizer.batch_decode(output[:, prompt_length:], skip_special_tokens=True)
    assert len(texts) == 4
    assert all(re.fullmatch(r"\d{4}-\d{2}-\d{2}", text) for text in texts), texts


def check_mlx_lm() -> None:
    from mlx_lm import generate, load

    from logitkit_adapters.mlx_lm import logits_processor, vocabulary

    model, tokenizer = load(str(model_dir()))[:2]
    date = lk.Regex(r"\d{4}-\d{2}-\d{2}", vocabulary(tokenizer))
    text = generate(model, tokenizer, "The invoice is dated", logits_processors=[logits_processor(date)])
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", text), text


def check_mlx_vlm() -> None:
    from mlx_vlm.generate import generate
    from mlx_vlm.utils import load

    from logitkit_adapters.mlx_vlm import logits_processor, vocabulary

    loaded: tuple[Any, Any] = load(str(model_dir()))
    model, processor = loaded
    date = lk.Regex(r"\d{4}-\d{2}-\d{2}", vocabulary(processor, model))
    text = generate(model, processor, "The invoice is dated", logits_processors=[logits_processor(date)]).text
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", text), text


def check_serve() -> None:
    from logitkit_adapters.cli.serve import ENGINES, missing_modules, server_of

    for engine in ENGINES:
        assert missing_modules(engine) == [], engine
        assert callable(server_of(engine).main), engine


def check_llama_cpp() -> None:
    import llama_cpp

    from logitkit_adapters.demo import gguf_path
    from logitkit_adapters.llama_cpp import logits_processor, vocabulary

    llama: Any = llama_cpp.Llama(str(gguf_path()), verbose=False)
    date = lk.Regex(r"\d{4}-\d{2}-\d{2}", vocabulary(llama))
    hooks = logits_processor(date)
    answer = llama.create_completion("The invoice is dated", max_tokens=20, logits_processor=hooks)
    text = answer["choices"][0]["text"]
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", text), text


def check_onnxruntime_genai() -> None:
    import onnxruntime_genai

    from logitkit_adapters.demo import onnx_dir
    from logitkit_adapters.onnxruntime_genai import Tokenizer, generate, vocabulary

    model = onnxruntime_genai.Model(str(onnx_dir()))
    tokenizer = Tokenizer(model, onnx_dir())
    date = lk.Regex(r"\d{4}-\d{2}-\d{2}", vocabulary(tokenizer))
    text = generate(model, tokenizer, "The invoice is dated", date, max_new_tokens=20).text
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", text), text


PARTS = {
    "transformers": check_transformers,
    "mlx_lm": check_mlx_lm,
    "mlx_vlm": check_mlx_vlm,
    "llama_cpp": check_llama_cpp,
    "onnxruntime_genai": check_onnxruntime_genai,
    "serve": check_serve,
}


def main(part: str) -> None:
    check_files()
    if part == "core":
        check_command()
        check_core()
    else:
        PARTS[part]()
    print(f"wheel: {part} works from {INSTALLED}")


if __name__ == "__main__":
    main(sys.argv[1])
