"""The engines with the shipped demo model, and the hooks of each library: ours, and those of the peers.

Each generation gets a new hook, made from a constraint that is compiled once. XGrammar has hooks for transformers and mlx-lm.
LLGuidance has functions for torch, numpy and mlx, from which this file builds hooks. outlines has hooks for all three engines,
with its default, outlines-core, and for mlx-lm also with XGrammar. The benchmark tries which of them run on the machine.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import logitkit as lk
from logitkit_adapters.demo import gguf_path, model_dir

# Libraries are imported where they are used: run as a program, a benchmark is read before pytest, which must see plugins first.
Hook = Callable[[Any, Any], Any]
Make = Callable[[], Hook]

PROMPT = "Name: Emma Brown\nAs JSON: "
POSITIONS = 2048
FLOAT32 = 0


class EngineRun:
    """An engine with the demo model.

    Args:
        name: The engine.
        rows: How many rows a generation has; all have the same prompt.
        pattern: The pattern that constrains the text.
    """

    name: str
    vocabulary: lk.Vocabulary

    def __init__(self, pattern: str, rows: int) -> None:
        self.pattern, self.rows = pattern, rows

    def generate(self, hook: Hook | None, limit: int) -> list[list[int]]:
        """Write the likeliest text: with a hook up to its EOS, else `limit` tokens whatever they are."""
        raise NotImplementedError

    def hooks(self) -> Mapping[str, Callable[[], Make]]:
        """Return what compiles the pattern, for each library by name."""
        raise NotImplementedError

    def ours(self) -> Make:
        module = importlib.import_module(f"logitkit_adapters.{self.name.replace('.', '_').replace('-', '_')}")
        processor = lk.Regex(self.pattern, self.vocabulary)
        return lambda: module.logits_processor(processor)

    def outlines(self, load: str, *model: Any, backend: str | None = None) -> Make:
        import outlines
        from outlines.backends import get_regex_logits_processor

        processor = get_regex_logits_processor(backend, getattr(outlines, load)(*model), self.pattern)

        def make() -> Hook:
            processor.reset()
            hook: Hook = processor
            return hook

        return make


class TransformersRun(EngineRun):
    name = "transformers"

    def __init__(self, pattern: str, rows: int) -> None:
        import transformers
        from transformers.utils import logging

        from logitkit_adapters.transformers import vocabulary

        super().__init__(pattern, rows)
        logging.disable_progress_bar()
        self.model: Any = transformers.AutoModelForCausalLM.from_pretrained(model_dir(), local_files_only=True)
        self.tokenizer: Any = transformers.AutoTokenizer.from_pretrained(model_dir(), local_files_only=True)
        self.vocabulary = vocabulary(self.tokenizer)
        self.inputs = self.tokenizer([PROMPT] * rows, return_tensors="pt")

    def generate(self, hook: Hook | None, limit: int) -> list[list[int]]:
        end = self.vocabulary.size if hook is None else self.tokenizer.eos_token_id  # no token has the id of the size
        written = self.model.generate(
            **self.inputs,
            max_new_tokens=limit,
            do_sample=False,
            eos_token_id=end,
            logits_processor=[] if hook is None else [hook],
        )
        ids: list[list[int]] = written[:, self.inputs["input_ids"].shape[1] :].tolist()
        return [row[: row.index(end) + 1] if end in row else row for row in ids]

    def hooks(self) -> Mapping[str, Callable[[], Make]]:
        return {
            "logitkit": self.ours,
            "outlines": lambda: self.outlines("from_transformers", self.model, self.tokenizer),
            "XGrammar": self.xgrammar,
            "LLGuidance": self.llguidance,
        }

    def xgrammar(self) -> Make:
        import xgrammar
        from xgrammar.contrib.hf import LogitsProcessor

        info = xgrammar.TokenizerInfo.from_huggingface(self.tokenizer, vocab_size=self.vocabulary.size)
        compiled = xgrammar.GrammarCompiler(info, max_threads=1).compile_regex(self.pattern)
        return lambda: LogitsProcessor(compiled)

    def llguidance(self) -> Make:
        import llguidance.hf
        import llguidance.torch as tensors

        tokenizer = llguidance.hf.from_tokenizer(self.tokenizer, n_vocab=self.vocabulary.size)
        matcher = llguidance.LLMatcher(tokenizer, llguidance.LLMatcher.grammar_from_regex(self.pattern))

        def make() -> Hook:
            bits = tensors.allocate_token_bitmask(self.rows, self.vocabulary.size)
            matchers = [matcher.deep_copy() for _ in range(self.rows)]
            return guided(matchers, bits, tensors.fill_next_token_bitmask, tensors.apply_token_bitmask_inplace)

        return make


@contextmanager
def unguarded(methods: Any) -> Iterator[None]:
    """Take off for a while what our hook puts around the methods of a class, and what it costs the others."""
    guarded = {name: getattr(methods, name) for name in ("generate", "sample")}
    try:
        for name, method in guarded.items():
            setattr(methods, name, inspect.unwrap(method))
        yield
    finally:
        for name, method in guarded.items():
            setattr(methods, name, method)


class LlamaCppRun(EngineRun):
    name = "llama.cpp"

    def __init__(self, pattern: str, rows: int) -> None:
        import llama_cpp

        from logitkit_adapters.llama_cpp import vocabulary

        assert rows == 1
        super().__init__(pattern, rows)
        options: dict[str, Any] = {"n_threads": 1, "n_threads_batch": 1, "type_k": FLOAT32, "type_v": FLOAT32}
        self.llama: Any = llama_cpp.Llama(str(gguf_path()), n_ctx=POSITIONS, verbose=False, **options)
        self.vocabulary = vocabulary(self.llama)
        self.list = llama_cpp.LogitsProcessorList
        self.ids = self.llama.tokenize(PROMPT.encode())

    def generate(self, hook: Hook | None, limit: int) -> list[list[int]]:
        hooks = None if hook is None else hook if isinstance(hook, list) else self.list([hook])
        row: list[int] = []
        with nullcontext() if isinstance(hook, list) else unguarded(type(self.llama)):
            tokens = self.llama.generate(self.ids, temp=0, logits_processor=hooks)
            for token in tokens:
                row.append(token)
                if len(row) == limit or (hook is not None and token in self.vocabulary.eos_ids):
                    break
            tokens.close()
        return [row]

    def hooks(self) -> Mapping[str, Callable[[], Make]]:
        return {
            "logitkit": self.ours,
            "outlines": lambda: self.outlines("from_llamacpp", self.llama),
            "LLGuidance": self.llguidance,
        }

    def llguidance(self) -> Make:
        import llama_cpp
        import llguidance.llamacpp
        import llguidance.numpy

        vocab = llama_cpp.llama_model_get_vocab(self.llama.model)
        tokenizer = llguidance.llamacpp.lltokenizer_from_vocab(vocab)
        matcher = llguidance.LLMatcher(tokenizer, llguidance.LLMatcher.grammar_from_regex(self.pattern))

        return guided_row(matcher, self.vocabulary.size, llguidance.numpy.apply_token_bitmask_inplace)


class MlxLmRun(EngineRun):
    name = "mlx-lm"

    def __init__(self, pattern: str, rows: int) -> None:
        import mlx_lm

        from logitkit_adapters.mlx_lm import vocabulary

        assert rows == 1
        super().__init__(pattern, rows)
        self.model: Any
        self.model, self.tokenizer = mlx_lm.load(str(model_dir()))[:2]
        self.vocabulary = vocabulary(self.tokenizer)
        self.ids = self.tokenizer.encode(PROMPT)

    def generate(self, hook: Hook | None, limit: int) -> list[list[int]]:
        import mlx.core as mx
        from mlx_lm.generate import generate_step

        row: list[int] = []
        hooks = [] if hook is None else [hook]
        for token, _ in generate_step(mx.array(self.ids), self.model, max_tokens=limit, logits_processors=hooks):
            row.append(int(token))
            if hook is not None and token in self.vocabulary.eos_ids:
                break
        return [row]

    def hooks(self) -> Mapping[str, Callable[[], Make]]:
        return {
            "logitkit": self.ours,
            "outlines": lambda: self.outlines("from_mlxlm", self.model, self.tokenizer),
            "outlines with XGrammar": lambda: self.outlines(
                "from_mlxlm", self.model, self.tokenizer, backend="xgrammar"
            ),
            "XGrammar": self.xgrammar,
            "LLGuidance": self.llguidance,
        }

    def xgrammar(self) -> Make:
        import xgrammar
        from xgrammar.contrib.mlxlm import XGrammarLogitsProcessor

        info = xgrammar.TokenizerInfo.from_huggingface(self.tokenizer._tokenizer, vocab_size=self.vocabulary.size)
        compiled = xgrammar.GrammarCompiler(info, max_threads=1).compile_regex(self.pattern)
        return lambda: XGrammarLogitsProcessor(compiled)

    def llguidance(self) -> Make:
        import llguidance.hf
        import llguidance.mlx

        tokenizer = llguidance.hf.from_tokenizer(self.tokenizer._tokenizer, n_vocab=self.vocabulary.size)
        matcher = llguidance.LLMatcher(tokenizer, llguidance.LLMatcher.grammar_from_regex(self.pattern))

        return guided_row(matcher, self.vocabulary.size, llguidance.mlx.apply_token_bitmask)


def guided(matchers: Sequence[Any], bits: Any, fill: Callable[..., object], apply: Callable[..., Any]) -> Hook:
    """Put a hook together of LLGuidance's functions."""
    begun = False

    def hook(ids: Any, logits: Any) -> Any:
        nonlocal begun
        if begun:
            for matcher, token in zip(matchers, ids[..., -1:].reshape(-1).tolist(), strict=True):
                matcher.consume_token(token)
        begun = True
        for row, matcher in enumerate(matchers):
            fill(matcher, bits, row)
        processed = apply(logits, bits)
        return logits if processed is None else processed

    return hook


def guided_row(matcher: Any, size: int, apply: Callable[..., Any]) -> Make:
    """Return what makes hooks for one row, with bits in numpy."""
    from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask

    return lambda: guided([matcher.deep_copy()], allocate_token_bitmask(1, size), fill_next_token_bitmask, apply)
