"""The options of `generate_typed` that change neither the type of its result nor its number of outputs."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from logitkit.protocol.processor import Processor
from logitkit_adapters.sessions.base_session import BaseSession

__all__ = ["TypedOptions"]


class TypedOptions(TypedDict, total=False):
    """The options by name, for type checkers and editors; `generate_typed` documents them."""

    max_new_tokens: int | None
    attention_mask: Any
    processor: Processor[Any] | None
    seed: int | None
    length_penalty: float
    closing: bool
    errors: Literal["raise", "return"]
    retries: int
    batch_size: int
    session: BaseSession[Any] | None
