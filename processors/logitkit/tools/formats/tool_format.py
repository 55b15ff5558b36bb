"""How a family of models writes tool calls, as data."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, get_args

from logitkit.errors import ConfigurationError
from logitkit.json_schema.layout import Whitespace
from logitkit.languages.value_ends import ValueEnds
from logitkit.languages.xml_arguments import xml_arguments
from logitkit.vocabulary.marker import encoded

__all__ = ["ToolFormat"]

Arguments = Literal["json", "xml"]


@dataclass(frozen=True, kw_only=True)
class ToolFormat:
    r"""The format in which a model writes tool calls.

    A turn is reasoning, text and calls, in this order; each may be missing. The calls are `calls_begin`, one or more calls with
    `separator` between them, and `calls_end`. A call is `call_begin`, the name, `name_end`, the arguments, and `call_end`.

    Args:
        name: The name of the format.
        call_begin: The text before the name of the tool.
        name_end: The text between the name and the arguments.
        call_end: The text after the arguments.
        also: Other pairs of `call_begin` and `name_end` that models write too.
        calls_begin: The text before the first call.
        calls_end: The text after the last call.
        separator: The text between two calls; None: there is at most one call in a turn.
        trigger: The text that starts the calls wherever it occurs, the first part of `calls_begin + call_begin`. None: calls can
            only stand at the beginning of the turn.
        text_begin: The text before the answer in a turn without calls.
        arguments: `"json"`: one object. `"xml"`: a tag for each member, with strings as raw text.
        parameter_begin: For XML, the text before a value; it contains `{name}`.
        parameter_end: For XML, the text after a value.
        parameter_end_also: For XML, another text after a value, which models write too: the same marker after other white space,
            such as `"</parameter>\n"`. As much white space before the marker belongs to the end as one of the two has. Only the
            one with more of it may follow a text of a custom tool with a grammar.
        whitespace: The white space in JSON: `"compact"`, `"spaced"` or `"bounded"`, as in `JsonSchema`.
        tokens: The markers that count only as special tokens, not when they are spelled in ordinary tokens. In all other
            markers, the name of a special token may be written either way.
        reasoning_begin: The marker before reasoning. The prompt may contain it already.
        reasoning_end: The marker after reasoning; None: the format has no reasoning.
        reasoning_opened: Whether the model has to write `reasoning_begin`.
        detected_by: Texts that are in a chat template of this format, all of them.
        not_detected_by: Texts that are in no chat template of this format.
        verified: Whether the format has been checked against what a chat template writes.

    Raises:
        ConfigurationError: An argument is not allowed.

    Example:
        >>> import logitkit as lk
        >>> own = lk.ToolFormat(name="own", call_begin="<call>", name_end=" ", call_end="</call>", trigger="<call>")
        >>> own.separator, own.arguments, own.verified
        ('', 'json', False)
    """

    name: str
    call_begin: str
    name_end: str
    call_end: str
    also: tuple[tuple[str, str], ...] = ()
    calls_begin: str = ""
    calls_end: str = ""
    separator: str | None = ""
    trigger: str | None = None
    text_begin: str = ""
    arguments: Arguments = "json"
    parameter_begin: str = "<parameter={name}>\n"
    parameter_end: str = "\n</parameter>\n"
    parameter_end_also: str | None = None
    whitespace: Whitespace = "spaced"
    tokens: tuple[str, ...] = ()
    reasoning_begin: str = ""
    reasoning_end: str | None = None
    reasoning_opened: bool = False
    detected_by: tuple[str, ...] = ()
    not_detected_by: tuple[str, ...] = ()
    verified: bool = False

    def __post_init__(self) -> None:
        for argument in fields(self):
            _check(argument.name, str(argument.type), getattr(self, argument.name))
        for choice, allowed in ((self.arguments, get_args(Arguments)), (self.whitespace, get_args(Whitespace))):
            if choice not in allowed:
                raise ConfigurationError(f"{choice!r} is not allowed; allowed are {', '.join(map(repr, allowed))}")
        if self.arguments == "xml":
            self.parameter_ends.check("parameter_end")
            xml_arguments({}, begin=self.parameter_begin, separator="")
        self._check_markers()

    def _check_markers(self) -> None:
        if not self.name_end or not (self.calls_begin or self.call_begin):
            raise ConfigurationError(
                f"the format {self.name!r} has no text before or after the names of tools; it needs both"
            )
        if self.trigger == "" or self.reasoning_end == "":
            raise ConfigurationError(
                "trigger and reasoning_end must not be empty; give None if there is no such marker"
            )
        if self.trigger is None:
            return
        if self.calls_begin not in ("", self.trigger):
            raise ConfigurationError(
                f"trigger is {self.trigger!r}; it must be the same as calls_begin, {self.calls_begin!r}"
            )
        if not all((self.calls_begin + begin).startswith(self.trigger) for begin, _ in self.heads):
            raise ConfigurationError(
                f"trigger is {self.trigger!r}; it must be the first part of all calls, which begin with calls_begin, "
                f"{self.calls_begin!r}, and call_begin, {self.call_begin!r}"
            )

    @property
    def heads(self) -> tuple[tuple[str, str], ...]:
        """The ways to begin a call: what stands before the name, and what stands after it."""
        return ((self.call_begin, self.name_end), *self.also)

    @property
    def parameter_ends(self) -> ValueEnds:
        """The texts after a value in XML."""
        return ValueEnds.of(self.parameter_end, self.parameter_end_also)


def _check(name: str, kind: str, value: object) -> None:
    """Refuse an argument of a wrong type."""
    if kind == "bool":
        texts: list[object] = []
        right = isinstance(value, bool)
    elif kind.startswith("tuple"):
        texts = list(value) if isinstance(value, tuple) else [None]
        if name == "also":
            right = all(isinstance(pair, tuple) and len(pair) == 2 for pair in texts)
            texts = [text for pair in texts if isinstance(pair, tuple) for text in pair]
        else:
            right = all(texts)
        right = right and isinstance(value, tuple)
    else:
        texts, right = [value], True
        if value is None and kind == "str | None":
            texts = []
    if not right or not all(isinstance(text, str) for text in texts):
        allowed = (
            "a tuple of pairs of str"
            if name == "also"
            else kind.replace("tuple[str, ...]", "a tuple of str, none empty")
        )
        raise ConfigurationError(f"{name} is {value!r} of type {type(value).__name__}; allowed is {allowed}")
    for text in texts:
        encoded(name, str(text))
