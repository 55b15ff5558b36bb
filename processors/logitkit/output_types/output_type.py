"""Output types: one interface to everything that a caller may ask a model to write."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from logitkit.errors import VocabularyError
from logitkit.protocol.processor import Processor
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["OutputType"]


class OutputType(ABC):
    """A definition of what a model must write, such as a Python type or a schema."""

    needs_vocabulary: bool = True

    @abstractmethod
    def constraint(self, vocabulary: Vocabulary | None, *, closing: bool | int = False) -> Processor[Any]:
        """Return the processor that allows only such outputs.

        Args:
            vocabulary: The tokens; None is enough if `needs_vocabulary` is false.
            closing: Whether the output must be complete before generation is cut off, as in `JsonSchema`; ignored if the
                definition does not support it.

        Raises:
            VocabularyError: The vocabulary is None, and the definition needs one.
            LogitkitError: The definition cannot be compiled.
        """

    @abstractmethod
    def config(self, *, closing: bool | int = False) -> dict[str, Any]:
        """Return the configuration of the constraint, as `from_config` takes it.

        Args:
            closing: As in `constraint`.

        Raises:
            ConfigurationError: It has no JSON form.
        """

    def value(self, text: str, token_ids: Sequence[int], vocabulary: Vocabulary | None) -> Any:
        """Return a complete output as a value: an instance of the type, the data of a schema, a turn with tool calls, or text.

        Args:
            text: The text of the output, without EOS.
            token_ids: Its token ids, with or without EOS.
            vocabulary: The tokens; None is enough if `needs_vocabulary` is false.

        Raises:
            ValueError: The output is incomplete, or a validator of the type refuses it.
        """
        return text

    def partial_value(self, text: str) -> Any:
        """Return the beginning of an output as the value so far: plain data, an instance of a pydantic model, or text.

        Args:
            text: The text so far.

        Raises:
            ConfigurationError: Such outputs have no value before they are complete.
        """
        return text


def tokens_of(vocabulary: Vocabulary | None, name: str) -> Vocabulary:
    """Return the vocabulary that a definition needs.

    Raises:
        VocabularyError: It is None.
    """
    if vocabulary is None:
        raise VocabularyError(
            f"{name} is compiled for the tokens of a model, but vocabulary is None; give a Vocabulary"
        )
    return vocabulary
