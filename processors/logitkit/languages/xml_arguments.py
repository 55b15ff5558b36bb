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

import json
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, get_args

from logitkit.budget import spend
from logitkit.compiler.networks.network import CountedText
from logitkit.compiler.text_language import TextLanguage
from logitkit.errors import ConfigurationError, UnsupportedSchema
from logitkit.json_schema.compile import Compiled
from logitkit.json_schema.conjunction import NOTHING, Conjunction, both
from logitkit.json_schema.document import key_of, load
from logitkit.json_schema.layout import Layout, Whitespace
from logitkit.json_schema.left_out import LeftOut
from logitkit.json_schema.object_plan import object_plan
from logitkit.json_schema.plan import Move, Names, Plan
from logitkit.json_schema.pointer import below
from logitkit.json_schema.reader import Reader
from logitkit.json_schema.references import Place, References
from logitkit.json_schema.writer import network_of
from logitkit.languages.counted_texts import counted_text
from logitkit.languages.language import Language
from logitkit.languages.language_writer import LanguageWriter
from logitkit.languages.searching import Search
from logitkit.limits import Limits
from logitkit.patterns.charset import CharSet
from logitkit.patterns.construction import concatenate
from logitkit.patterns.syntax import Alternate, Characters, Empty, Graph, Machine, Node
from logitkit.vocabulary.marker import encoded

__all__ = ["XmlArguments", "texts_without", "xml_arguments"]

NAME = "{name}"
# The work on one schema and on each of its values, beside that on their automata.
SCHEMA_STEPS, VALUE_STEPS = 3000, 3000
NOT_A_STRING = {"type": ["null", "boolean", "number", "object", "array"]}


@dataclass(frozen=True)
class XmlArguments(Language):
    """The members of an object between tags; see `xml_arguments`."""

    schema: Any = field(compare=False)
    begin: str
    end: str
    separator: str
    whitespace: Whitespace = "compact"
    content: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", load(self.schema))
        object.__setattr__(self, "content", key_of(self.schema))

    @property
    def closing(self) -> str:
        """The closing marker, which does not occur in raw text: the end tag without white space around it."""
        return self.end.strip()

    @property
    def texts(self) -> Iterator[str]:
        """The texts of the tags, in which names of special tokens may stand."""
        yield from (*self.begin.split(NAME), self.end, self.separator)

    def tree(self, writer: LanguageWriter) -> Node:
        """Return the syntax tree.

        Raises:
            UnsupportedSchema: A keyword cannot be enforced exactly, or a name cannot stand in a tag.
            ConfigurationError: No object satisfies the schema.
        """
        return _Members(self, writer).tree()


class _Members:
    """Writes the members of the objects that satisfy one schema."""

    def __init__(self, language: XmlArguments, writer: LanguageWriter) -> None:
        self.language, self.writer = language, writer
        self.layout = Layout(language.whitespace)
        self.reader = Reader(References.of(language.schema), writer.limits, LeftOut(False, writer.limits.work))
        self.before_name, self.after_name = language.begin.split(NAME)
        self._values: dict[Conjunction, Node | None] = {}
        self._counted: dict[Conjunction, CountedText | None] = {}

    def tree(self) -> Node:
        spend(SCHEMA_STEPS)
        reader = self.reader
        root = reader.conjunction(reader.references.resources[""])
        objects = () if root == NOTHING else reader.values(root).objects
        with reader.blaming_one_of(root, "maxProperties", "minProperties", "patternProperties", "properties"):
            plans = [object_plan(some, reader.everything.strings, self.layout) for some in objects]
        graphs = [self.graph(plan) for plan in plans if plan is not None]
        if not graphs:
            raise ConfigurationError("no object satisfies the schema of the arguments, so nothing could be generated")
        self.writer.ignored.extend(reader.ignored)
        return Alternate(tuple(graphs)) if len(graphs) > 1 else graphs[0]

    def graph(self, plan: Plan) -> Node:
        rows = tuple(
            tuple((tree, move.target) for move in row if (tree := self.move(move)) is not None) for row in plan.moves
        )
        return Graph(rows, tuple(state == plan.end for state in range(len(rows))))

    def move(self, move: Move) -> Node | None:
        """Return the tree of one edge, or None if no text takes it."""
        if move.value is None:
            # Brackets and white space around members have no place between tags.
            return self.writer.text(self.language.separator) if move.text == self.layout.comma else Empty()
        name = self.name(move.names)
        if name is None:
            return None
        counted = self.counted(move.value)
        if counted is not None:
            text = self.writer.counted_text(counted)
            return concatenate([self.writer.text(self.before_name), name, self.writer.text(self.after_name[:-1]), text])
        value = self.value(move.value)
        if value is None:
            return None
        return concatenate(
            [
                self.writer.text(self.before_name),
                name,
                self.writer.text(self.after_name),
                value,
                self.writer.text(self.language.end),
            ]
        )

    def name(self, names: Names | str | None) -> Node | None:
        if isinstance(names, Names):
            allowed = names.exact().language & texts_without(self.after_name[0], self.writer.limits)
            named = allowed - TextLanguage.of_texts([""], self.writer.limits)
            return None if named.is_empty else named.machine()
        assert names is not None
        name = json.loads(names)
        if not name or self.after_name[0] in name:
            raise UnsupportedSchema(
                f"the name {name!r} cannot stand in the tag {self.language.begin!r}: it is empty, or holds "
                f"{self.after_name[0]!r}, which ends it; use another name, or arguments as JSON",
                below("#", "properties", name),
                None,
            )
        return _plain(name)

    def counted(self, value: Conjunction) -> CountedText | None:
        """Return the raw texts of a value with the byte before them and the end tag, if their characters are counted."""
        if value not in self._counted:
            self._counted[value] = self._counted_text(value)
        return self._counted[value]

    def _counted_text(self, value: Conjunction) -> CountedText | None:
        opening, end, longest = self.after_name[-1], self.language.end, self.writer.options.longest
        if not longest or not opening.isascii() or opening in '"[{' or any(self.writer.names_in(self.after_name + end)):
            return None
        values = self.reader.values(value)
        # JSON and counted text do not stand in one place.
        if values.null or values.booleans or values.objects or values.arrays or not values.numbers.is_empty:
            return None
        without = texts_without(self.language.closing, self.writer.limits)
        leaf = counted_text(values.strings, without, end, longest)
        return None if leaf is None else CountedText(opening, leaf)

    def value(self, value: Conjunction) -> Node | None:
        if value not in self._values:
            self._values[value] = self._value(value)
        return self._values[value]

    def _value(self, value: Conjunction) -> Node | None:
        spend(VALUE_STEPS)
        strings = self.reader.values(value).strings
        if strings.is_everything:
            # JSON is text as well.
            return _any_text(self.language.closing, self.writer.limits)
        raw = strings.language & texts_without(self.language.closing, self.writer.limits)
        found: list[Node] = [] if raw.is_empty else [raw.machine()]
        json_text = self.json(value, raw)
        if json_text is not None:
            found.append(json_text)
        return (Alternate(tuple(found)) if len(found) > 1 else found[0]) if found else None

    def json(self, value: Conjunction, raw: TextLanguage) -> Node | None:
        """Return the tree of those values that are not strings, as JSON.

        Args:
            value: What the value satisfies.
            raw: The raw texts that may stand in the same place. They are followed side by side with brackets that they may begin
                with, so what nests there is written in place, and nothing is called.
        """
        openings = _openings(raw)
        options = (
            self.writer.options._replace(leaves=False, longest=0, called=False) if openings else self.writer.options
        )
        others = both(value, self.reader.conjunction(Place(NOT_A_STRING, "#", "")))
        network = network_of(
            others, self.reader, self.layout, False, options.leaves, options.longest, called_root=options.called
        )
        if network is None:
            return None
        if any(definition.opening in openings for definition in network.definitions):
            with self.reader.blaming_one_of(value, "type", "anyOf", "oneOf", "enum", "not"):
                raise UnsupportedSchema(
                    "the value is raw text or a JSON value that nests without limit, and both may begin with the same bracket, "
                    "so an automaton with one stack cannot follow both; allow one of the two, or any string"
                )
        # The reader numbers what it meets in the same order whenever it reads this schema.
        key: Hashable = ("xml", self.language, self.writer.limits, options, others)
        return self.writer.value(key, Compiled(network, (), ()))


def _openings(texts: TextLanguage) -> str:
    """Return the brackets that some texts may begin with."""
    first = [] if texts.dfa is None else [texts.charset(mask) for mask in texts.dfa.moves[0].values()]
    return "".join(bracket for bracket in "{[" if any(ord(bracket) in charset for charset in first))


@lru_cache(maxsize=64)
def texts_without(marker: str, limits: Limits) -> TextLanguage:
    """Return the texts in which a marker does not occur."""
    search = Search.of([[tuple(map(ord, marker))]], (), limits)
    return TextLanguage.of_tree(Machine(search.moves, (True,) * len(search.moves)), limits)


@lru_cache(maxsize=64)
def _any_text(closing: str, limits: Limits) -> Machine:
    return texts_without(closing, limits).machine()


def _plain(text: str) -> Node:
    return concatenate([Characters(CharSet.single(ord(character))) for character in text])


def xml_arguments(
    schema: object,
    *,
    begin: str = "<parameter={name}>\n",
    end: str = "\n</parameter>",
    separator: str = "\n",
    whitespace: Whitespace = "compact",
) -> XmlArguments:
    r"""Return the language of the members of an object between tags, as Qwen-Coder writes the arguments of a call.

    The members come in the order of the schema. A string is written as raw text, so it cannot contain the closing marker, which
    is `end` without the white space around it. All other values are JSON. If a member may be a string or something else, both
    are allowed.

    Args:
        schema: The schema of the object, as in `JsonSchema`.
        begin: What stands before a value; it contains `{name}` once.
        end: What follows a value.
        separator: What stands between two members.
        whitespace: The white space in values that are JSON, as in `JsonSchema`.

    Raises:
        ConfigurationError: An argument is not allowed.

    Example:
        >>> xml_arguments({"type": "object", "properties": {"city": {"type": "string"}}}).closing
        '</parameter>'
    """
    for argument, given in (("begin", begin), ("end", end), ("separator", separator)):
        if not isinstance(given, str):
            raise ConfigurationError(f"{argument} is {given!r} of type {type(given).__name__}; allowed is str")
        encoded(argument, given)
    if begin.count(NAME) != 1 or begin.endswith(NAME):
        raise ConfigurationError(f"begin is {begin!r}; allowed is a text that has {NAME!r} once, and goes on after it")
    marker = end.strip()
    if not marker or any((marker[:size] + end).find(marker) < size for size in range(1, len(marker))):
        raise ConfigurationError(
            f"end is {end!r}; allowed is a text whose marker is not empty, and does not begin as it ends, so that it is clear "
            "where a value stops"
        )
    if whitespace not in get_args(Whitespace):
        raise ConfigurationError(
            f"whitespace is {whitespace!r}; allowed are {', '.join(map(repr, get_args(Whitespace)))}"
        )
    return XmlArguments(schema, begin, end, separator, whitespace)
