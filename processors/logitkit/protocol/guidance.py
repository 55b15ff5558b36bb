"""The logits of a second pass: the processors that read them, and the error where an engine has none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from logitkit.errors import BatchMismatch, ConfigurationError
from logitkit.protocol.context import Context
from logitkit.protocol.processor import Processor, name_of, reads_guidance

__all__ = ["checked_guidance", "readers_of_guidance", "refuse_guidance"]

WHERE = (
    "It works in `generate` of transformers, if logits_processor gets a GuidancePass, and in a loop of your own, if "
    "Steps.process gets guidance_logits"
)


def readers_of_guidance(processor: Processor[Any] | None) -> Iterator[Processor[Any]]:
    """Yield the processors that read the logits of a second pass, those of chains and of rows one by one.

    Example:
        >>> import logitkit as lk
        >>> [*readers_of_guidance(lk.chain(lk.Guidance(1.5), lk.TopK(5)))]
        [Guidance(scale=1.5)]
    """
    if processor is None or not reads_guidance(processor):
        return
    parts = getattr(processor, "processors", None)
    if parts is None:
        yield processor
    else:
        for part in parts:
            yield from readers_of_guidance(part)


def refuse_guidance(processor: Processor[Any] | None, engine: str) -> None:
    """Refuse a processor that reads the logits of a second pass, where an engine computes none.

    Every engine calls this before it takes a processor, and `EngineLogits` calls it for engines that forget.

    Args:
        processor: The processor, or None.
        engine: The name of what has no second pass, for the error.

    Raises:
        ConfigurationError: The processor, or one of a chain, reads them.

    Example:
        >>> import logitkit as lk
        >>> refuse_guidance(lk.TopK(5), "mlx-lm")
        >>> refuse_guidance(lk.chain(lk.Guidance(1.5), lk.TopK(5)), "mlx-lm")
        Traceback (most recent call last):
        ...
        logitkit.errors.ConfigurationError: Guidance reads the logits of a second pass, which mlx-lm does not have. It works in
        `generate` of transformers, if logits_processor gets a GuidancePass, and in a loop of your own, if Steps.process gets
        guidance_logits
    """
    for reader in readers_of_guidance(processor):
        raise ConfigurationError(
            f"{name_of(reader)} reads the logits of a second pass, which {engine} does not have. {WHERE}"
        )


def checked_guidance(name: str, logits: Tensor, context: Context) -> Tensor:
    """Return the logits of the second pass, for a processor that declares `reads_guidance`.

    Args:
        name: The processor's name, for an error.
        logits: [B, V] floating point, the logits of the first pass.
        context: The context, which should have those of the second.

    Returns:
        [B, V] floating point on the same device, without a gradient, which must not be overwritten.

    Raises:
        ConfigurationError: The context has none, or they are not floating point or on another device.
        BatchMismatch: They have another shape.
    """
    found = context.guidance_logits
    if found is None:
        raise ConfigurationError(
            f"{name} reads the logits of a second pass, and the context has none. {WHERE}; if you call processors yourself, give "
            "dataclasses.replace(context, guidance_logits=...)"
        )
    if found.shape != logits.shape:
        raise BatchMismatch(
            f"the logits of the second pass have the shape {list(found.shape)}, and those of the first {list(logits.shape)}; "
            "give a row for each row, with the same columns"
        )
    if not found.is_floating_point() or found.device != logits.device:
        raise ConfigurationError(
            f"the logits of the second pass are {found.dtype} on {found.device}; give floating point on {logits.device}"
        )
    return found.detach()
