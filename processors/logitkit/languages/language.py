"""The base class of languages: definitions of what may be written, which have not seen a vocabulary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from logitkit.errors import ConfigurationError
from logitkit.languages.constraint import LanguageConstraint
from logitkit.languages.language_writer import LanguageWriter
from logitkit.limits import Limits
from logitkit.patterns.syntax import Node
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["LANGUAGE_LIMITS", "Language"]

# Like those of a JSON schema: at most two seconds.
LANGUAGE_LIMITS = Limits(states=200_000, work=7_000_000)


class Language:
    """A set of texts, which may contain special tokens. One language serves several models.

    Languages never change, and are equal if they were built in the same way.
    """

    def constraint(
        self,
        vocabulary: Vocabulary,
        *,
        max_depth: int = 32,
        closing: bool | int = False,
        limits: Limits = LANGUAGE_LIMITS,
    ) -> LanguageConstraint:
        """Compile the language for the tokens of a model.

        Args:
            vocabulary: The tokens.
            max_depth: The maximum number of open brackets in recursive parts of a schema, the outermost one not counted.
            closing: Whether the text must be complete before generation is cut off, as in `JsonSchema`.
            limits: Bounds on the cost of compiling.

        Returns:
            A processor that allows only texts of the language.

        Raises:
            ConfigurationError: No text belongs to the language, or the tokens cannot spell any.
            PatternTooLarge: The automaton would exceed a limit.
            UnsupportedSchema: A schema in it cannot be enforced exactly.
            VocabularyError: The vocabulary has no EOS id, or lacks a special token that the language names.

        Example:
            >>> import torch
            >>> import logitkit as lk
            >>> from logitkit.languages import choice, sequence
            >>> vocabulary = lk.Vocabulary([b"y", b"n", b"o", b"!", None], eos_ids=[4])
            >>> answer = sequence(choice(["y", "no"]), "!").constraint(vocabulary)
            >>> context = lk.Context.of([[]], vocabulary_size=5)
            >>> answer.process_logits(answer.init_state(context), torch.zeros(1, 5), context)[1]
            tensor([[0., 0., -inf, -inf, -inf]])
        """
        return LanguageConstraint(self, vocabulary, max_depth=max_depth, closing=closing, limits=limits)

    # Whether it is compiled by itself, once, wherever it stands.
    is_schema: ClassVar[bool] = False

    # Whether it is a grammar, with which a language is compiled as a grammar.
    is_grammar: ClassVar[bool] = False

    @property
    def parts(self) -> tuple[Language, ...]:
        """The languages that this one is built from."""
        return ()

    @property
    def special_tokens(self) -> Iterator[str | int]:
        """The special tokens that this language names itself, by name or id."""
        return iter(())

    @property
    def texts(self) -> Iterator[str]:
        """The fixed texts in this language itself, in which names of special tokens may stand."""
        return iter(())

    def problem(self, _writer: LanguageWriter) -> ConfigurationError | None:
        """Return why the tokens spell no text of this language itself, if it can tell."""
        return None

    def tree(self, writer: LanguageWriter) -> Node:
        """Return the syntax tree of the language for the vocabulary of a writer."""
        raise NotImplementedError
