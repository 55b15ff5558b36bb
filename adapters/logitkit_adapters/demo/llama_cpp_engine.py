"""llama.cpp on the CPU, for the demo."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from typing import Any

from logitkit_adapters.demo import gguf_path
from logitkit_adapters.demo.engine import POSITIONS, RowByRowEngine

__all__ = ["LlamaCppDemo"]

_FLOAT32 = 0


class LlamaCppDemo(RowByRowEngine):
    r"""The demo model in `llama.generate`.

    Example:
        >>> from logitkit_adapters.demo.cases import own_case
        >>> engine = LlamaCppDemo()
        >>> engine.load().split()[0]
        'llama-cpp-python'
        >>> engine.generate(own_case("", "Question: Is Paris in France?\nAnswer:", beams=1, max_new_tokens=5)).texts
        (' yes',)
    """

    name, package = "llama.cpp", "llama_cpp"

    def load(self) -> str:
        """Load the demo model, in float32 throughout, and return the version of llama-cpp-python."""
        import llama_cpp

        options: dict[str, Any] = {"n_threads": 1, "n_threads_batch": 1, "type_k": _FLOAT32, "type_v": _FLOAT32}
        self._model = self._tokenizer = llama_cpp.Llama(str(gguf_path()), n_ctx=POSITIONS, verbose=False, **options)
        return f"llama-cpp-python {llama_cpp.__version__}"

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text."""
        return list(self._model.tokenize(text.encode()))

    def tokens(self, ids: list[int], hooks: Any, limit: int) -> Iterator[int]:
        """Yield at most `limit` tokens after a prompt."""
        from llama_cpp import LogitsProcessorList

        with closing(self._model.generate(ids, temp=0, logits_processor=LogitsProcessorList(hooks))) as tokens:
            yield from islice(tokens, limit)
