"""The base class of all engines' hooks, which refuse to be used outside a list or by another engine.

A hook reads the token ids and scores of its own engine. Other engines use other shapes and call patterns (whole batches in
transformers, one sequence in mlx-lm and llama.cpp), so there the hook would follow the wrong rows.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from torch import Tensor

from logitkit.composition.engine_logits import EngineLogits
from logitkit.errors import ConfigurationError
from logitkit.protocol.guidance import refuse_guidance
from logitkit.protocol.not_a_hook import NotAHook, bare_processor, leave_only_ends
from logitkit.protocol.processor import Processor, check_is_processor, is_processor, looks_like_processor
from logitkit.tracking import Padding, Tracker
from logitkit_adapters.loaded_class import is_instance

if TYPE_CHECKING:
    from logitkit.training.kept_record import KeptRecord

__all__ = ["EngineHook", "check_hooks"]


class EngineHook(NotAHook):
    """The base class of the hooks of all engines, which can be used in lists of hooks only.

    Subclasses set `engine`, the `module` of their adapter, and `argument`, the engine's parameter for a list of hooks.

    Args:
        processor: The processor that the hook applies.
        padding: The padding to the left of prompts.
        record_kept: Whether to record which tokens were kept at each step, for `kept_sets`.
        guided: Whether the hook computes the logits of a second pass.

    Raises:
        ConfigurationError: The processor reads the logits of a second pass, and the hook does not compute them.
    """

    engine: ClassVar[str]
    module: ClassVar[str]
    argument: ClassVar[str]
    tracker: Tracker[Any] | None

    def __init__(
        self, processor: Processor[Any], padding: Padding, *, record_kept: bool = False, guided: bool = False
    ) -> None:
        if not guided:
            refuse_guidance(processor, f"a hook for {self.engine}")
        self.processor = processor
        self._record: KeptRecord | None = None
        if record_kept:
            # Only training needs the modules that it imports.
            from logitkit.training.kept_record import KeptRecord

            self._record = KeptRecord(processor)
        self._process = EngineLogits(processor, guided=guided)
        self._padding = padding

    @property
    def state(self) -> Any:
        """The state of the rows of the last call, in their order, or None before the first."""
        return None if self.tracker is None else self.tracker.state

    @state.setter
    def state(self, given: object) -> None:
        raise ConfigurationError(
            "the state of a hook cannot be set, because it is computed from the tokens of each row; to close a section of "
            "reasoning, or for another state, write a loop of your own, or change the processor_state of a session's state"
        )

    @property
    def broken(self) -> Tensor | None:
        """The rows of the last call whose logits were broken, [B] bool on a device; on the host, None, since they raise there."""
        return self._process.broken

    def kept_sets(self, prompts: Any, outputs: Any, pad_id: int | None = None, stream_ids: Any = None) -> Tensor:
        """Return the sets of tokens that the processor kept while the engine sampled, for `logitkit.training.replay(kept=...)`.

        The engine's own options, such as `top_p`, come after the hook and are not in the sets: put them into the chain. The hook
        keeps the sets of all its generations until `new_generation` is called.

        Args:
            prompts: The prompts, as in `replay`.
            outputs: The sampled tokens, as in `replay`.
            pad_id: The token id of padding.
            stream_ids: [B] the index of each row in the batch that was sampled. Default: its index in `outputs`. It matters only
                where rows with the same tokens have different sets, as `Xtc` makes them.

        Returns:
            [B, T, ceil(V / 32)] int32 on the CPU, zero at padding.

        Raises:
            ConfigurationError: The hook was made without `record_kept=True`, was not called with these tokens, or has
                different sets for them and none for the stream.
        """
        if self._record is None:
            raise ConfigurationError(
                "the hook records no kept sets; make it with logits_processor(..., record_kept=True) before the generation"
            )
        return self._record.of(prompts, outputs, pad_id, stream_ids)

    def _misused(self) -> ConfigurationError:
        return ConfigurationError(
            f"{self.engine} was given a hook outside of a list; write {self.argument}=[logits_processor(processor)]"
        )

    def check_caller(self, scores: Any) -> None:
        """Refuse scores from another engine.

        Args:
            scores: The scores. If they are writable, everything but EOS is masked, because the engine may drop the exception.

        Raises:
            ConfigurationError: The scores are an array of another engine's type.
        """
        other = _engine_of(scores)
        if other not in (None, self.engine):
            vocabulary = getattr(self.processor, "vocabulary", self.processor)
            leave_only_ends(scores, getattr(vocabulary, "eos_ids", ()))
            raise self.foreign_in(other)

    def foreign_in(self, other: str) -> ConfigurationError:
        """Return the error for a hook that was passed to another engine.

        Args:
            other: The engine that called it.
        """
        if other == "llama.cpp" and "llama_cpp" not in sys.modules:
            # Only llama.cpp passes numpy arrays, and it is not there.
            return ConfigurationError(
                f"a hook made for {self.engine} was called with a numpy array; in a loop of your own, call the processor "
                "with torch tensors instead: process_logits(state, logits, context), where torch.from_numpy(array) shares memory"
            )
        return ConfigurationError(
            f"{other} was given a hook made for {self.engine}, which would follow the wrong rows; make it with "
            f"`logits_processor` of the adapter of the engine that generates ({self.module} is that of {self.engine})"
        )


def check_hooks(hooks: Iterable[Any], engine: str) -> None:
    """Refuse processors, classes and hooks of other engines in a list.

    Args:
        hooks: The hooks that an engine was given.
        engine: The engine that will call them.

    Raises:
        ConfigurationError: One of them is a processor, a class, an object that lacks a method of a processor, or a hook for
            another engine.
    """
    for hook in hooks:
        if isinstance(hook, EngineHook):
            if hook.engine != engine:
                raise hook.foreign_in(engine)
        elif is_processor(hook):
            raise bare_processor(hook)
        elif isinstance(hook, type) or (looks_like_processor(hook) and not callable(hook)):
            check_is_processor(hook, f"an item of the hooks for {engine}")


def _engine_of(scores: Any) -> str | None:
    if isinstance(scores, Tensor):
        return "transformers"
    if isinstance(scores, np.ndarray):
        return "llama.cpp"
    if is_instance(scores, "mlx.core", "array"):
        return _mlx_engine()
    return None


def _mlx_engine() -> str:
    """Return the mlx engine that called a hook: mlx-lm, unless it is mlx-vlm."""
    frame = sys._getframe()  # noqa: SLF001 - the public way, inspect.stack, reads source files
    while frame.f_back is not None:
        frame = frame.f_back
        if str(frame.f_globals.get("__name__")).startswith("mlx_vlm."):
            return "mlx-vlm"
    return "mlx-lm"
