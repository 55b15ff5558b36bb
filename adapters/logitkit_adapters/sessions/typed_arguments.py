"""The types of the arguments of `generate_typed`, for type checkers and editors; `generate_typed` documents them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict

from logitkit.languages.language import Language
from logitkit.protocol.processor import Processor
from logitkit_adapters.sessions.base_session import BaseSession

__all__ = ["OPTIONS", "ListOptions", "OnePrompt", "OutputOptions", "SeveralPrompts", "TextType"]

OnePrompt: TypeAlias = str | Sequence[int] | Sequence[Mapping[str, Any]]
# A text is a sequence of texts too, so that several texts must be a list.
SeveralPrompts: TypeAlias = list[str] | Sequence[list[int]] | Sequence[Sequence[Mapping[str, Any]]]

# The types whose value is a text.
TextType: TypeAlias = re.Pattern[str] | Language


class OutputOptions(TypedDict, total=False):
    """The options that leave one output for each prompt."""

    max_new_tokens: int | None
    attention_mask: Any
    processor: Processor[Any] | None
    seed: int | None
    closing: bool
    errors: Literal["raise", "return"]
    retries: int
    batch_size: int
    session: BaseSession[Any] | None


class ListOptions(OutputOptions, total=False):
    """All options but `stream`."""

    num_samples: int
    num_beams: int
    length_penalty: float


OPTIONS = (*ListOptions.__annotations__, "stream")
