"""ONNX Runtime GenAI on the CPU, for the demo."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from logitkit import Processor
from logitkit_adapters.demo import onnx_dir
from logitkit_adapters.demo.engine import POSITIONS, RowByRowEngine

__all__ = ["OnnxRuntimeGenAiDemo"]


class OnnxRuntimeGenAiDemo(RowByRowEngine):
    r"""The demo model in a generator of ONNX Runtime GenAI, whose logits are processed before the most likely token is chosen.

    Example:
        >>> from logitkit_adapters.demo.cases import own_case
        >>> engine = OnnxRuntimeGenAiDemo()
        >>> engine.load().split()[0]
        'onnxruntime-genai'
        >>> engine.generate(own_case("", "Question: Is Paris in France?\nAnswer:", beams=1, max_new_tokens=5)).texts
        (' yes',)
    """

    name, package = "ONNX Runtime GenAI", "onnxruntime_genai"

    def load(self) -> str:
        """Load the demo model, which uses one thread, and return the version of onnxruntime-genai."""
        make_tokenizer = self.adapter.Tokenizer  # first, since its error says what installs the engine
        import onnxruntime_genai

        self._model = onnxruntime_genai.Model(str(onnx_dir()))
        self._tokenizer = make_tokenizer(self._model, onnx_dir())
        return f"onnxruntime-genai {onnxruntime_genai.__version__}"

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text."""
        return list(self._tokenizer.encode(text))

    def tokens(self, ids: list[int], hooks: Any, limit: int) -> Iterator[int]:
        """Yield at most `limit` tokens after a prompt, also after EOS."""
        from logitkit_adapters.onnxruntime_genai.engine import sequence_engine

        sequence = sequence_engine(self._model, self._tokenizer, None).new()
        history, fed = list(ids), ids
        for _ in range(limit):
            scores = sequence.feed(fed)[None]
            for hook in hooks:
                scores = hook(history, scores)
            fed = [int(scores.argmax())]
            history += fed
            yield fed[0]

    def _timed_hooks(self, processor: Processor[Any], seconds: list[float]) -> list[Any]:
        from logitkit_adapters.onnxruntime_genai.processed_rows import ProcessedRows

        rows: Any = None

        def process(history: list[int], scores: torch.Tensor) -> torch.Tensor:
            nonlocal rows
            begin = self.clock()
            if rows is None:
                left = POSITIONS - len(history)
                rows = ProcessedRows(processor, [history], scores.shape[1], left, self.vocabulary.eos_ids)
            else:
                rows.advance(history[-1:])
            rows.process(scores.numpy())
            seconds.append(self.clock() - begin)
            return scores

        return [process]
