"""mlx-lm, for the demo."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from contextlib import closing
from functools import cached_property
from time import process_time
from typing import Any

from logitkit import Processor, Vocabulary
from logitkit.errors import ConfigurationError
from logitkit_adapters.demo import model_dir
from logitkit_adapters.demo.engine import DemoGeneration

__all__ = ["MlxLmDemo"]


class MlxLmDemo:
    r"""The demo model in `mlx_lm.generate_step`, one prompt after another.

    Example:
        >>> engine = MlxLmDemo()
        >>> engine.load().split()[0]
        'mlx-lm'
        >>> engine.generate(["Question: Is Paris in France?\nAnswer:"], max_new_tokens=5).texts
        (' yes',)
    """

    name = "mlx-lm"
    has_beams = False

    def available(self) -> str | None:
        """Return None if mlx-lm can be imported, otherwise one line that says what to install."""
        try:
            importlib.import_module("logitkit_adapters.mlx_lm")
        except ImportError as error:
            return str(error)
        return None

    def load(self) -> str:
        """Load the demo model, without network, and return the version of mlx-lm."""
        import mlx_lm

        self._model: Any
        self._model, self._tokenizer = mlx_lm.load(str(model_dir()))[:2]
        return f"mlx-lm {mlx_lm.__version__}"

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of the demo model; call `load` first."""
        from logitkit_adapters.mlx_lm import vocabulary

        return vocabulary(self._tokenizer, self._model)

    def generate(
        self,
        prompts: Sequence[str],
        processor: Processor[Any] | None = None,
        *,
        max_new_tokens: int,
        beams: int = 1,
        past_eos: bool = False,
    ) -> DemoGeneration:
        """Generate the most likely text after each prompt; see `Engine.generate`."""
        assert beams == 1
        steps: list[float] = []
        hooks: list[float] = []
        rows = [
            self._row(self._ids(prompt, max_new_tokens), _hooks(processor, hooks), steps, max_new_tokens, past_eos)
            for prompt in prompts
        ]
        return DemoGeneration(
            texts=tuple(self.vocabulary.decode(row).decode("utf-8", "replace") for row in rows),
            ids=tuple(map(tuple, rows)),
            steps=sum(map(len, rows)),
            step_seconds=tuple(steps),
            hook_seconds=tuple(hooks),
        )

    def _row(self, ids: list[int], hooks: list[Any], steps: list[float], limit: int, past_eos: bool) -> list[int]:
        import mlx.core as mx
        from mlx_lm.generate import generate_step

        row: list[int] = []
        took: list[float] = []
        tokens = generate_step(mx.array(ids), self._model, max_tokens=limit, logits_processors=hooks)
        with closing(tokens):
            start = process_time()
            for token, _ in tokens:
                took.append(process_time() - start)
                start = process_time()
                row.append(int(token))
                if token in self.vocabulary.eos_ids and not past_eos:
                    break
        # The first step includes the time of the prompt.
        steps += took[1:] or took
        return row

    def _ids(self, prompt: str, max_new_tokens: int) -> list[int]:
        try:
            prompt.encode()
        except UnicodeEncodeError as error:
            raise ConfigurationError(
                f"the prompt {prompt!r} is not valid UTF-8 at position {error.start}; give valid text"
            ) from error
        # Without any text to continue, the model starts from its BOS.
        ids: list[int] = self._tokenizer.encode(prompt) or [self._tokenizer.bos_token_id]
        most: int = self._model.args.max_position_embeddings
        if len(ids) + max_new_tokens > most:
            raise ConfigurationError(
                f"a prompt of {len(ids)} tokens and {max_new_tokens} new ones are more than the demo model's "
                f"{most} positions; give a shorter prompt, or ask for fewer new tokens"
            )
        return ids


def _hooks(processor: Processor[Any] | None, seconds: list[float]) -> list[Any]:
    """Return the hooks for the engine: the processor's hook between two that measure its time."""
    if processor is None:
        return []
    import mlx.core as mx

    from logitkit_adapters.mlx_lm import logits_processor

    def begin(tokens: Any, logits: Any) -> Any:
        # Forces the computation of the step so far, so that it is not counted as the hook's time.
        mx.eval(tokens, logits)
        seconds.append(-process_time())
        return logits

    def end(_: Any, logits: Any) -> Any:
        seconds[-1] += process_time()
        return logits

    return [begin, logits_processor(processor), end]
