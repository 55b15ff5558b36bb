"""The tools of a turn, and the language that follows from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from logitkit.errors import ConfigurationError
from logitkit.languages import any_text, json_schema, sequence, special
from logitkit.languages.language import Language
from logitkit.languages.schemas import JsonValue, LocatedSchema
from logitkit.parameters.scalars import as_integer
from logitkit.tools.call_language import marker
from logitkit.tools.call_order import CallOrder, allowed_after_of, counts_of
from logitkit.tools.definitions import ToolDefinition, definitions_of
from logitkit.tools.formats import ToolFormat, check_names, format_of
from logitkit.tools.member_values import MemberValues
from logitkit.tools.turn_language import turn_language
from logitkit.tools.turn_reader import TurnReader

__all__ = ["ToolSet"]

CHOICES = ("auto", "required", "none")


@dataclass(frozen=True)
class ToolSet:
    """Tools, and how a turn with them looks; see `Tools`."""

    tools: Any
    format: str | ToolFormat = "hermes"
    choice: str | Iterable[str] = field(default="auto", kw_only=True)
    parallel: bool = field(default=True, kw_only=True)
    reasoning: bool | int | None = field(default=None, kw_only=True)
    answer: Any = field(default=None, kw_only=True)
    preamble: bool = field(default=False, kw_only=True)
    parallel_calls: bool | tuple[int, int | None] | None = field(default=None, kw_only=True)
    unique: bool = field(default=False, kw_only=True)
    allowed_after: Mapping[str, str | Iterable[str]] | tuple[tuple[str, tuple[str, ...]], ...] | None = field(
        default=None, kw_only=True
    )
    chat_template: Any = field(default=None, kw_only=True, repr=False)
    response_template: Any = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tools", definitions_of(self.tools))
        object.__setattr__(self, "format", format_of(self.format, self.chat_template, self.response_template))
        check_names(self.tools, self.form)
        self._check_grammars()
        for name, given in (("parallel", self.parallel), ("preamble", self.preamble), ("unique", self.unique)):
            if not isinstance(given, bool):
                raise ConfigurationError(f"{name} is {given!r}; allowed are True and False")
        if self.preamble and self.form.trigger is None:
            raise ConfigurationError(
                f"preamble is True, but in the format {self.form.name!r} calls can only stand at the beginning of a turn; "
                "leave it out, or use a format with a trigger"
            )
        budget = None if self.reasoning is None or isinstance(self.reasoning, bool) else as_integer(self.reasoning)
        if not isinstance(self.reasoning, bool | None) and (budget is None or budget < 1):
            raise ConfigurationError(
                f"reasoning is {self.reasoning!r}; allowed are None, True, False, and a maximum number of tokens from 1"
            )
        if self.reasoning and self.form.reasoning_end is None:
            raise ConfigurationError(
                f"reasoning is {self.reasoning}, but the format {self.form.name!r} has no markers for reasoning; leave it out"
            )
        object.__setattr__(self, "choice", self._checked_choice())
        if self.answer is not None:
            if self.choice not in ("auto", "none"):
                raise ConfigurationError(
                    f"there is an answer, but choice is {self.choice!r}, so that a tool is always called; leave one of them out"
                )
            answer = self.answer if isinstance(self.answer, Language) else json_schema(self.answer, whitespace="spaced")
            object.__setattr__(self, "answer", answer)
        self._check_order()
        self._check_recipients()

    def _check_grammars(self) -> None:
        """Refuse custom tools with a grammar in a format that spells strings in a way which a grammar cannot follow."""
        form = self.form
        how = f"strings as in {form.strings!r}" if form.arguments != "xml" and form.strings != "json" else ""
        how = f"strings in CDATA sections if they contain one of {form.cdata!r}" if form.cdata else how
        for tool in self.tools:
            if tool.grammar is not None and how:
                raise ConfigurationError(
                    f"the tool {tool.name!r} has a grammar, which cannot be followed in the format {form.name!r}, with {how}; "
                    "use a format with strings 'json' and without cdata, or no grammar"
                )

    def _check_recipients(self) -> None:
        """Refuse a tool whose call begins as an answer does, where a turn may be either."""
        begin = self.form.text_begin
        if not begin or self.form.trigger is not None or self.choice != "auto":
            return
        for tool in self.tools:
            for before, after in self.form.heads:
                head = self.form.calls_begin + before + self.form.named(tool.name, after)
                if head.startswith(begin) or begin.startswith(head):
                    raise ConfigurationError(
                        f"in the format {self.form.name!r} an answer begins with {begin!r}, and so does a call of the tool "
                        f"{tool.name!r}, so that a turn could be either; rename the tool, or give choice='required' or 'none'"
                    )

    def _check_order(self) -> None:
        """Check how many calls there may be, and in which order."""
        counts = counts_of(self.parallel_calls)
        least, most = (1, None) if counts is None or isinstance(counts, bool) else counts
        if not self.parallel and (counts is True or most != 1 or least > 1) and counts not in (None, False):
            raise ConfigurationError(
                f"parallel is False, but parallel_calls is {self.parallel_calls!r}; leave parallel out"
            )
        if self.form.separator is None and max(least, most or 1) > 1:
            raise ConfigurationError(
                f"parallel_calls is {self.parallel_calls!r}, but in the format {self.form.name!r} a turn has one call only, as "
                "its separator is None; leave parallel_calls out, or use another format"
            )
        if isinstance(counts, bool):
            object.__setattr__(self, "parallel", counts)
            counts = None
        object.__setattr__(self, "parallel_calls", counts)
        names = {tool.name for tool in self.tools}
        object.__setattr__(self, "allowed_after", allowed_after_of(self.allowed_after, names))
        if self.choice != "none":
            self._order.check([tool.name for tool in self._chosen])

    @cached_property
    def _order(self) -> CallOrder:
        """Which calls a turn with calls may have."""
        after: Any = self.allowed_after or ()
        least, most = self.parallel_calls if isinstance(self.parallel_calls, tuple) else (1, None)
        most = 1 if not self.parallel or self.form.separator is None else most
        return CallOrder(least, most, self.unique and most != 1, after)

    def order_advice(self) -> str | None:
        """Return what to do if the constraint is too large because of the order of calls; None: it is not the reason."""
        return None if self._order.is_plain else self._order.advice(len(self._chosen))

    @property
    def _chosen(self) -> list[ToolDefinition]:
        """The tools that may be called."""
        names = self.choice if isinstance(self.choice, tuple) else None
        return [tool for tool in self.tools if names is None or tool.name in names]

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
        """Return the tools as OpenAI's dicts of functions, as a chat template takes them.

        Example:
            >>> import logitkit as lk
            >>> def add(a: int, b: int = 0) -> int:
            ...     '''Add two numbers.'''
            >>> lk.Tools([add]).schemas()[0]["function"]["description"]
            'Add two numbers.'
        """
        return [tool.function() for tool in self.tools]

    def language(self) -> Language:
        """Return the language of the whole turn."""
        return self._language

    @cached_property
    def _language(self) -> Language:
        return turn_language(
            self._chosen,
            self.form,
            text=self.choice in ("auto", "none"),
            calls=self.choice != "none",
            order=self._order,
            reasoning=self._reasoning() if self.reasoning else None,
            answer=LocatedSchema(self.answer, "answer") if isinstance(self.answer, JsonValue) else self.answer,
            preamble=self.preamble,
        )

    def _reasoning(self) -> Language:
        form = self.form
        assert form.reasoning_end is not None
        token = next((name for name in form.tokens if form.reasoning_end.startswith(name)), None)
        budget = None if isinstance(self.reasoning, bool) else self.reasoning
        if token is None:
            return any_text(until=form.reasoning_end, max_tokens=budget)
        return sequence(
            any_text(until=special(token), max_tokens=budget), marker(form, form.reasoning_end.removeprefix(token))
        )

    @cached_property
    def _by_name(self) -> Mapping[str, ToolDefinition]:
        return {tool.name: tool for tool in self.tools}

    @cached_property
    def _known_values(self) -> dict[str, MemberValues]:
        return {}

    def _values(self, name: str) -> MemberValues:
        if name not in self._known_values:
            self._known_values[name] = MemberValues(
                self._by_name[name].schema, self.form.literals, self.form.string_spelling
            )
        return self._known_values[name]

    def _reader(self) -> TurnReader:
        return TurnReader(
            self._by_name,
            self.form,
            self._values,
            bool(self.reasoning),
            self._order,
            self.answer is not None,
            self.preamble,
        )
