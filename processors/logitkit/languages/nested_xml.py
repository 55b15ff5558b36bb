"""The members of an object between tags, where objects and arrays in them stand between tags as well, as Cohere's models write.

    <cofl:value name="city" type="raw">Rome</cofl:value>
    <cofl:value name="days" type="list"><cofl:value type="json">1</cofl:value><cofl:value type="json">2</cofl:value></cofl:value>

Each value says its kind: raw text, JSON, an object (`dict`) or an array (`list`). Items have no names. A value of which a schema
says nothing is JSON, whatever its type is, as in XGrammar: so what it contains is not written between tags.

Values are written in place, so an object cannot contain itself, and values nest at most 32 deep.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from logitkit.budget import spend
from logitkit.compiler.text_language import TextLanguage
from logitkit.errors import UnsupportedSchema
from logitkit.json_schema.array_plan import array_plan
from logitkit.json_schema.arrays import Arrays
from logitkit.json_schema.conjunction import ANYTHING, Conjunction
from logitkit.json_schema.document import key_of, load
from logitkit.json_schema.layout import Layout, Whitespace
from logitkit.json_schema.object_plan import object_plan
from logitkit.json_schema.plan import Block, Move, Plan
from logitkit.languages.language import Language
from logitkit.languages.language_writer import LanguageWriter
from logitkit.languages.value_ends import ValueEnds
from logitkit.languages.xml_members import VALUE_STEPS, XmlMembers
from logitkit.languages.xml_tags import TYPES, XmlTags
from logitkit.patterns.construction import alternate, concatenate
from logitkit.patterns.syntax import Empty, Node

__all__ = ["NestedXmlArguments"]

# The text before a value, the one before its name, and the one after its name.
BEGIN, NAME, AFTER_NAME, END = "<cofl:value", ' name="', '"', "</cofl:value>"
RAW, JSON, DICT, LIST = (f' type="{kind}">' for kind in ("raw", "json", "dict", "list"))
SCALARS = TYPES[:3]
# Each level takes several calls of functions inside of each other.
DEEPEST = 32


@dataclass(frozen=True)
class NestedXmlArguments(Language):
    """The members of an object between nested tags.

    Args:
        schema: The schema of the object.
        whitespace: The white space in values that are JSON, as in `JsonSchema`.
        any_order: Whether members may come in any order.

    Example:
        >>> schema = {"properties": {"days": {"items": {"type": "integer"}}}}
        >>> [text for text in NestedXmlArguments(schema).texts if "list" in text]
        [' type="list">']
    """

    schema: Any = field(compare=False)
    whitespace: Whitespace = "compact"
    any_order: bool = False
    content: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", load(self.schema))
        object.__setattr__(self, "content", key_of(self.schema))

    @property
    def texts(self) -> Iterator[str]:
        """The texts of the tags, in which names of special tokens may stand."""
        yield from (BEGIN, NAME, AFTER_NAME, RAW, JSON, DICT, LIST, END)

    def tree(self, writer: LanguageWriter) -> Node:
        """Return the syntax tree.

        Raises:
            UnsupportedSchema: A keyword cannot be enforced exactly, a name cannot stand in a tag, or a value contains itself.
            ConfigurationError: No object satisfies the schema.
        """
        layout = Layout(self.whitespace, self.any_order)
        return _NestedMembers(self.schema, self, layout, writer).tree()


class _NestedMembers(XmlMembers):
    """Writes the members of the objects that satisfy one schema."""

    def __init__(self, schema: Any, key: Hashable, layout: Layout, writer: LanguageWriter) -> None:
        tags = XmlTags(BEGIN + NAME, BEGIN, (RAW, JSON), ValueEnds.of(END, None), "")
        super().__init__(schema, tags, key, layout, writer, "json")
        self.after_name = AFTER_NAME
        # The values that are being written, each inside of the one before it.
        self._around: list[Conjunction] = []

    def _move(self, move: Move) -> Node | None:
        if move.value is None:
            # Brackets and commas have no place between tags.
            return Empty()
        assert not isinstance(move.value, Block)
        value = self._value(move.value)
        if value is None or move.names is None:
            return value and concatenate([self.writer.text(BEGIN), value])
        name = self._name(move.names)
        parts = [self.writer.text(BEGIN + NAME), name, self.writer.text(AFTER_NAME), value]
        return None if name is None else concatenate([part for part in parts if part is not None])

    def _value(self, value: Conjunction) -> Node | None:
        if value in self._around:
            with self.reader.blaming_one_of(value, "$ref", "properties", "items"):
                raise UnsupportedSchema(
                    "the value contains itself, and values between nested tags are written in place; limit how deep it nests, or "
                    "use arguments as JSON"
                )
        if len(self._around) > DEEPEST:
            with self.reader.blaming_one_of(value, "$ref", "properties", "items"):
                raise UnsupportedSchema(
                    f"values between nested tags nest at most {DEEPEST} deep; use arguments as JSON"
                )
        if value not in self._values:
            spend(VALUE_STEPS)
            self._around.append(value)
            self._values[value] = self._by_kind(value)
            self._around.pop()
        return self._values[value]

    def _by_kind(self, value: Conjunction) -> Node | None:
        nothing = TextLanguage.of_texts([], self.writer.limits)
        if value == ANYTHING:
            return self._tagged(JSON, nothing, self._json(value, nothing, ("string", *TYPES)))
        values = self.reader.values(value)
        with self.reader.blaming_one_of(value, "maxProperties", "minProperties", "patternProperties", "properties"):
            objects = [object_plan(some, self.reader.everything.strings, self.layout) for some in values.objects]
        with self.reader.blaming_one_of(value, "uniqueItems", "maxItems", "minItems", "items"):
            arrays = [self._array_plan(some) for some in values.arrays]
        options = [
            self._raw(values.strings),
            self._tagged(JSON, nothing, self._json(value, nothing, SCALARS)),
            self._nested(DICT, objects),
            self._nested(LIST, arrays),
        ]
        found = [option for option in options if option is not None]
        return alternate(found) if found else None

    def _array_plan(self, arrays: Arrays) -> Plan:
        if (arrays.unique or arrays.repeated) and (arrays.most is None or arrays.most > 1):
            raise UnsupportedSchema("items between tags are not compared; leave it out, or use arguments as JSON")
        return array_plan(arrays, self.reader, self.layout)

    def _nested(self, begin: str, plans: Iterable[Plan | None]) -> Node | None:
        """Return the tree of objects or arrays between tags, or None if there are none."""
        graphs = [graph for plan in plans if plan is not None and (graph := self._graph(plan)) is not None]
        if not graphs:
            return None
        return concatenate([self.writer.text(begin), alternate(list[Node](graphs)), self.writer.text(END)])
