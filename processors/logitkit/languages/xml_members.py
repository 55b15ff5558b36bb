"""Writes the members of objects between tags as syntax trees; see `xml_arguments`."""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from logitkit.budget import spend
from logitkit.compiler.characters.components import reached
from logitkit.compiler.nested_grammars.nested_grammar import TextFragment
from logitkit.compiler.text_language import TextLanguage
from logitkit.errors import ConfigurationError, UnsupportedSchema
from logitkit.json_schema.compile import Compiled
from logitkit.json_schema.conjunction import ANYTHING, NOTHING, Conjunction, both
from logitkit.json_schema.layout import Layout
from logitkit.json_schema.left_out import LeftOut
from logitkit.json_schema.object_plan import object_plan
from logitkit.json_schema.plan import Block, Move, Names, Plan
from logitkit.json_schema.pointer import below
from logitkit.json_schema.reader import Reader
from logitkit.json_schema.references import References
from logitkit.json_schema.string_set import StringSet
from logitkit.json_schema.writer import nested_grammar_of
from logitkit.languages.cdata import with_sections
from logitkit.languages.language_writer import LanguageWriter
from logitkit.languages.raw_strings import names_matching, openings_of, raw_texts, texts_without
from logitkit.languages.text_fragments import text_fragment
from logitkit.languages.value_ends import ValueEnds
from logitkit.languages.xml_tags import RAW, TYPES, XmlTags
from logitkit.patterns.charset import CharSet
from logitkit.patterns.construction import alternate, concatenate
from logitkit.patterns.syntax import Alternate, Characters, Empty, Graph, Node

__all__ = ["XmlMembers"]

# The work on one schema and on each of its values, beside that on their automata.
SCHEMA_STEPS, VALUE_STEPS = 3000, 3000
LITERALS = frozenset(("boolean", "null"))


class XmlMembers:
    """Writes the members of the objects that satisfy one schema.

    Args:
        schema: The schema.
        tags: The texts around names and values.
        key: Equal for equal schemas with equal tags.
        layout: The white space in values that are JSON, and whether members may come in any order; members are in no blocks.
        writer: Knows what symbols stand for.
        literals: How a value that is true, false or null is written: as in `"json"` or in `"python"`.
    """

    def __init__(
        self, schema: Any, tags: XmlTags, key: Hashable, layout: Layout, writer: LanguageWriter, literals: str
    ) -> None:
        self.tags, self.key, self.writer, self.literals = tags, key, writer, literals
        self.layout = layout
        left_out = LeftOut(False, writer.limits.work)
        self.reader = Reader(References.of(schema), writer.limits, left_out, free_of=tags.free_of)
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
            allowed = names.exact().language
            for character in {self.after_name, *dict(self.tags.escapes)}:
                allowed &= texts_without(character, self.writer.limits)
            named = allowed - TextLanguage.of_texts([""], self.writer.limits)
            named = named if self.tags.names is None else named & names_matching(self.tags.names)
            return None if named.is_empty else named.machine()
        assert names is not None
        name = json.loads(names)
        written = self.tags.written(name)
        if not name or self.after_name in written:
            raise UnsupportedSchema(
                f"the name {name!r} cannot stand in the tag {self.tags.begin!r}: it is empty, or holds "
                f"{self.after_name!r}, which ends it; use another name, or arguments as JSON",
                below("#", "properties", name),
                None,
            )
        if self.tags.names is not None and not names_matching(self.tags.names).contains(name):
            raise UnsupportedSchema(
                f"the name {name!r} does not match {self.tags.names!r}, as names have to in this format; use another name",
                below("#", "properties", name),
                None,
            )
        return _plain(written)

    def _value(self, value: Conjunction) -> Node | None:
        """Return the tree of what follows a name: the rest of its tag, a value, and the end; None if there is no value."""
        if value not in self._values:
            spend(VALUE_STEPS)
            self._values[value] = self._by_kind(value) if self.tags.tells_kinds else self._any_kind(value)
        return self._values[value]

    def _any_kind(self, value: Conjunction) -> Node | None:
        """Return the tree where raw text and JSON stand in the same place."""
        values = self.reader.values(value)
        if value == ANYTHING:
            return self._raw(values.strings, may_be_json=True)
        if values.strings.key == self.reader.everything.strings.key and self.tags.raw_strings != "unlike_json":
            # JSON is text as well.
            return self._raw(values.strings)
        if not (values.null or values.booleans or values.objects or values.arrays) and values.numbers.is_empty:
            return self._raw(values.strings)
        raw = self._spelled(values.strings, self._raw_texts())
        if len(self.tags.ends.texts) > 1 and not raw.is_empty and (values.objects or values.arrays):
            self._check_beside_json(value)
        return self._tagged(self.tags.after_names[RAW], raw, self._json(value, raw, TYPES))

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
        others = [
            self._tagged(after_name, nothing, self._json(value, nothing, types))
            for after_name, types in self.tags.types_after.items()
        ]
        return _any_of([raw, *others])

    def _raw_texts(self, may_be_json: bool = False) -> TextLanguage:
        marker = self.tags.ends.marker
        return raw_texts(marker, self.tags.raw_strings, may_be_json, self.writer.limits, self.tags.free_of)

    def _raw(self, strings: StringSet, may_be_json: bool = False) -> Node | None:
        """Return the tree of raw texts where nothing else may stand, as one fragment if that is possible."""
        begin, ends = self.tags.after_names[RAW], self.tags.ends
        without = self._raw_texts(may_be_json)
        if strings.key == self.reader.everything.strings.key:
            # All strings without the texts that these raw texts lack anyway.
            strings = StringSet.everything(self.writer.limits)
        opening, options = begin[-1], self.writer.options
        if (
            options.longest
            and not self.tags.cdata
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
        return self._tagged(begin, self._spelled(strings, without), None)

    def _spelled(self, strings: StringSet, without: TextLanguage) -> TextLanguage:
        """Return the spellings of some strings, of which some may stand in a CDATA section."""
        if self.tags.cdata:
            limits = self.writer.limits
            return with_sections(strings.language, without, self.tags.cdata, self.tags.free_of, limits)
        return _texts(strings, without)

    def _tagged(self, after_name: str, raw: TextLanguage, json_values: Node | None) -> Node | None:
        """Return the tree of values with the rest of their tag and its end, or None if there are none."""
        ends, begin = self.tags.ends, self.writer.text(after_name)
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

    def _json(self, value: Conjunction, raw: TextLanguage, types: Sequence[str]) -> Node | None:
        """Return the tree of those values that are of some types, other than strings, as JSON.

        Args:
            value: The set that the value is in.
            types: The types.
            raw: The raw texts that may stand in the same place. They are followed side by side with brackets that they may begin
                with, so what nests there is written in place, and nothing is called.
        """
        if self.literals == "python":
            others = [kind for kind in types if kind not in LITERALS]
            nested = self._json_of(value, raw, others) if others else None
            return _any_of([*self._python_literals(value, types), nested])
        return self._json_of(value, raw, types)

    def _python_literals(self, value: Conjunction, types: Sequence[str]) -> list[Node | None]:
        """Return the trees of those of True, False and None that a value of some types may be."""
        values = self.reader.values(value)
        booleans = values.booleans if "boolean" in types else ()
        null = values.null and "null" in types
        allowed = (("None", null), ("True", True in booleans), ("False", False in booleans))
        return [_plain(text) for text, is_allowed in allowed if is_allowed]

    def layout_of_values(self, blocks: bool, within_tokens: bool) -> Layout:
        """Return the white space in values that are JSON."""
        return replace(self.layout, blocks=blocks, within_tokens=within_tokens)

    def _json_of(self, value: Conjunction, raw: TextLanguage, types: Sequence[str]) -> Node | None:
        """Return the tree of those values that are of some types, as JSON."""
        openings = openings_of(raw)
        options = (
            self.writer.options._replace(fragments=False, longest=0, called=False) if openings else self.writer.options
        )
        of_types = self.reader.references.root._replace(value=_of_types(tuple(types)))
        others = both(value, self.reader.conjunction(of_types))
        layout = self.layout_of_values(options.longest > 0, options.closing)
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


@cache
def _of_types(types: tuple[str, ...]) -> dict[str, Any]:
    """Return the schema of values of some types, always the same object."""
    return {"type": [*types]}


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


def _plain(text: str) -> Node:
    return concatenate([Characters(CharSet.single(ord(character))) for character in text])
