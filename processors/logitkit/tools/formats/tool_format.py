"""How a family of models writes tool calls, as data."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from logitkit.json_schema.layout import MemberOrder, Whitespace
from logitkit.json_schema.string_spellings import StringSpelling
from logitkit.languages.keyword_arguments import Delimited, ValueLiterals
from logitkit.languages.raw_strings import RawStrings
from logitkit.languages.value_ends import ValueEnds
from logitkit.tools.formats.call_ids import ID, NUMBER, pieces_of
from logitkit.tools.formats.format_checks import Arguments, Strings, check_format

__all__ = ["ToolFormat"]


@dataclass(frozen=True, kw_only=True)
class ToolFormat:
    r"""The format in which a model writes tool calls.

    A turn is reasoning, text and calls, in this order; each may be missing. The calls are `calls_begin`, one or more calls with
    `separator` between them, and `calls_end`. A call is `call_begin`, the name, `name_end`, the arguments, and `call_end`. In
    these markers, `{id}` stands for an id that the model makes up, and `{number}` for the number of the call.

    Args:
        name: The name of the format.
        call_begin: The text before the name of the tool. A format that has none, and no `calls_begin`, needs a `text_begin`.
        name_end: The text between the name and the arguments; may be empty if that shows where the name ends.
        call_end: The text after the arguments.
        name_again: For formats that write the name of a tool twice: after `name_end` the name stands again, then this text, then
            the arguments. None: the name stands once.
        also: Other pairs of `call_begin` and `name_end` that models write too.
        calls_begin: The text before the first call.
        calls_end: The text after the last call.
        separator: The text between two calls; None: there is at most one call in a turn.
        trigger: The text that starts the calls wherever it occurs: the first part of `calls_begin`, or of `call_begin` if there
            is no `calls_begin`. None: calls can only stand at the beginning of the turn.
        leading_space: White space that the model may write before calls that no text precedes.
        text_begin: The text before the answer in a turn without calls.
        arguments: `"json"`: one object. `"json_string"`: a JSON string with the text of one object. `"xml"`: a tag for each
            member, with strings as raw text. `"python"`: arguments with names, such as `city="Bonn", days=2`, with values as in
            JSON.
        parameter_begin: For XML and Python, the text before a value; it contains `{name}`.
        parameter_kinds: For XML whose tags say what a value is: the words that stand for `{kind}` in `parameter_begin`. Two words
            stand before strings and before other values, such as `("true", "false")`; six before a string, a number, a boolean,
            null, an object and an array.
        parameter_end: For XML, the text after a value.
        parameter_end_also: For XML, another text after a value, which models write too: the same marker after other white space,
            such as `"</parameter>\n"`. As much white space before the marker belongs to the end as one of the two has. Only the
            one with more of it may follow a text of a custom tool with a grammar.
        parameter_separator: For XML and Python, the text between two members.
        literals: For XML and Python, how a value that is true, false or null is written: `"json"`, or `"python"` for `True`,
            `False` and `None`. In XML, arrays and objects are JSON all the same, unless `strings` is `"python"`. With strings
            `"delimited"` also `"none"`, for `true`, `false` and `None`.
        strings: How strings are written in JSON, in arrays and objects in XML, and in Python arguments. `"json"`: with all
            characters as they are that JSON allows. `"ascii"`: with ASCII characters only, such as `\u00e9` for `é`, as
            `json.dumps` does. `"python"`: as Python shows a string, in single quotes unless it holds some and no double quotes;
            for XML and Python, where arrays and objects then have `True`, `False` and `None`, which needs `literals="python"`.
            `"delimited"`: for Python, as they are, between two copies of `string_delimiter`.
        string_delimiter: The text before and after a string, if strings are `"delimited"`. No string and no name contains it.
        bare_names: Whether names in objects have no quotes, as in `{city:1}`, if strings are `"delimited"`. Such names are
            without white space, brackets, quotes and the characters `,:<>|`. So are those of arguments, if one of these
            characters follows them; before `=`, arguments have names of Python.
        member_order: In which order members come: `"schema"`, `"sorted"` by name, or `"sorted_ignoring_case"`, as Jinja's
            `dictsort` does; members whose names are not listed in the schema then come last, in any order. `"any"`: all members
            in any order.
        raw_strings: For XML, which strings may be raw text, for parsers that change others: `"any"`; `"trimmed"`: those without
            white space at their ends; `"unlike_json"`: those that are not JSON either, as `5` or `[1]` are.
        cdata: For XML, texts that a string contains only in a CDATA section: such a string stands between `<![CDATA[` and `]]>`,
            and others do not. Where a member may be any string or an array or object, the latter contain none of these texts.
        names: A pattern that names of tools match; None: any name is allowed.
        parameter_names: For XML, and for names without quotes, a pattern that names of members match; None: any name is allowed.
        free_of: Texts that occur in no string and no name of a member, such as a marker that ends a call for a parser even there.
        text_free_of: Texts that do not occur in free text, such as a marker that begins something else for a parser.
        whitespace: The white space in JSON: `"compact"`, `"spaced"` or `"bounded"`, as in `JsonSchema`.
        id_length: The length of ids, which are then letters and digits. None: they are 1 to 64 letters, digits and characters of
            `_.-`.
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
    name_again: str | None = None
    also: tuple[tuple[str, str], ...] = ()
    calls_begin: str = ""
    calls_end: str = ""
    separator: str | None = ""
    trigger: str | None = None
    leading_space: str = ""
    text_begin: str = ""
    arguments: Arguments = "json"
    parameter_begin: str = "<parameter={name}>\n"
    parameter_kinds: tuple[str, ...] = ()
    literals: ValueLiterals = "json"
    strings: Strings = "json"
    string_delimiter: str | None = None
    bare_names: bool = False
    member_order: MemberOrder = "schema"
    parameter_end: str = "\n</parameter>\n"
    parameter_end_also: str | None = None
    parameter_separator: str = ""
    raw_strings: RawStrings = "any"
    cdata: tuple[str, ...] = ()
    names: str | None = None
    parameter_names: str | None = None
    free_of: tuple[str, ...] = ()
    text_free_of: tuple[str, ...] = ()
    whitespace: Whitespace = "spaced"
    id_length: int | None = None
    tokens: tuple[str, ...] = ()
    reasoning_begin: str = ""
    reasoning_end: str | None = None
    reasoning_opened: bool = False
    detected_by: tuple[str, ...] = ()
    not_detected_by: tuple[str, ...] = ()
    verified: bool = False

    def __post_init__(self) -> None:
        check_format(self)

    @property
    def heads(self) -> tuple[tuple[str, str], ...]:
        """The ways to begin a call: what stands before the name, and what stands after it."""
        return ((self.call_begin, self.name_end), *self.also)

    def named(self, name: str, name_end: str) -> str:
        """The text of a call from the name on, up to the arguments.

        Args:
            name: The name of the tool.
            name_end: The text after it in this head.
        """
        return name + name_end + ("" if self.name_again is None else name + self.name_again)

    @property
    def string_spelling(self) -> StringSpelling:
        """How strings are written that have escapes, or stand as in JSON."""
        return "json" if self.strings == "delimited" else self.strings

    @property
    def delimited(self) -> Delimited | None:
        """The delimiter of strings; None: they have quotes."""
        if self.string_delimiter is None:
            return None
        is_token = self.string_delimiter in self.tokens
        return Delimited(self.string_delimiter, is_token, self.bare_names, self.parameter_names)

    @property
    def excluded_texts(self) -> tuple[str, ...]:
        """The texts that occur in no string and no name of a member."""
        return self.free_of if self.string_delimiter is None else (*self.free_of, self.string_delimiter)

    @classmethod
    def from_chat_template(cls, template: Any) -> ToolFormat:
        """Derive the format in which a chat template writes calls, and prove it.

        The template renders probes, and what it wrote shows every marker. Then it renders 200 random sets of calls: the format
        must accept each, read the same calls, and refuse it with a byte of a marker changed. The template runs in a process of
        its own, in jinja2's immutable sandbox, with limits of CPU time and memory. Results are kept by the whole text.

        Args:
            template: The text of the template, or a tokenizer of transformers, which also says which markers are special tokens.

        Returns:
            The format, with `verified=True`. If it is one of the known formats, that one.

        Raises:
            ConfigurationError: The template does not write calls, or a part of the format cannot be derived or proved; or jinja2
                is not installed.

        Example:
            >>> import logitkit as lk
            >>> form = lk.ToolFormat.from_chat_template(
            ...     "{% for m in messages %}<{{ m.role }}>{{ m.content }}"
            ...     "{% for c in m.tool_calls or [] %}<call>{{ c.function.name }} {{ c.function.arguments | tojson }}</call>"
            ...     "{% endfor %}<end>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
            ... )
            >>> form.call_begin, form.name_end, form.call_end, form.trigger, form.verified
            ('<call>', ' ', '</call>', '<call>', True)
        """
        # By name: derivation stands on tools, which stand on this class.
        found: ToolFormat = import_module("logitkit.tools.derivation").format_of_template(template)
        return found

    @classmethod
    def from_response_template(cls, template: Any, *, chat_template: Any = None) -> ToolFormat:
        """Read the format of calls from a response template of transformers, which says how a response is parsed.

        A response template reads many spellings of a call. The format that is returned writes one of them: what `chat_template`
        writes or what a known format writes, if the response template reads it, and otherwise the plainest one. It is proved on
        random calls that what is written is read as the same calls. The patterns of the template are read, and never run.

        Args:
            template: The response template, as in `tokenizer.response_template`; or a tokenizer with one.
            chat_template: The text of the model's chat template, or its tokenizer.

        Returns:
            The format, with the name `"response_template"`. Its constraint does not allow what transformers would read otherwise
            than `Tools.parse`, such as a string with the marker that ends a call.

        Raises:
            ConfigurationError: It is not a response template, or has a part that a format cannot express, which is named.

        Example:
            >>> import logitkit as lk
            >>> calls = {
            ...     "open": "<call>",
            ...     "close": "</call>",
            ...     "content": "json",
            ...     "repeats": True,
            ...     "transform": {"type": "function", "function": "{content}"},
            ... }
            >>> form = lk.ToolFormat.from_response_template({"start_anchor": "<bot>", "fields": {"tool_calls": calls}})
            >>> form.call_begin, form.name_end, form.call_end, form.free_of
            ('<call>{"name": "', '", "arguments": ', '}</call>', ('</call>',))
        """
        module = import_module("logitkit.tools.response_templates")
        found: ToolFormat = module.format_of_response_template(template, chat_template)
        return found

    @property
    def after_names(self) -> tuple[str, ...]:
        """The texts that may follow a name if `name_end` is empty: how arguments begin, and the end of a call without any."""
        if self.arguments.startswith("json"):
            return ("{" if self.arguments == "json" else '"',)
        return (self.parameter_begin.partition("{name}")[0], self.call_end)

    @property
    def ends_names(self) -> bool:
        """Whether none of the texts that may follow a name begins with a character of names."""
        return all(text and not re.match(r"[\w.:/{-]", text) for text in self.after_names) or self.arguments.startswith(
            "json"
        )

    @property
    def fixed_texts(self) -> tuple[str, ...]:
        """The texts that do not vary in the markers around names and arguments."""
        whole = [self.separator or "", self.calls_end]
        for begin, name_end in self.heads:
            whole += [self.calls_begin + begin, begin, name_end]
        whole += [self.name_again or "", self.string_delimiter or ""]
        whole += [self.call_end, self.call_end + self.calls_end]
        return tuple(piece for text in whole for piece in pieces_of(text) if piece not in (ID, NUMBER))

    @property
    def kinds(self) -> tuple[str, ...] | None:
        """The words before strings and before other values in XML, two or six; None: tags do not say what a value is."""
        if len(self.parameter_kinds) == 6:
            return self.parameter_kinds
        return (self.parameter_kinds[0], self.parameter_kinds[-1]) if self.parameter_kinds else None

    def kind_of(self, value: Any) -> str:
        """The word before a value in XML; empty if tags do not say what a value is."""
        words = self.kinds
        if words is None:
            return ""
        if len(words) == 2:
            return words[not isinstance(value, str)]
        match value:
            case str():
                return words[0]
            case None | bool():
                return words[3 if value is None else 2]
            case dict() | list():
                return words[4 if isinstance(value, dict) else 5]
            case _:
                return words[1]

    @property
    def parameter_ends(self) -> ValueEnds:
        """The texts after a value in XML."""
        return ValueEnds.of(self.parameter_end, self.parameter_end_also)
