"""mlx-vlm, for `logitkit doctor`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from logitkit_adapters.demo import model_dir
from logitkit_adapters.demo.mlx_lm_engine import MlxLmDemo

__all__ = ["MlxVlmDemo"]


class MlxVlmDemo(MlxLmDemo):
    r"""The demo model in `mlx_vlm.generate_step`, which runs models without images too.

    Example:
        >>> from logitkit_adapters.demo.cases import own_case
        >>> engine = MlxVlmDemo()
        >>> engine.load().split()[0]
        'mlx-vlm'
        >>> engine.generate(own_case("", "Question: Is Paris in France?\nAnswer:", beams=1, max_new_tokens=5)).texts
        (' yes',)
    """

    name, package = "mlx-vlm", "mlx_vlm"

    def load(self) -> str:
        """Load the demo model, without network, and return the version of mlx-vlm."""
        from mlx_vlm.utils import load
        from mlx_vlm.version import __version__

        self._model, self._tokenizer = load(str(model_dir()))
        return f"mlx-vlm {__version__}"

    def tokens(self, ids: list[int], hooks: Any, limit: int) -> Iterator[int]:
        """Yield at most `limit` tokens after a prompt."""
        import mlx.core as mx
        from mlx_vlm.generate import generate_step

        options = {"max_tokens": limit, "temperature": 0.0, "logits_processors": hooks}
        for token, _ in generate_step(mx.array([ids]), self._model, None, None, **options):
            yield int(token)
