"""mlx-lm, for the demo."""

from __future__ import annotations

from collections.abc import Iterator
from time import process_time
from typing import Any

from logitkit_adapters.demo import model_dir
from logitkit_adapters.demo.engine import RowByRowEngine

__all__ = ["MlxLmDemo"]


class MlxLmDemo(RowByRowEngine):
    r"""The demo model in `mlx_lm.generate_step`.

    Example:
        >>> from logitkit_adapters.demo.cases import own_case
        >>> engine = MlxLmDemo()
        >>> engine.load().split()[0]
        'mlx-lm'
        >>> engine.generate(own_case("", "Question: Is Paris in France?\nAnswer:", beams=1, max_new_tokens=5)).texts
        (' yes',)
    """

    name, package = "mlx-lm", "mlx_lm"
    # mlx computes in threads of its own.
    clock = staticmethod(process_time)

    def load(self) -> str:
        """Load the demo model, without network, and return the version of mlx-lm."""
        import mlx_lm

        self._model, self._tokenizer = mlx_lm.load(str(model_dir()))[:2]
        return f"mlx-lm {mlx_lm.__version__}"

    def tokens(self, ids: list[int], hooks: Any, limit: int) -> Iterator[int]:
        """Yield at most `limit` tokens after a prompt."""
        import mlx.core as mx
        from mlx_lm.generate import generate_step

        for token, _ in generate_step(mx.array(ids), self._model, max_tokens=limit, logits_processors=hooks):
            yield int(token)

    def settle(self, *arrays: Any) -> None:
        """Finish computing arrays, so that this does not count as the hook's time."""
        import mlx.core as mx

        mx.eval(arrays)
