"""The language of a JSON Schema that stands in something larger: its errors name the place."""

from __future__ import annotations

from dataclasses import dataclass

from logitkit.errors import ConfigurationError, UnsupportedSchema
from logitkit.languages.language import Language
from logitkit.languages.language_writer import LanguageWriter
from logitkit.patterns.syntax import Node

__all__ = ["LocatedSchema"]


@dataclass(frozen=True)
class LocatedSchema(Language):
    """The language of a schema at a place; the schema is only compiled when the vocabulary is known.

    Args:
        value: The language.
        path: The path of the schema, for example in a structural tag.
    """

    value: Language
    path: str

    @property
    def parts(self) -> tuple[Language, ...]:
        """The language that it stands for."""
        return (self.value,)

    def tree(self, writer: LanguageWriter) -> Node:
        """Return the syntax tree.

        Raises:
            UnsupportedSchema: A keyword cannot be enforced exactly.
            ConfigurationError: No value satisfies the schema, or the schema is not valid.
        """
        try:
            return self.value.tree(writer)
        except UnsupportedSchema as error:
            pointer = self.path if error.pointer is None else self.path + error.pointer
            raise UnsupportedSchema(error.reason, pointer, error.keyword) from None
        except ConfigurationError as error:
            raise ConfigurationError(f"{self.path}: {error}") from None
