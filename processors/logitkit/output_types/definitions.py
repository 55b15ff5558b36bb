"""The output types: a processor, a language or pattern, tools, and JSON by a type or schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from logitkit.configuration.writing import to_config
from logitkit.constraints.json_schema import JsonSchema
from logitkit.constraints.regex import Regex
from logitkit.errors import ConfigurationError
from logitkit.languages.language import Language
from logitkit.languages.schemas import JsonValue
from logitkit.languages.texts import RegexText
from logitkit.output_types.output_type import OutputType, tokens_of
from logitkit.output_types.partial_values import partial_value
from logitkit.protocol.processor import Processor
from logitkit.tools.tools import Tools
from logitkit.tools.tools_constraint import ToolsConstraint
from logitkit.tools.turn import Turn
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["JsonOutput", "LanguageOutput", "ProcessorOutput", "ToolsOutput"]


@dataclass(frozen=True)
class ProcessorOutput(OutputType):
    """Whatever a processor allows."""

    processor: Processor[Any]
    needs_vocabulary = False

    def constraint(self, vocabulary: Vocabulary | None, *, closing: bool | int = False) -> Processor[Any]:
        """Return the processor itself."""
        return self.processor

    def config(self, *, closing: bool | int = False) -> dict[str, Any]:
        """Return the configuration of the processor."""
        return to_config(self.processor)


@dataclass(frozen=True)
class LanguageOutput(OutputType):
    """A text of a language, such as one that matches a pattern."""

    language: Language

    def constraint(self, vocabulary: Vocabulary | None, *, closing: bool | int = False) -> Processor[Any]:
        """Compile the language."""
        tokens = tokens_of(vocabulary, "a pattern or language")
        if self._pattern is not None and not closing:
            return Regex(self._pattern, tokens)
        return self.language.constraint(tokens, closing=closing)

    def config(self, *, closing: bool | int = False) -> dict[str, Any]:
        """Return the configuration of a pattern or a JSON value; other languages have none."""
        given = self.language
        if self._pattern is not None and not closing:
            return _written(Regex, pattern=self._pattern)
        if self._pattern is not None:
            # Only as a structural tag can a pattern be completed within a limit.
            document = {"type": "structural_tag", "format": {"type": "regex", "pattern": self._pattern}}
            return {"structural_tag": {"document": document, "closing": closing}}
        if isinstance(given, JsonValue):
            return _written(JsonSchema, closing=closing, **{name: getattr(given, name) for name in JSON_OPTIONS})
        raise ConfigurationError(
            f"a {type(given).__name__} of logitkit.languages has no JSON form, except regex(...) without exclude and "
            'json_schema(...); give a pattern, a type, or a structural tag: {"structural_tag": {...}} in a configuration'
        )

    @property
    def _pattern(self) -> str | None:
        """The pattern, if the language is nothing else."""
        given = self.language
        return given.pattern if isinstance(given, RegexText) and not given.exclude else None


@dataclass(frozen=True)
class ToolsOutput(OutputType):
    """A turn with tool calls."""

    tools: Tools

    def constraint(self, vocabulary: Vocabulary | None, *, closing: bool | int = False) -> Processor[Any]:
        """Compile the turn."""
        return self.tools.constraint(tokens_of(vocabulary, "a turn with tools"), closing=closing)

    def config(self, *, closing: bool | int = False) -> dict[str, Any]:
        """Return the configuration of the tools."""
        given = self.tools
        options = {name: getattr(given, name) for name in TOOLS_OPTIONS}
        return _written(ToolsConstraint, closing=closing, reasoning=given.reasoning or False, **options)

    def value(self, text: str, token_ids: Sequence[int], vocabulary: Vocabulary | None) -> Turn:
        """Read the turn from its token ids."""
        return self.tools.parse(token_ids, tokens_of(vocabulary, "a turn with tools"))

    def partial_value(self, text: str) -> Any:
        """Refuse, because a text does not show which markers are special tokens."""
        raise ConfigurationError(
            "`partial` is not available for a turn with tools, because its text may lack the special tokens around calls; read "
            "the turn while it is generated with tools.stream(vocabulary), which takes its token ids"
        )


@dataclass(frozen=True, eq=False)
class JsonOutput(OutputType):
    """JSON that satisfies a schema.

    Args:
        schema: The schema.
        read: Reads a JSON text as a value.
        given: The type, of which the schema is; None: only a schema is given.
    """

    schema: Any
    read: Callable[[str], Any]
    given: Any = None

    def constraint(self, vocabulary: Vocabulary | None, *, closing: bool | int = False) -> Processor[Any]:
        """Compile the schema."""
        return JsonSchema(self.schema, tokens_of(vocabulary, "a type or schema"), closing=closing)

    def config(self, *, closing: bool | int = False) -> dict[str, Any]:
        """Return the configuration of the schema."""
        return _written(JsonSchema, schema=self.schema, closing=closing)

    def value(self, text: str, token_ids: Sequence[int], vocabulary: Vocabulary | None) -> Any:
        """Return the value that the JSON text stands for."""
        return self.read(text)

    def partial_value(self, text: str) -> Any:
        """Return the value so far."""
        return partial_value(text, self.given)


# The arguments of `Tools` that a configuration of tools has under the same names.
TOOLS_OPTIONS = (
    "tools",
    "format",
    "choice",
    "parallel",
    "answer",
    "preamble",
    "parallel_calls",
    "unique",
    "allowed_after",
)
JSON_OPTIONS = ("schema", "whitespace", "lax", "strict_formats", "any_order", "resources")


def _written(constraint: Any, **given: Any) -> dict[str, Any]:
    """Return the configuration of a constraint that has not been compiled."""
    kind = constraint.kind
    return {kind.name: kind.write(SimpleNamespace(**{**kind.defaults, **given}), to_config)}
