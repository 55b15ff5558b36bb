"""Tools: a model's turn with calls of functions, constrained and read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from logitkit.errors import ConfigurationError
from logitkit.languages import LanguageConstraint, any_text, json_schema, sequence, special
from logitkit.languages.language import LANGUAGE_LIMITS, Language
from logitkit.limits import Limits
from logitkit.tools.definitions import ToolDefinition, definitions_of
from logitkit.tools.formats import ToolFormat, format_of
from logitkit.tools.member_values import MemberValues
from logitkit.tools.turn import ToolCall, Turn
from logitkit.tools.turn_language import marker, turn_language
from logitkit.tools.turn_reader import TurnReader
from logitkit.tools.turn_stream import TurnStream
from logitkit.tools.writing import written_calls
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["Tools"]

CHOICES = ("auto", "required", "none")


@dataclass(frozen=True)
class Tools:
    r"""The tools that a model may call, and how its turn looks: reasoning, text, and calls or an answer.

    Args:
        tools: The tools: functions with annotations and docstrings, pydantic models, dataclasses, or OpenAI's dicts. A tool whose
            schema does not say whether there may be other members has none.
        format: How the model writes calls: the name of a format, `"auto"` with `chat_template`, or a `ToolFormat`.
        choice: `"auto"`: calls are optional. `"required"`: at least one. `"none"`: none. The name of a tool, or several names: at
            least one call, of these tools only.
        parallel: Whether several calls are allowed, in formats that have a place for them.
        reasoning: Whether the turn begins with reasoning, which is free text up to the format's own end marker.
        answer: What a turn without a call is, in place of free text: a schema as in `JsonSchema`, or a language.
        chat_template: The text of the model's chat template, for `format="auto"`.

    Raises:
        ConfigurationError: An argument is not allowed; there are too many tools, or two have one name.
        UnsupportedSchema: A schema is too large, or nested too deeply.

    Example:
        >>> import logitkit as lk
        >>> def get_weather(city: str) -> str:
        ...     '''Tell the weather.'''
        >>> tools = lk.Tools([get_weather], format="hermes")
        >>> turn = tools.parse('<tool_call>\n{"name": "get_weather", "arguments": {"city": "Bonn"}}\n</tool_call>')
        >>> turn.calls[0].name, turn.calls[0].arguments
        ('get_weather', {'city': 'Bonn'})
    """

    tools: Any
    format: str | ToolFormat = "hermes"
    choice: str | Iterable[str] = field(default="auto", kw_only=True)
    parallel: bool = field(default=True, kw_only=True)
    reasoning: bool | None = field(default=None, kw_only=True)
    answer: Any = field(default=None, kw_only=True)
    chat_template: str | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tools", definitions_of(self.tools))
        object.__setattr__(self, "format", format_of(self.format, self.chat_template))
        if not isinstance(self.parallel, bool):
            raise ConfigurationError(f"parallel is {self.parallel!r}; allowed are True and False")
        if self.reasoning not in (None, False, True) or isinstance(self.reasoning, int) != isinstance(
            self.reasoning, bool
        ):
            raise ConfigurationError(f"reasoning is {self.reasoning!r}; allowed are None, True and False")
        if self.reasoning and self.form.reasoning_end is None:
            raise ConfigurationError(
                f"reasoning is True, but the format {self.form.name!r} has no markers of reasoning"
            )
        object.__setattr__(self, "choice", self._checked_choice())
        if self.answer is not None:
            if self.choice not in ("auto", "none"):
                raise ConfigurationError(
                    f"there is an answer, but choice is {self.choice!r}, so that a tool is always called"
                )
            answer = (
                self.answer if isinstance(self.answer, Language) else json_schema(self.answer, whitespace="bounded")
            )
            object.__setattr__(self, "answer", answer)

    def _checked_choice(self) -> str | tuple[str, ...]:
        known = {tool.name for tool in self.tools}
        given: Any = self.choice
        if isinstance(given, str) and given in CHOICES:
            return given
        names = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Iterable) else (given,)
        for name in names:
            if name not in known:
                some = ", ".join(map(repr, sorted(known)[:20]))
                raise ConfigurationError(
                    f"choice is {given!r}; allowed are 'auto', 'required', 'none', and names of tools: {some}"
                )
        if not names:
            raise ConfigurationError("choice is empty; give 'none' if no tool may be called")
        return names

    @property
    def form(self) -> ToolFormat:
        """The format, if it was given by name too."""
        assert isinstance(self.format, ToolFormat)
        return self.format

    def schemas(self) -> list[dict[str, Any]]:
        """Return the tools as OpenAI's dicts, as a chat template takes them.

        Example:
            >>> import logitkit as lk
            >>> def add(a: int, b: int = 0) -> int:
            ...     '''Add two numbers.'''
            >>> lk.Tools([add]).schemas()[0]["function"]["description"]
            'Add two numbers.'
        """
        return [tool.openai() for tool in self.tools]

    def language(self) -> Language:
        """Return the language of the whole turn."""
        return self._language

    @cached_property
    def _language(self) -> Language:
        names = self.choice if isinstance(self.choice, tuple) else None
        return turn_language(
            [tool for tool in self.tools if names is None or tool.name in names],
            self.form,
            text=self.choice in ("auto", "none"),
            calls=self.choice != "none",
            parallel=self.parallel,
            reasoning=self._reasoning() if self.reasoning else None,
            answer=self.answer,
        )

    def _reasoning(self) -> Language:
        form = self.form
        assert form.reasoning_end is not None
        token = next((name for name in form.tokens if form.reasoning_end.startswith(name)), None)
        if token is None:
            return any_text(until=form.reasoning_end)
        return sequence(any_text(until=special(token)), marker(form, form.reasoning_end.removeprefix(token)))

    def constraint(
        self,
        vocabulary: Vocabulary,
        *,
        closing: bool | int = False,
        max_depth: int = 32,
        limits: Limits = LANGUAGE_LIMITS,
    ) -> LanguageConstraint:
        """Compile the turn for the tokens of a model.

        Args:
            vocabulary: The tokens.
            closing: Whether the turn must be complete before generation is cut off, as in `JsonSchema`.
            max_depth: The maximum number of open brackets in recursive parts of a schema.
            limits: Bounds on the cost of compiling.

        Raises:
            UnsupportedSchema: A schema cannot be enforced exactly.
            PatternTooLarge: The automaton would exceed a limit.
            VocabularyError: The vocabulary has no EOS id, or lacks a special token of the format.
        """
        return self._language.constraint(vocabulary, closing=closing, max_depth=max_depth, limits=limits)

    def parse(self, given: str | Sequence[int], vocabulary: Vocabulary | None = None) -> Turn:
        """Read a turn.

        Token ids say exactly which special tokens the model wrote, and where the turn left its language. In a text, special
        tokens must be written by name; without them, calls may go unnoticed, and the turn is marked as ambiguous.

        Args:
            given: The token ids of the turn, with or without EOS; or its text.
            vocabulary: The tokens; needed for ids.

        Raises:
            ConfigurationError: Ids are given without a vocabulary.
        """
        if isinstance(given, str):
            reader = self._reader()
            reader.feed(reader.markers.pieces(given))
            turn = reader.finish()[1]
            lost = bool(self.form.tokens) and not turn.calls and not reader.markers.occur_in(given)
            return replace(turn, ambiguous=lost)
        if vocabulary is None:
            raise ConfigurationError("token ids are given without a vocabulary; give it, or the text of the turn")
        stream = self.stream(vocabulary)
        for token in given:
            stream.feed(int(token))
        return stream.finish()[1]

    def stream(self, vocabulary: Vocabulary) -> TurnStream:
        """Return what reads a turn while it is generated.

        Args:
            vocabulary: The tokens.
        """
        return TurnStream(self._reader(), self.constraint(vocabulary), vocabulary)

    def write(self, calls: Iterable[ToolCall]) -> str:
        """Return the text of some calls, as the model writes them.

        Args:
            calls: The calls.

        Raises:
            ConfigurationError: The format has no place for several calls; a tool is not known; or a string cannot be written.
        """
        return written_calls(list(calls), self._by_name, self.form, self._values)

    @cached_property
    def _by_name(self) -> Mapping[str, ToolDefinition]:
        return {tool.name: tool for tool in self.tools}

    @cached_property
    def _known_values(self) -> dict[str, MemberValues]:
        return {}

    def _values(self, name: str) -> MemberValues:
        if name not in self._known_values:
            self._known_values[name] = MemberValues(self._by_name[name].schema)
        return self._known_values[name]

    def _reader(self) -> TurnReader:
        return TurnReader(self._by_name, self.form, self._values, bool(self.reasoning), self.parallel)
