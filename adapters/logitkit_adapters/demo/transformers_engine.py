"""transformers on the CPU, for the demo."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from logitkit import Processor
from logitkit_adapters.demo import model_dir
from logitkit_adapters.demo.cases import DemoCase
from logitkit_adapters.demo.engine import DemoGeneration, Engine

__all__ = ["TransformersDemo"]


class TransformersDemo(Engine):
    r"""The demo model in `model.generate`.

    Example:
        >>> from logitkit_adapters.demo.cases import own_case
        >>> engine = TransformersDemo()
        >>> engine.load().split()[0]
        'transformers'
        >>> engine.generate(own_case("", "Question: Is Paris in France?\nAnswer:", beams=1, max_new_tokens=5)).texts
        (' yes',)
    """

    name, package = "transformers", "transformers"
    has_beams = True

    def load(self) -> str:
        """Load the demo model, without network, and return the version of transformers."""
        import transformers
        from transformers.utils import logging

        # A progress bar for 3 MB of weights would only disturb the demo's own progress line.
        bar = logging.is_progress_bar_enabled()
        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        try:
            self._model = transformers.AutoModelForCausalLM.from_pretrained(model_dir(), local_files_only=True)
        finally:
            if bar:
                logging.enable_progress_bar()  # type: ignore[no-untyped-call]
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(
            model_dir(), local_files_only=True, padding_side="left"
        )
        return f"transformers {transformers.__version__}"

    def generate(
        self, case: DemoCase, processor: Processor[Any] | None = None, steps: int | None = None
    ) -> DemoGeneration:
        """Generate the most likely text after each prompt of a case; see `Engine.generate`."""
        limit = steps or case.max_new_tokens
        prompts = [self.prompt_ids(prompt, limit) for prompt in case.prompts]
        inputs = self._tokenizer.pad({"input_ids": prompts}, return_tensors="pt", verbose=False)
        hooks: list[_TimedHook] = []
        if processor is not None:
            hook = self.adapter.logits_processor(processor, attention_mask=inputs["attention_mask"])
            hooks = [_TimedHook(hook, self.clock)]
        # The model never generates its BOS, so with BOS as EOS no text ends early.
        eos = self._tokenizer.eos_token_id if steps is None else self._tokenizer.bos_token_id
        starts: list[float] = []
        clock = self._model.register_forward_pre_hook(lambda *_: starts.append(self.clock()))
        try:
            output = self._model.generate(
                **inputs,
                max_new_tokens=limit,
                num_beams=case.beams,
                do_sample=False,
                eos_token_id=eos,
                logits_processor=hooks,
            )
        finally:
            clock.remove()
        end = self.clock()
        new = output[:, inputs["input_ids"].shape[1] :].tolist()
        rows = [row[: row.index(eos) + 1] if eos in row else row for row in new]
        step_seconds = [after - before for before, after in pairwise(starts)] or [end - starts[0]]
        return self.generation(rows, len(starts), step_seconds, hooks[0].seconds if hooks else [])


class _TimedHook:
    """A hook that measures the time of its calls: transformers looks at signatures between two hooks, which takes longer.

    Args:
        hook: The hook.
        clock: Returns a time in seconds.
    """

    def __init__(self, hook: Any, clock: Callable[[], float]) -> None:
        self.seconds: list[float] = []
        self._hook, self._clock = hook, clock

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        start = self._clock()
        processed = self._hook(input_ids, scores)
        self.seconds.append(self._clock() - start)
        return processed
