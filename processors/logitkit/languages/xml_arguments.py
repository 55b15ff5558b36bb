r"""The arguments of a call between tags, as Qwen-Coder writes them: strings are raw text, all other values are JSON.

    <parameter=city>
    Berlin
    </parameter>
    <parameter=days>
    3
    </parameter>

The schema is read as for JSON, so the order of members, which of them must be there, and how many may be, are the same. A string
is its own text, in which the closing marker does not occur; `pattern`, `maxLength` and the like hold exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import Any, Literal, get_args

from logitkit.errors import ConfigurationError
from logitkit.json_schema.document import key_of, load
from logitkit.json_schema.layout import JSON_LITERALS, PYTHON_LITERALS, Layout, MemberOrder, Whitespace
from logitkit.json_schema.string_spellings import StringSpelling
from logitkit.languages.language import Language
from logitkit.languages.language_writer import LanguageWriter
from logitkit.languages.raw_strings import RawStrings
from logitkit.languages.value_ends import ValueEnds
from logitkit.languages.xml_members import XmlMembers
from logitkit.languages.xml_tags import XmlTags
from logitkit.patterns.syntax import Node
from logitkit.vocabulary.marker import encoded

__all__ = ["XmlArguments", "xml_arguments"]

NAME, KIND = "{name}", "{kind}"
Literals = Literal["json", "python"]


@dataclass(frozen=True)
class XmlArguments(Language):
    """The members of an object between tags; see `xml_arguments`, and `ToolFormat` for the fields that it has no argument for."""

    schema: Any = field(compare=False)
    begin: str
    end: str
    separator: str
    whitespace: Whitespace = "compact"
    kinds: tuple[str, ...] | None = None
    any_order: bool = False
    end_also: str | None = None
    literals: Literals = "json"
    free_of: tuple[str, ...] = ()
    raw_strings: RawStrings = "any"
    parameter_names: str | None = None
    strings: StringSpelling = "json"
    cdata: tuple[str, ...] = ()
    member_order: MemberOrder = "schema"
    escapes: tuple[tuple[str, str], ...] = ()
    content: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", load(self.schema))
        object.__setattr__(self, "content", key_of(self.schema))

    @property
    def closing(self) -> str:
        """The closing marker, which does not occur in raw text: the end tag without white space around it."""
        return self.ends.marker

    @property
    def ends(self) -> ValueEnds:
        """The texts after a value."""
        return ValueEnds.of(self.end, self.end_also)

    @property
    def texts(self) -> Iterator[str]:
        """The texts of the tags, in which names of special tokens may stand."""
        yield from (self.tags.before_name, *self.tags.after_names, *self.ends.texts, self.separator)

    @property
    def tags(self) -> XmlTags:
        """The texts around names and values."""
        before, after = self.begin.split(NAME)
        afters = tuple(after.replace(KIND, word) for word in self.kinds or (KIND, KIND))
        limits = self.free_of, self.raw_strings, self.parameter_names, self.cdata
        return XmlTags(self.begin, before, afters, self.ends, self.separator, *limits, self.escapes)

    def tree(self, writer: LanguageWriter) -> Node:
        """Return the syntax tree.

        Raises:
            UnsupportedSchema: A keyword cannot be enforced exactly, or a name cannot stand in a tag.
            ConfigurationError: No object satisfies the schema.
        """
        inside = PYTHON_LITERALS if self.strings == "python" else JSON_LITERALS
        layout = Layout(self.whitespace, self.any_order, literals=inside, strings=self.strings)
        layout = replace(layout, member_order=self.member_order)
        return XmlMembers(self.schema, self.tags, self, layout, writer, self.literals).tree()


def xml_arguments(
    schema: object,
    *,
    begin: str = "<parameter={name}>\n",
    end: str = "\n</parameter>",
    separator: str = "\n",
    whitespace: Whitespace = "compact",
    kinds: tuple[str, ...] | None = None,
    any_order: bool = False,
    end_also: str | None = None,
    literals: Literals = "json",
    strings: StringSpelling = "json",
) -> XmlArguments:
    r"""Return the language of the members of an object between XML tags, as Qwen-Coder writes the arguments of a call.

    The members come in the order of the schema, unless `any_order` is given. A string is written as raw text, so it cannot
    contain the closing marker, which is `end` without the white space around it. All other values are JSON. If a member may be
    a string or something else, both are allowed.

    Args:
        schema: The schema of the object, as in `JsonSchema`.
        begin: The text before a value; it contains `{name}` once.
        end: The text after a value.
        separator: The text between two members.
        whitespace: The white space in values that are JSON, as in `JsonSchema`.
        kinds: The words that stand for `{kind}` in `begin`: before raw text, and before JSON, such as `("true", "false")` for
            `string="{kind}"`; or six words, before a string, a number, a boolean, null, an object and an array. None: `{kind}`
            is not replaced.
        any_order: Whether members may come in any order, as in `json_schema`.
        end_also: Another text that may follow a value: the marker of `end` after other white space, such as `"</parameter>"`.
            As much white space before the marker belongs to the end as one of both ends has. So a string that ends with a line
            feed is only followed by the end that begins with one.
        literals: How a value that is true, false or null is written: `"json"`, or `"python"` for `True`, `False` and `None`.
            Inside of arrays and objects they are written as in JSON, unless `strings` is `"python"`.
        strings: How strings inside of arrays and objects are written: `"json"`; `"ascii"`, with `\u00e9` for `é`; or `"python"`,
            as Python shows them, such as `['it', "it's"]`.

    Raises:
        ConfigurationError: An argument is not allowed.

    Example:
        >>> xml_arguments({"type": "object", "properties": {"city": {"type": "string"}}}).closing
        '</parameter>'
    """
    for argument, given in (("begin", begin), ("separator", separator)):
        if not isinstance(given, str):
            raise ConfigurationError(f"{argument} is {given!r} of type {type(given).__name__}; allowed is str")
        encoded(argument, given)
    if begin.count(NAME) != 1 or begin.endswith(NAME):
        raise ConfigurationError(
            f"begin is {begin!r}; allowed is a text that has {NAME!r} once, and continues after it"
        )
    ValueEnds.of(end, end_also).check("end")
    _check_kinds(begin, kinds)
    if whitespace not in get_args(Whitespace):
        raise ConfigurationError(
            f"whitespace is {whitespace!r}; allowed are {', '.join(map(repr, get_args(Whitespace)))}"
        )
    if not isinstance(any_order, bool):
        raise ConfigurationError(f"any_order is {any_order!r}; allowed are True and False")
    if literals not in get_args(Literals):
        raise ConfigurationError(f"literals is {literals!r}; allowed are {', '.join(map(repr, get_args(Literals)))}")
    if strings not in get_args(StringSpelling):
        raise ConfigurationError(
            f"strings is {strings!r}; allowed are {', '.join(map(repr, get_args(StringSpelling)))}"
        )
    found = XmlArguments(schema, begin, end, separator, whitespace, kinds, any_order, end_also, literals)
    return found if strings == "json" else replace(found, strings=strings)


def _check_kinds(begin: str, kinds: object) -> None:
    if kinds is None:
        return
    given = kinds if isinstance(kinds, tuple) else ()
    words = [word for word in given if isinstance(word, str) and word]
    clash = any(a != b and a.startswith(b) for a, b in permutations(words, 2))
    if len(words) != len(given) or len(given) not in (2, 6) or clash or words[0] in words[1:]:
        raise ConfigurationError(
            f"kinds is {kinds!r}; allowed are None, and a tuple of two or six texts, of which none begins another, and the first "
            "stands for nothing else"
        )
    for word in words:
        encoded("kinds", word)
    before, _, after = begin.partition(NAME)
    if KIND in before or after.count(KIND) != 1 or after.startswith(KIND) or after.endswith(KIND):
        raise ConfigurationError(
            f"begin is {begin!r}; with kinds, it has {KIND!r} once, between other texts after the name"
        )
