"""Writes the members of objects between tags as syntax trees; see `xml_arguments`."""

from __future__ import annotations

import json
from collections.abc import Hashable
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from logitkit.budget import spend
from logitkit.compiler.characters.components import reached
from logitkit.compiler.nested_grammars.nested_grammar import TextFragment
from logitkit.compiler.text_language import TextLanguage
from logitkit.errors import ConfigurationError, UnsupportedSchema
from logitkit.json_schema.compile import Compiled
from logitkit.json_schema.conjunction import NOTHING, Conjunction, both
from logitkit.json_schema.layout import Layout
from logitkit.json_schema.left_out import LeftOut
from logitkit.json_schema.object_plan import object_plan
from logitkit.json_schema.plan import Block, Move, Names, Plan
from logitkit.json_schema.pointer import below
from logitkit.json_schema.reader import Reader
from logitkit.json_schema.references import References
from logitkit.json_schema.string_set import StringSet
from logitkit.json_schema.writer import nested_grammar_of
from logitkit.languages.language_writer import LanguageWriter
from logitkit.languages.searching import Search
from logitkit.languages.text_fragments import text_fragment
from logitkit.languages.value_ends import ValueEnds
from logitkit.limits import Limits
from logitkit.patterns.charset import CharSet
from logitkit.patterns.construction import alternate, concatenate
from logitkit.patterns.syntax import Alternate, Characters, Empty, Graph, Machine, Node

__all__ = ["XmlMembers", "XmlTags"]

# The kinds of values, as indices.
RAW, JSON = 0, 1
# The work on one schema and on each of its values, beside that on their automata.
SCHEMA_STEPS, VALUE_STEPS = 3000, 3000
NOT_A_STRING = {"type": ["null", "boolean", "number", "object", "array"]}


class XmlTags(NamedTuple):
    """The texts around names and values.

    Args:
        begin: The begin tag as it was given, for errors.
        before_name: The text before a name.
        after_names: The text between a name and raw text, and between a name and JSON.
        ends: The texts after a value.
        separator: The text between two members.
    """

    begin: str
    before_name: str
    after_names: tuple[str, str]
    ends: ValueEnds
    separator: str

    @property
    def tells_kinds(self) -> bool:
        """Whether tags say which kind of value follows."""
        return self.after_names[RAW] != self.after_names[JSON]


class XmlMembers:
    """Writes the members of the objects that satisfy one schema.

    Args:
        schema: The schema.
        tags: The texts around names and values.
        key: Equal for equal schemas with equal tags.
        layout: The white space in values that are JSON, and whether members may come in any order; members are in no blocks.
        writer: Knows what symbols stand for.
    """

    def __init__(self, schema: Any, tags: XmlTags, key: Hashable, layout: Layout, writer: LanguageWriter) -> None:
        self.tags, self.key, self.writer = tags, key, writer
        self.layout = layout
        self.reader = Reader(References.of(schema), writer.limits, LeftOut(False, writer.limits.work))
        # The characters that end a name.
        self.after_name = tags.after_names[RAW][0]
        self._values: dict[Conjunction, Node | None] = {}

    def tree(self) -> Node:
        """Return the tree of the members.

        Raises:
            UnsupportedSchema: A keyword cannot be enforced exactly, or a name cannot stand in a tag.
            ConfigurationError: No object satisfies the schema.
        """
        spend(SCHEMA_STEPS)
        reader = self.reader
        root = reader.conjunction(reader.references.resources[""])
        objects = () if root == NOTHING else reader.values(root).objects
        with reader.blaming_one_of(root, "maxProperties", "minProperties", "patternProperties", "properties"):
            plans = [object_plan(some, reader.everything.strings, self.layout) for some in objects]
        graphs = [graph for plan in plans if plan is not None and (graph := self._graph(plan)) is not None]
        if not graphs:
            raise ConfigurationError("no object satisfies the schema of the arguments, so nothing could be generated")
        self.writer.ignored.extend(reader.ignored)
        return Alternate(tuple(graphs)) if len(graphs) > 1 else graphs[0]

    def _graph(self, plan: Plan) -> Graph | None:
        """Return the graph of what can be written, None if nothing can."""
        rows = tuple(
            tuple((tree, move.target) for move in row if (tree := self._move(move)) is not None) for row in plan.moves
        )
        if plan.end not in reached(0, lambda state: [target for _, target in rows[state]]):
            return None
        return Graph(rows, tuple(state == plan.end for state in range(len(rows))))

    def _move(self, move: Move) -> Node | None:
        """Return the tree of one edge, or None if no text takes it."""
        if move.value is None:
            # Brackets and white space around members have no place between tags.
            return self.writer.text(self.tags.separator) if move.text == self.layout.comma else Empty()
        # Members between tags are written one by one.
        assert not isinstance(move.value, Block)
        name, value = self._name(move.names), self._value(move.value)
        if name is None or value is None:
            return None
        return concatenate([self.writer.text(self.tags.before_name), name, value])

    def _name(self, names: Names | str | None) -> Node | None:
        if isinstance(names, Names):
            allowed = names.exact().language & texts_without(self.after_name, self.writer.limits)
            named = allowed - TextLanguage.of_texts([""], self.writer.limits)
            return None if named.is_empty else named.machine()
        assert names is not None
        name = json.loads(names)
        if not name or self.after_name in name:
            raise UnsupportedSchema(
                f"the name {name!r} cannot stand in the tag {self.tags.begin!r}: it is empty, or holds "
                f"{self.after_name!r}, which ends it; use another name, or arguments as JSON",
                below("#", "properties", name),
                None,
            )
        return _plain(name)

    def _value(self, value: Conjunction) -> Node | None:
        """Return the tree of what follows a name: the rest of its tag, a value, and the end; None if there is no value."""
        if value not in self._values:
            spend(VALUE_STEPS)
            self._values[value] = self._by_kind(value) if self.tags.tells_kinds else self._any_kind(value)
        return self._values[value]

    def _any_kind(self, value: Conjunction) -> Node | None:
        """Return the tree where raw text and JSON stand in the same place."""
        values = self.reader.values(value)
        if values.strings.is_everything:
            # JSON is text as well.
            return self._raw(values.strings)
        if not (values.null or values.booleans or values.objects or values.arrays) and values.numbers.is_empty:
            return self._raw(values.strings)
        raw = values.strings.language & texts_without(self.tags.ends.marker, self.writer.limits)
        if len(self.tags.ends.texts) > 1 and not raw.is_empty and (values.objects or values.arrays):
            self._check_beside_json(value)
        return self._tagged(RAW, raw, self._json(value, raw))

    def _check_beside_json(self, value: Conjunction) -> None:
        """Refuse a value of which a reader could not say whether an end stands in a string of JSON, or after raw text."""
        for end in self.tags.ends.texts:
            if min(end) >= " ":
                with self.reader.blaming_one_of(value, "type", "anyOf", "oneOf", "enum", "not"):
                    raise UnsupportedSchema(
                        f"the value is raw text or a JSON array or object, and one of the two ends, {end!r}, may stand in a JSON "
                        "string, so it is not clear where the value stops; allow one of the two, or any string, or use ends with "
                        "a line feed"
                    )

    def _by_kind(self, value: Conjunction) -> Node | None:
        """Return the tree where the tag says whether raw text or JSON follows."""
        nothing = TextLanguage.of_texts([], self.writer.limits)
        raw = self._raw(self.reader.values(value).strings)
        return _any_of([raw, self._tagged(JSON, nothing, self._json(value, nothing))])

    def _raw(self, strings: StringSet) -> Node | None:
        """Return the tree of raw texts where nothing else may stand, as one fragment if that is possible."""
        begin, ends = self.tags.after_names[RAW], self.tags.ends
        without = texts_without(ends.marker, self.writer.limits)
        opening, options = begin[-1], self.writer.options
        if (
            options.longest
            and opening.isascii()
            and opening not in '"[{'
            and not any(self.writer.names_in(begin + "".join(ends.texts)))
        ):
            fragment = text_fragment(strings, without, ends, options.longest, options.closing)
            if fragment is not None:
                text = self.writer.text_fragment(
                    TextFragment(opening, fragment, lambda: _ended(strings, without, ends))
                )
                return concatenate([self.writer.text(begin[:-1]), text])
        return self._tagged(RAW, _texts(strings, without), None)

    def _tagged(self, kind: int, raw: TextLanguage, json_values: Node | None) -> Node | None:
        """Return the tree of values with the rest of their tag and its end, or None if there are none."""
        ends, begin = self.tags.ends, self.writer.text(self.tags.after_names[kind])
        free = ends.free(raw)
        # No JSON value ends with white space, so any end may follow.
        options = [(_any_of([_machine(free), json_values]), ends.texts)]
        if free is not raw:
            options.append((_machine(raw - free), (ends.longest,)))
        return _any_of(
            [
                concatenate([begin, value, alternate([self.writer.text(end) for end in after])])
                for value, after in options
                if value is not None
            ]
        )

    def _json(self, value: Conjunction, raw: TextLanguage) -> Node | None:
        """Return the tree of those values that are not strings, as JSON.

        Args:
            value: The set that the value is in.
            raw: The raw texts that may stand in the same place. They are followed side by side with brackets that they may begin
                with, so what nests there is written in place, and nothing is called.
        """
        openings = _openings(raw)
        options = (
            self.writer.options._replace(fragments=False, longest=0, called=False) if openings else self.writer.options
        )
        others = both(value, self.reader.conjunction(self.reader.references.root._replace(value=NOT_A_STRING)))
        layout = replace(self.layout, blocks=options.longest > 0, within_tokens=options.closing)
        nested_grammar = nested_grammar_of(
            others, self.reader, layout, options.fragments, options.longest, called_root=options.called
        )
        if nested_grammar is None:
            return None
        if any(rule.opening in openings for rule in nested_grammar.rules):
            with self.reader.blaming_one_of(value, "type", "anyOf", "oneOf", "enum", "not"):
                raise UnsupportedSchema(
                    "the value is raw text or a JSON value that nests without limit, and both may begin with the same bracket, "
                    "so an automaton with one stack cannot follow both; allow one of the two, or any string"
                )
        # The reader numbers what it meets in the same order whenever it reads this schema.
        key: Hashable = ("xml", self.key, self.writer.limits, options, others)
        return self.writer.value(key, Compiled(nested_grammar, (), ()))


def _texts(strings: StringSet, without: TextLanguage) -> TextLanguage:
    """Return the texts of some strings in which the closing marker does not occur."""
    return without if strings.is_everything else strings.language & without


def _ended(strings: StringSet, without: TextLanguage, ends: ValueEnds) -> Node:
    """Return the tree of the same texts with their ends."""
    texts = _texts(strings, without)
    free = ends.free(texts)
    options = [concatenate([free.machine(), alternate(list(map(_plain, ends.texts)))])]
    if free is not texts:
        options.append(concatenate([(texts - free).machine(), _plain(ends.longest)]))
    return alternate(options)


def _any_of(options: list[Node | None]) -> Node | None:
    found = tuple([option for option in options if option is not None])
    return Alternate(found) if len(found) > 1 else found[0] if found else None


def _machine(texts: TextLanguage) -> Node | None:
    return None if texts.is_empty else texts.machine()


def _openings(texts: TextLanguage) -> str:
    """Return the brackets that some texts may begin with."""
    first = [] if texts.dfa is None else [texts.charset(mask) for mask in texts.dfa.moves[0].values()]
    return "".join(bracket for bracket in "{[" if any(ord(bracket) in charset for charset in first))


@lru_cache(maxsize=64)
def texts_without(marker: str, limits: Limits) -> TextLanguage:
    """Return the texts in which a marker does not occur."""
    search = Search.of([[tuple(map(ord, marker))]], (), limits)
    return TextLanguage.of_tree(Machine(search.moves, (True,) * len(search.moves)), limits)


def _plain(text: str) -> Node:
    return concatenate([Characters(CharSet.single(ord(character))) for character in text])
