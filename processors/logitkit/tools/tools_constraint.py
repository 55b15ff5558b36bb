"""ToolsConstraint: the output is a turn of a model with tools. Configurations and requests name it `tools`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar

from logitkit.errors import ConfigurationError, PatternTooLarge
from logitkit.json_schema.document import load
from logitkit.languages.constraint import AmbiguousBracket
from logitkit.languages.described import DescribedByLanguage
from logitkit.languages.free_text import TooFewTokens
from logitkit.languages.language import LANGUAGE_LIMITS, Language
from logitkit.languages.schemas import JsonValue
from logitkit.limits import Limits, check_limits
from logitkit.parameters import Boolean, Either, Form, Integer, ListOf, Null, SchemaForm, Text
from logitkit.parameters.place import Place
from logitkit.protocol.kind import Kind
from logitkit.tools.formats import TOOL_FORMATS, ToolFormat
from logitkit.tools.tool_set import ToolSet
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["ToolsConstraint"]

CLOSING = "the maximum number of new tokens; True: up to Context.max_length; False: no limit"


class ToolForm(Form):
    """A tool as OpenAI's dict, or a bare function description."""

    allowed = (
        'a tool: {"type": "function", "function": {"name": ..., "parameters": ...}}, or '
        '{"type": "custom", "custom": {"name": ..., "format": ...}}'
    )
    types = (Mapping,)
    described: ClassVar[dict[str, Any]] = {"type": "object"}

    def write(self, value: Any) -> Any:
        """Return the dict."""
        return value.openai()


class FormatForm(Form):
    """A format by name, or its data."""

    allowed = f"{', '.join(map(repr, TOOL_FORMATS))}, or an object with the data of a ToolFormat"
    types = (str, Mapping)
    described: ClassVar[dict[str, Any]] = {"anyOf": [{"enum": list(TOOL_FORMATS)}, {"type": "object"}]}

    def fits(self, value: object) -> bool:
        """Whether a value is a name, an object, or a format."""
        return isinstance(value, str | Mapping | ToolFormat)

    def read(self, value: Any, place: Place) -> Any:
        """Return the name, or the format."""
        found = Form.read(self, value, place)
        if not isinstance(found, Mapping):
            return found
        known = {argument.name for argument in fields(ToolFormat)}
        for key in found:
            if key not in known:
                raise ConfigurationError(
                    f"{place.path} has the unknown key {key!r}; allowed are {', '.join(sorted(known))}"
                )
        try:
            return ToolFormat(**{name: _tuples(given) for name, given in found.items()})
        except TypeError:
            raise ConfigurationError(
                f"{place.path} lacks one of 'name', 'call_begin', 'name_end' and 'call_end'"
            ) from None

    def write(self, value: Any) -> Any:
        """Return the name, or the data without defaults."""
        if not isinstance(value, ToolFormat):
            return value
        if TOOL_FORMATS.get(value.name) == value:
            return value.name
        plain = ToolFormat(name=value.name, call_begin="x", name_end="x", call_end="x")
        always = ("name", "call_begin", "name_end", "call_end")
        return {n: _lists(v) for n, v in asdict(value).items() if n in always or v != getattr(plain, n)}


class AfterForm(Form):
    """The tools that may come only after others."""

    allowed = "an object with names of tools, each with a list of the tools of which one must come before it"
    types = (Mapping,)
    inside: ClassVar[Form] = Either((Text(raw=False), ListOf(Text(raw=False))))
    described: ClassVar[dict[str, Any]] = {"type": "object", "additionalProperties": inside.schema()}

    def read(self, value: Any, place: Place) -> Any:
        """Return the object."""
        found = Form.read(self, value, place)
        return {name: self.inside.read(others, place.inside(name)) for name, others in found.items()}

    def write(self, value: Any) -> Any:
        """Return the object."""
        return {name: list(others) for name, others in value}

    def fits(self, value: object) -> bool:
        """Whether a value is an object, or the pairs as which it is kept."""
        return isinstance(value, Mapping | tuple)


class AnswerForm(SchemaForm):
    """The schema of an answer."""

    def fits(self, value: object) -> bool:
        """Whether a value is a schema, a type or a language."""
        return super().fits(value) or isinstance(value, Language)

    def write(self, value: Any) -> Any:
        """Return the schema.

        Raises:
            ConfigurationError: It is another language than that of a schema.
        """
        if isinstance(value, JsonValue) and value == JsonValue(value.schema, "spaced"):
            # As `Tools` reads a schema.
            value = value.schema
        if isinstance(value, Language):
            raise ConfigurationError(f"the answer {value!r} has no JSON form; give a schema")
        return super().write(value)


@dataclass(frozen=True)
class ToolsConstraint(DescribedByLanguage):
    r"""Allow only turns with calls of some tools; `Tools.constraint` creates it.

    Args:
        tools: The tools, as in `Tools`.
        vocabulary: The tokens.
        format: How the model writes calls, as in `Tools`, but not `"auto"`.
        choice: Which calls are allowed, as in `Tools`.
        parallel: Whether several calls are allowed.
        reasoning: Whether the turn begins with reasoning, or the maximum number of its tokens.
        answer: The form of a turn without a call, in place of free text.
        preamble: Whether text may precede calls also where a call or an answer is required, as in `Tools`.
        parallel_calls: How many calls a turn with calls may have, as in `Tools`.
        unique: Whether no tool may be called twice.
        allowed_after: Tools that may come only after others, as in `Tools`.
        closing: Whether the turn must be complete before generation is cut off, as in `JsonSchema`.
        max_depth: The maximum number of open brackets in recursive parts of a schema, the outermost one not counted.
        limits: Bounds on the cost of compiling.

    Raises:
        ConfigurationError: An argument is not allowed.
        PatternTooLarge: The automaton would exceed a limit.
        UnsupportedSchema: A schema cannot be enforced exactly.
        VocabularyError: The vocabulary has no EOS id, or lacks a special token of the format.

    Example:
        >>> import logitkit as lk
        >>> vocabulary = lk.Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_ids=[256])
        >>> ping = {"name": "ping", "parameters": {"type": "object", "properties": {}}}
        >>> constraint = lk.from_config({"tools": {"tools": [ping], "choice": "required"}}, vocabulary)
        >>> constraint.nested_dfa().accepts(b'<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>')
        True
    """

    kind = Kind(
        "tools",
        {
            "tools": ListOf(ToolForm()),
            "format": FormatForm(),
            "choice": Either((Text(raw=False), ListOf(Text(raw=False)))),
            "parallel": Boolean(),
            "reasoning": Either((Integer(1, note="the maximum number of tokens"), Boolean())),
            "answer": Either((Null(), AnswerForm())),
            "preamble": Boolean(),
            "parallel_calls": Either((Null(), Boolean(), ListOf(Either((Integer(0), Null())), 2, 2))),
            "unique": Boolean(),
            "allowed_after": Either((Null(), AfterForm())),
            "closing": Either((Integer(1, note=CLOSING), Boolean())),
            "max_depth": Integer(1, 1024),
        },
        main="tools",
        order=125,
    )

    described_as: ClassVar[str] = "the tools"

    tools: Any
    vocabulary: Vocabulary
    format: str | ToolFormat = field(default="hermes", kw_only=True)
    choice: str | Iterable[str] = field(default="auto", kw_only=True)
    parallel: bool = field(default=True, kw_only=True)
    reasoning: bool | int = field(default=False, kw_only=True)
    answer: Any = field(default=None, kw_only=True, compare=False)
    preamble: bool = field(default=False, kw_only=True)
    parallel_calls: bool | tuple[int, int | None] | None = field(default=None, kw_only=True)
    unique: bool = field(default=False, kw_only=True)
    allowed_after: Mapping[str, str | Iterable[str]] | tuple[tuple[str, tuple[str, ...]], ...] | None = field(
        default=None, kw_only=True
    )
    closing: bool | int = field(default=False, kw_only=True)
    max_depth: int = field(default=32, kw_only=True)
    limits: Limits = field(default=LANGUAGE_LIMITS, kw_only=True)
    language: Language = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_limits(self.limits)
        super().__post_init__()
        chosen = ToolSet(
            self.tools,
            self.format,
            choice=self.choice,
            parallel=self.parallel,
            reasoning=self.reasoning,
            answer=self.answer,
            preamble=self.preamble,
            parallel_calls=self.parallel_calls,
            unique=self.unique,
            allowed_after=self.allowed_after,
        )
        for name in ("tools", "choice", "parallel", "parallel_calls", "allowed_after"):
            object.__setattr__(self, name, getattr(chosen, name))
        if TOOL_FORMATS.get(chosen.form.name) == chosen.form:
            object.__setattr__(self, "format", chosen.form.name)
        if self.answer is not None and not isinstance(self.answer, Language):
            object.__setattr__(self, "answer", load(self.answer))
        object.__setattr__(self, "language", chosen.language())
        try:
            self._compile_language()
        except TooFewTokens as error:
            if (error.marker, error.most) != (chosen.form.reasoning_end, chosen.reasoning):
                raise
            raise ConfigurationError(
                f"reasoning is {error.most}, but its end {error.marker!r} in the format {chosen.form.name!r} takes at least "
                f"{error.needed + 1} tokens, of which all but the last count; give True or at least {error.needed}, or, if the "
                "model has a token for the end, a vocabulary with this special token"
            ) from None
        except AmbiguousBracket:
            if self.answer is None or chosen.form.trigger is not None:
                raise
            raise ConfigurationError(
                f"in the format {chosen.form.name!r} a call begins with {chosen.form.heads[0][0]!r}, and so may the answer, in a "
                "value that nests without limit; give an answer with a required first member, or with "
                "'additionalProperties': false, or use a format with a trigger"
            ) from None
        except PatternTooLarge as error:
            advice = chosen.order_advice()
            raise (PatternTooLarge(f"{error}; {advice}") if advice else error) from None


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _lists(value: Any) -> Any:
    return list(map(_lists, value)) if isinstance(value, tuple) else value
