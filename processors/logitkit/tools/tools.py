"""Tools: a model's turn with calls of functions, constrained and read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, overload

from logitkit.errors import ConfigurationError, LogitkitError
from logitkit.languages.constraint import parts_of_language
from logitkit.languages.free_text import AnyText
from logitkit.languages.language import LANGUAGE_LIMITS
from logitkit.limits import Limits
from logitkit.parameters.place import shown
from logitkit.runtime.walk import Walk
from logitkit.tools.named_text import NamedText, text_vocabulary
from logitkit.tools.tool_results import result_check
from logitkit.tools.tool_set import ToolSet
from logitkit.tools.tools_constraint import ToolsConstraint
from logitkit.tools.turn import ToolCall, Turn
from logitkit.tools.turn_stream import TextTurnStream, TurnStream
from logitkit.tools.writing import written_calls
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["Tools"]


@dataclass(frozen=True)
class Tools(ToolSet):
    r"""The tools that a model may call, and the form of its turn: reasoning, text, and calls or an answer.

    Args:
        tools: The tools: functions with annotations and docstrings, pydantic models, dataclasses, or OpenAI's dicts. A tool whose
            schema does not say whether there may be other members has none.
        format: How the model writes calls: the name of a format, `"auto"` with `chat_template` or `response_template`, or a
            `ToolFormat`.
        choice: `"auto"`: calls are optional. `"required"`: the turn is one or more calls. `"none"`:
            none. The name of a tool, or several names: as `"required"`, and of these tools only.
        parallel: Whether several calls are allowed, in formats that support this.
        reasoning: Whether the turn begins with reasoning, which is free text up to the format's own end marker. An integer is the
            maximum number of its tokens; then the marker is forced.
        answer: The form of a turn without a call, in place of free text: a schema as in `JsonSchema`, or a language.
        preamble: Whether free text may precede the calls also with `choice="required"` and with an `answer`. Such a turn must end
            with a call. With an answer, the text cannot begin with a brace, a bracket or a quote. Only in formats with a trigger.
        parallel_calls: How many calls a turn with calls has: the least and the greatest number, such as `(1, 3)`, or `(2, None)`
            for at least two. With `choice="auto"`, a turn without calls is allowed all the same. True and False: as `parallel`.
        unique: Whether no tool may be called twice in a turn.
        allowed_after: Tools that may come only after others in the same turn: for each, the names of tools of which at least one
            must have been called before it, such as `{"pay": ["confirm"]}`.
        chat_template: The text of the model's chat template, or its tokenizer, for `format="auto"`.
        response_template: The model's response template, as in `tokenizer.response_template`, for `format="auto"`. If it is None,
            that of a tokenizer given as `chat_template` is used.

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

    def constraint(
        self,
        vocabulary: Vocabulary,
        *,
        closing: bool | int = False,
        max_depth: int = 32,
        limits: Limits = LANGUAGE_LIMITS,
    ) -> ToolsConstraint:
        """Compile the turn for the tokens of a model.

        Args:
            vocabulary: The tokens.
            closing: Whether the turn must be complete before generation is cut off, as in `JsonSchema`.
            max_depth: The maximum number of open brackets in recursive parts of a schema, the outermost one not counted.
            limits: Bounds on the cost of compiling.

        Raises:
            UnsupportedSchema: A schema cannot be enforced exactly.
            PatternTooLarge: The automaton would exceed a limit.
            VocabularyError: The vocabulary has no EOS id, or lacks a special token of the format.
        """
        return ToolsConstraint(
            self.tools,
            vocabulary,
            format=self.format,
            choice=self.choice,
            parallel=self.parallel,
            reasoning=self.reasoning or False,
            answer=self.answer,
            preamble=self.preamble,
            parallel_calls=self.parallel_calls,
            unique=self.unique,
            allowed_after=self.allowed_after,
            closing=closing,
            max_depth=max_depth,
            limits=limits,
        )

    def parse(self, given: str | Sequence[int], vocabulary: Vocabulary | None = None) -> Turn:
        """Parse a turn into text, reasoning and calls.

        Token ids show exactly which special tokens the model wrote. In a text, special tokens must be written by name; without
        them, calls may go unnoticed, and the turn is marked as ambiguous. Both are read with the constraint beside them, so
        that the turn says where it leaves what the constraint allows.

        Args:
            given: The token ids of the turn, with or without EOS; or its text.
            vocabulary: The tokens; needed for ids. For a text it tells the names of special tokens, with which a text may end.

        Raises:
            ConfigurationError: Ids are given without a vocabulary, or something else is given.
        """
        if isinstance(given, str):
            stream = self._text_stream(vocabulary)
            stream.feed(given)
            return stream.finish()[1]
        found = given.tolist() if hasattr(given, "tolist") else given
        if isinstance(found, bytes | bytearray) or not isinstance(found, Iterable):
            raise ConfigurationError(
                f"the turn is {shown(given)} of type {type(given).__name__}; allowed are its token ids, and its text"
            )
        ids = [*found]
        if any(not isinstance(token, int) and not hasattr(token, "__index__") for token in ids):
            raise ConfigurationError(
                f"the turn is {shown(ids)}; allowed are the token ids of one turn, as in [1, 2], and its text"
            )
        if vocabulary is None:
            raise ConfigurationError("token ids are given without a vocabulary; give it, or the text of the turn")
        reading = self.stream(vocabulary)
        for token in ids:
            reading.feed(token)
        return reading.finish()[1]

    @overload
    def stream(self, vocabulary: Vocabulary) -> TurnStream: ...

    @overload
    def stream(self) -> TextTurnStream: ...

    def stream(self, vocabulary: Vocabulary | None = None) -> TurnStream | TextTurnStream:
        """Return a parser that reads a turn while it is generated.

        Args:
            vocabulary: The tokens, of which `feed` takes ids. None: `feed` takes text, in which special tokens are written by
                name.
        """
        if vocabulary is None:
            return self._text_stream(None)
        return TurnStream(self._reader(), Walk.start(self.constraint(vocabulary).automaton), vocabulary)

    def _text_stream(self, vocabulary: Vocabulary | None) -> TextTurnStream:
        language = self.language()
        named = [name for part in parts_of_language(language) for name in part.special_tokens if isinstance(name, str)]
        known = {} if vocabulary is None else vocabulary.special
        ends = [name for name, token in known.items() if vocabulary is not None and token in vocabulary.eos_ids]
        tokens = text_vocabulary([*self.form.tokens, *named, *known], ends)
        return TextTurnStream(self._reader(), self._walk_of_text(tokens), NamedText(tokens))

    def _walk_of_text(self, tokens: Vocabulary) -> Walk | None:
        """Return the start of the language of a text; None if it cannot be known from a text."""
        # The characters of reasoning are more than its tokens.
        free = replace(self, reasoning=bool(self.reasoning)) if self.reasoning else self
        if any(isinstance(part, AnyText) and part.max_tokens for part in parts_of_language(free.language())):
            return None
        # Reading needs no constraint, so tools that are too many for one are read all the same. To be refused takes seconds.
        if tokens.content_key not in self._refused:
            with suppress(LogitkitError):
                return Walk.start(free.constraint(tokens).automaton)
            self._refused.add(tokens.content_key)
        return None

    @cached_property
    def _refused(self) -> set[str]:
        """The content keys of the vocabularies with which the language of a text cannot be compiled."""
        return set()

    def write(self, calls: Iterable[ToolCall]) -> str:
        """Write calls in the format of the model, for example for a prompt: the inverse of `parse`.

        Args:
            calls: The calls.

        Raises:
            ConfigurationError: The format has no place for several calls; a tool is not known; a name or a value cannot be
                written; or the arguments are not a dict of JSON values.
        """
        return written_calls(list(calls), self._by_name, self.form, self._values)

    def check_result(self, name: str, value: Any) -> Any:
        """Check what a tool returned against the type that it declares: the annotation of a function, or a schema in a dict.

        Args:
            name: The name of the tool.
            value: The result: a value of the type, or its JSON data, as `json.loads` returns it.

        Returns:
            The result as a value of the type, as pydantic reads it without conversions. Pydantic takes an instance of a
            dataclass or a model as it is, without a look at its fields, unless `revalidate_instances` in its configuration says
            otherwise. If a schema is declared or nothing, the value itself.

        Raises:
            ConfigurationError: There is no tool with this name, or pydantic cannot read the type.
            ToolResultError: The value is not of the type, or does not satisfy the schema.
            UnsupportedSchema: A keyword of the schema cannot be judged exactly.

        Example:
            >>> import logitkit as lk
            >>> def add(a: int, b: int) -> int:
            ...     '''Add two numbers.'''
            >>> lk.Tools([add]).check_result("add", 5)
            5
            >>> lk.Tools([add]).check_result("add", "5")
            Traceback (most recent call last):
                ...
            logitkit.errors.ToolResultError: the result of the tool 'add' is wrong: it is '5'; Input should be a valid integer
        """
        if not isinstance(name, str) or name not in self._by_name:
            some = ", ".join(map(repr, sorted(self._by_name)[:20]))
            raise ConfigurationError(f"there is no tool {shown(name)}; allowed are {some}")
        if name not in self._result_checks:
            self._result_checks[name] = result_check(name, self._by_name[name].returns)
        return self._result_checks[name](value)

    @cached_property
    def _result_checks(self) -> dict[str, Callable[[Any], Any]]:
        """The functions that check results, by the name of the tool."""
        return {}
