"""The shipped model in each engine: greedy generation with a processor, bare, or along given tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

import logitkit as lk
from tests.adapters.demo import tokenizer, vocabulary

EOS = tuple(vocabulary().eos_ids)

# Called after the adapter's hook: gets a row of processed logits as a tensor, and may overwrite them.
Then = Callable[[Tensor], None]


class Engine(Protocol):
    """One engine."""

    name: str

    def generate(self, prompts: Sequence[list[int]], processor: lk.Processor[Any], steps: int) -> list[list[int]]:
        """Return the greedy new tokens of each prompt, up to EOS and with it."""
        ...

    def forced(self, prompt: list[int], tokens: Sequence[int], processor: lk.Processor[Any]) -> Tensor:
        """Return the processed logits of every step along the given new tokens: [len(tokens), V] float32."""
        ...


def until_eos(tokens: Sequence[int]) -> list[int]:
    """Cut the ids after the first EOS."""
    ends = [i for i, token in enumerate(tokens) if token in EOS]
    return list(tokens[: ends[0] + 1] if ends else tokens)


class Recorder:
    """Remembers processed logits, and leaves the engine no choice but the next of the given tokens."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self.tokens = tokens
        self.seen: list[Tensor] = []

    def __call__(self, row: Tensor) -> None:
        step = len(self.seen)
        self.seen.append(row.detach().float().clone())
        row.fill_(-torch.inf)
        # Some engines ask once more than they use.
        row[self.tokens[min(step, len(self.tokens) - 1)]] = 0

    def result(self) -> Tensor:
        return torch.stack(self.seen[: len(self.tokens)])


class Transformers:
    name = "transformers"

    def generate(self, prompts: Sequence[list[int]], processor: lk.Processor[Any], steps: int) -> list[list[int]]:
        width = max(map(len, prompts))
        pad = tokenizer().pad_token_id
        ids = torch.tensor([[pad] * (width - len(p)) + p for p in prompts])
        mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts])
        written = self._run(ids, mask, processor, steps, lambda row: None)
        return [until_eos(row[width:].tolist()) for row in written]

    def forced(self, prompt: list[int], tokens: Sequence[int], processor: lk.Processor[Any]) -> Tensor:
        recorder = Recorder(tokens)
        self._run(torch.tensor([prompt]), torch.ones(1, len(prompt)), processor, len(tokens), recorder)
        return recorder.result()

    def _run(self, ids: Tensor, mask: Tensor, processor: lk.Processor[Any], steps: int, then: Then) -> Tensor:
        from logitkit_adapters.transformers import logits_processor
        from tests.adapters.demo import model

        def behind(_: Tensor, scores: Tensor) -> Tensor:
            for row in scores:
                then(row)
            return scores

        hooks = [logits_processor(processor, attention_mask=mask, max_new_tokens=steps), behind]
        written: Tensor = model().generate(
            ids, attention_mask=mask, max_new_tokens=steps, do_sample=False, logits_processor=hooks
        )
        return written


def _recording(recorder: Recorder) -> Callable[[Any, Any], Any]:
    """Return a hook of mlx-lm and mlx-vlm that lets a recorder see and change the logits."""
    import mlx.core as mx

    def recorded(_: Any, logits: Any) -> Any:
        row = torch.from_numpy(np.array(logits)[0])
        recorder(row)
        return mx.array(row.numpy())[None]

    return recorded


class MlxLm:
    name = "mlx-lm"

    def generate(self, prompts: Sequence[list[int]], processor: lk.Processor[Any], steps: int) -> list[list[int]]:
        from logitkit_adapters.mlx_lm import logits_processor
        from tests.adapters.demo_mlx_lm import batch

        hooks: list[Any] = [[logits_processor(processor, max_new_tokens=steps)] for _ in prompts]
        return [until_eos(row) for row in batch(list(prompts), hooks, max_tokens=steps)]

    def forced(self, prompt: list[int], tokens: Sequence[int], processor: lk.Processor[Any]) -> Tensor:
        import mlx.core as mx
        from mlx_lm.generate import generate_step

        from logitkit_adapters.mlx_lm import logits_processor
        from tests.adapters.demo_mlx_lm import model

        recorder = Recorder(tokens)

        hooks: list[Any] = [logits_processor(processor, max_new_tokens=len(tokens)), _recording(recorder)]
        for _ in generate_step(mx.array(prompt), model(), max_tokens=len(tokens), logits_processors=hooks):
            pass
        return recorder.result()


class MlxVlm:
    name = "mlx-vlm"

    def generate(self, prompts: Sequence[list[int]], processor: lk.Processor[Any], steps: int) -> list[list[int]]:
        from logitkit_adapters.mlx_vlm import logits_processor
        from tests.adapters.demo_mlx_vlm import batch

        hooks: list[Any] = [[logits_processor(processor, max_new_tokens=steps)] for _ in prompts]
        return [until_eos(row) for row in batch(list(prompts), hooks, max_tokens=steps)]

    def forced(self, prompt: list[int], tokens: Sequence[int], processor: lk.Processor[Any]) -> Tensor:
        from logitkit_adapters.mlx_vlm import logits_processor
        from tests.adapters.demo_mlx_vlm import WHOLE, plain

        recorder = Recorder(tokens)

        hooks: list[Any] = [logits_processor(processor, max_new_tokens=len(tokens)), _recording(recorder)]
        plain(prompt, hooks, max_tokens=len(tokens), **WHOLE)
        return recorder.result()


class LlamaCpp:
    name = "llama.cpp"

    def generate(self, prompts: Sequence[list[int]], processor: lk.Processor[Any], steps: int) -> list[list[int]]:
        return [self._run(prompt, processor, steps, None) for prompt in prompts]

    def forced(self, prompt: list[int], tokens: Sequence[int], processor: lk.Processor[Any]) -> Tensor:
        recorder = Recorder(tokens)
        self._run(prompt, processor, len(tokens), recorder)
        return recorder.result()

    def _run(self, prompt: list[int], processor: lk.Processor[Any], steps: int, then: Then | None) -> list[int]:
        from logitkit_adapters.llama_cpp import logits_processor
        from tests.adapters.demo_llama_cpp import llama

        def behind(_: Any, scores: Any) -> Any:
            assert then is not None
            then(torch.from_numpy(scores))
            return scores

        hooks = logits_processor(processor, max_new_tokens=steps)
        if then is not None:
            hooks.append(behind)
        found = []
        tokens = llama().generate(prompt, temp=0, logits_processor=hooks)
        for token in tokens:
            found.append(token)
            if len(found) == steps or (token in EOS and then is None):
                break
        tokens.close()
        return found


class OnnxRuntimeGenAi:
    name = "ONNX Runtime GenAI"

    def generate(self, prompts: Sequence[list[int]], processor: lk.Processor[Any], steps: int) -> list[list[int]]:
        from logitkit_adapters.onnxruntime_genai import generate
        from tests.sessions.engines import loaded

        model, _ = loaded("onnxruntime-genai")
        return generate(model, None, prompts, processor, max_new_tokens=steps, do_sample=False).token_ids

    def forced(self, prompt: list[int], tokens: Sequence[int], processor: lk.Processor[Any]) -> Tensor:
        import onnxruntime_genai as og
        import pytest

        recorder, whole = Recorder(tokens), og.Generator.set_logits

        def behind(generator: Any, logits: Any) -> None:
            recorder(torch.from_numpy(logits[0, 0]))
            whole(generator, logits)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(og.Generator, "set_logits", behind)
            self.generate([prompt], processor, len(tokens))
        return recorder.result()


ENGINES: tuple[Engine, ...] = (Transformers(), MlxLm(), MlxVlm(), LlamaCpp(), OnnxRuntimeGenAi())
