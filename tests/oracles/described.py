"""Patterns, schemas and languages as the oracle reads them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import product
from math import inf
from typing import Any

import logitkit as lk
from logitkit.languages.any_tokens import AnyToken
from logitkit.languages.combined import InOrder, OneOf, Repeated
from logitkit.languages.dispatching import Dispatch
from logitkit.languages.free_text import AnyText
from logitkit.languages.language import Language
from logitkit.languages.schemas import JsonValue
from logitkit.languages.texts import LiteralText, OneText, RegexText, SpecialToken
from tests.languages import patterns
from tests.oracles.machine import Machine
from tests.oracles.nodes import (
    Alt,
    Both,
    Bracket,
    Call,
    Chars,
    Free,
    Node,
    OneToken,
    Repeat,
    Seq,
    Special,
    Symbol,
    Text,
)

__all__ = ["machine", "machine_of", "pattern_node", "schema_rules", "text", "until", "without"]

# In vocabularies with a token for each byte, all that is looked at: the oracle is slow.
SHOWN = frozenset(bytes([byte]) for byte in b'ab<t>[]{},:"\\truefalsnoebdi01.-+E\x00\xff\xc3\xa9\xe2\x82\xac')
CONTROLS = "".join(map(chr, range(32)))
SHORT_ESCAPES = dict(zip('"\\\b\f\n\r\t', '"\\bfnrt', strict=True))
LONG_ESCAPES = [f"\\u{ord(c):04x}" for c in CONTROLS if c not in SHORT_ESCAPES]


def text(written: str) -> Text:
    """Return a text that is written in bytes."""
    return Text(tuple(written.encode()))


def one_of(texts: Iterator[str] | list[str]) -> Alt:
    """Return one of some texts, in bytes."""
    return Alt(tuple(map(text, texts)))


def pattern_node(tree: patterns.Tree) -> Node:
    """Return the texts of a pattern."""
    match tree:
        case patterns.Chars(of, negated):
            return Chars(of, negated)
        case patterns.Two(parts):
            return Seq(tuple(map(pattern_node, parts)))
        case patterns.Choice(options):
            return Alt(tuple(map(pattern_node, options)))
        case patterns.Several(inner, least, most):
            return Repeat(pattern_node(inner), least, most)


def machine(
    node: Node,
    vocabulary: lk.Vocabulary,
    rules: Mapping[str, Node] | None = None,
    max_depth: float = inf,
    named: frozenset[int] = frozenset(),
) -> Machine:
    """Return the machine of a language, which looks at those tokens that differ from others."""
    shown = {
        token: text for token, text in enumerate(vocabulary.tokens) if text is None or len(text) > 1 or text in SHOWN
    }
    return Machine(node, shown, vocabulary.eos_ids, rules or {}, named, max_depth)


# Schemas.

STRING_CHARACTER = Alt(
    (Chars('"\\' + CONTROLS, negated=True), one_of(["\\" + c for c in SHORT_ESCAPES.values()] + LONG_ESCAPES))
)
ANY_TYPE = {"anyOf": [{"type": name} for name in ("null", "boolean", "number", "string", "array", "object")]}
DIGITS = Repeat(Chars("0123456789"), 1, None)
NUMBER = Seq(
    (
        Repeat(Chars("-"), 0, 1),
        Alt((Chars("0"), Seq((Chars("123456789"), Repeat(Chars("0123456789"), 0, None))))),
        Repeat(Seq((Chars("."), DIGITS)), 0, 1),
        Repeat(Seq((Chars("eE"), Repeat(Chars("+-"), 0, 1), DIGITS)), 0, 1),
    )
)


def schema_node(schema: Any) -> Node:
    """Return the values of a schema, written without white space; `#` is the rule of the whole schema.

    Brackets count where values nest without limit.
    """
    if schema is True:
        return Call("any")
    written = json.dumps(schema)
    counts = not {"properties", "items"} & set(schema) or '"$ref"' in written or "true" in written
    if "$ref" in schema:
        return Call(schema["$ref"])
    if "enum" in schema or "const" in schema:
        return one_of([json.dumps(value, separators=(",", ":")) for value in schema.get("enum", [schema.get("const")])])
    if "anyOf" in schema:
        return Alt(tuple(map(schema_node, schema["anyOf"])))
    match schema["type"]:
        case "null":
            return text("null")
        case "boolean":
            return one_of(["true", "false"])
        case "number":
            return NUMBER
        case "string":
            least, most = schema.get("minLength", 0), schema.get("maxLength")
            return Seq((text('"'), Repeat(STRING_CHARACTER, least, most), text('"')))
        case "array":
            items = separated(schema_node(schema.get("items", True)), schema.get("minItems", 0), schema.get("maxItems"))
            return bracket("[", items, "]", counts)
        case _ if "properties" in schema:
            return bracket("{", Alt(tuple(members(schema))), "}", counts)
    member = Seq((schema_node({"type": "string"}), text(":"), Call("any")))
    return bracket("{", separated(member, 0, None), "}", True)


def bracket(opening: str, inside: Node, closing: str, counts: bool) -> Node:
    """Return a part between brackets."""
    whole = Seq((text(opening), inside, text(closing)))
    return Bracket(whole) if counts else whole


def separated(item: Node, least: int, most: int | None) -> Node:
    """Return items with commas between them."""
    if most == 0:
        return Text(())
    several = Seq((item, Repeat(Seq((text(","), item)), max(least - 1, 0), None if most is None else most - 1)))
    return several if least else Alt((Text(()), several))


def members(schema: Any) -> Iterator[Node]:
    """Return the members of an object, in the order of the schema, for each choice of those that are not required."""
    names = list(schema["properties"])
    for present in product((True, False), repeat=len(names)):
        chosen = [name for name, there in zip(names, present, strict=True) if there]
        if set(schema.get("required", [])) <= set(chosen):
            parts: list[Node] = []
            for number, name in enumerate(chosen):
                parts += [text("," * (number > 0) + json.dumps(name) + ":"), schema_node(schema["properties"][name])]
            yield Seq(tuple(parts))


def schema_rules(schema: Any) -> dict[str, Node]:
    """Return the rules that the values of a schema call."""
    return {"#": schema_node(schema), "any": schema_node(ANY_TYPE)}


# Languages.


class Describer:
    """Describes languages for one vocabulary.

    Args:
        language: The language.
        vocabulary: The tokens. No name of an EOS id may occur in the language.
    """

    def __init__(self, language: Language, vocabulary: lk.Vocabulary) -> None:
        self.vocabulary, self.rules = vocabulary, dict[str, Node]()
        special = [part for part in parts_of(language) if isinstance(part, SpecialToken)]
        self.named = frozenset(map(self.id_of, special))
        by_name = {part.token: self.id_of(part) for part in special if isinstance(part.token, str)}
        self.names = {
            name: token
            for name, token in {**vocabulary.special, **by_name}.items()
            if (vocabulary.tokens[token] is None or token in self.named) and token not in vocabulary.eos_ids
        }

    def id_of(self, special: SpecialToken) -> int:
        """Return the id of a special token; one that was added to a tokenizer may have its name as its text only."""
        if isinstance(special.token, int):
            return special.token
        known = self.vocabulary.special
        return known[special.token] if special.token in known else self.vocabulary.tokens.index(special.token.encode())

    def ways(self, written: str, named: float = float("inf"), at: int = 0) -> list[tuple[Symbol, ...]]:
        """Return all ways to write a text: its bytes, and special tokens by name where they begin before an offset."""
        if at == len(written):
            return [()]
        found = [(*written[at].encode(), *rest) for rest in self.ways(written, named, at + 1)]
        for name, token in self.names.items():
            if at < named and written.startswith(name, at):
                found += [(Special(token), *rest) for rest in self.ways(written, named, at + len(name))]
        return found

    def markers(self, given: Any, among: Any) -> tuple[tuple[Symbol, ...], ...]:
        """Return the ways to write some markers; nothing of one counts after another one that it begins with."""
        found: list[tuple[Symbol, ...]] = []
        for marker in given:
            if isinstance(marker, SpecialToken):
                found.append((Special(self.id_of(marker)),))
            else:
                shorter = [len(m) for m in among if isinstance(m, str) and m != marker and marker.startswith(m)]
                found += self.ways(marker, min(shorter, default=len(marker)))
        return tuple(found)

    def free(self, until: Any, exclude: Any) -> Free:
        """Return free text.

        Args:
            until: The markers that end it, each with the node that follows it.
            exclude: The markers that do not occur in it.
        """
        among = (*(marker for marker, _ in until), *exclude)
        ends = tuple((way, then) for marker, then in until for way in self.markers([marker], among))
        return Free(ends, self.markers(exclude, among))

    def node(self, language: Any) -> Node:
        """Return the texts of a language."""
        match language:
            case LiteralText(written):
                return Alt(tuple(map(Text, self.ways(written))))
            case OneText(options):
                return Alt(tuple(Text(way) for option in options for way in self.ways(option)))
            case SpecialToken():
                return Text((Special(self.id_of(language)),))
            case AnyToken(exclude):
                excluded = {*map(self.id_of, exclude), *self.vocabulary.eos_ids}
                return OneToken(frozenset(range(self.vocabulary.size)) - excluded)
            case RegexText(pattern, ()):
                return pattern_node(patterns.tree_of(pattern))
            case RegexText(pattern, exclude):
                without = Free((), tuple(tuple(word.encode()) for word in exclude))
                return Both(((pattern_node(patterns.tree_of(pattern)),), (without,)))
            case AnyText(until, exclude, None):
                return self.free([(marker, Text(())) for marker in until], exclude)
            case InOrder(parts):
                return Seq(tuple(map(self.node, parts)))
            case OneOf(options):
                return Alt(tuple(map(self.node, options)))
            case Repeated(item, least, most, None):
                return Repeat(self.node(item), least, most)
            case Repeated(_, _, 0):
                return Text(())
            case Repeated(item, least, most, separator):
                one, further = self.node(item), None if most is None else most - 1
                several = Seq((one, Repeat(Seq((self.node(separator), one)), max(least - 1, 0), further)))
                return several if least else Alt((Text(()), several))
            case Dispatch():
                return self.dispatch(language)
            case JsonValue():
                name = json.dumps(language.schema)
                rules = {key: renamed(node, name) for key, node in schema_rules(language.schema).items()}
                self.rules |= {name: rules["#"], "any": rules["any"]}
                return Call(name)
        raise AssertionError(language)

    def dispatch(self, given: Dispatch) -> Node:
        """Return free text with tags: text up to a trigger and the rest of its tag, several times, and then text without any."""
        tag = self.free([*zip(given.triggers, map(self.node, given.rests), strict=True)], given.exclude)
        end = self.free([], (*given.triggers, *given.exclude))
        if given.stop_after_first:
            return Alt((tag, *([] if given.at_least else [end])))
        return Seq((Repeat(tag, given.at_least, None), end))


def renamed(node: Any, name: str) -> Any:
    """Return a node in which the whole schema has another name."""
    match node:
        case Call("#"):
            return Call(name)
        case Seq(parts):
            return Seq(tuple(renamed(part, name) for part in parts))
        case Alt(options):
            return Alt(tuple(renamed(option, name) for option in options))
        case Repeat(item, least, most):
            return Repeat(renamed(item, name), least, most)
        case Bracket(inside):
            return Bracket(renamed(inside, name))
    return node


def parts_of(language: Any) -> Iterator[Any]:
    """Return a language, what it is built from, and its markers."""
    yield language
    for name in ("parts", "until", "exclude", "triggers"):
        for part in getattr(language, name, ()):
            yield from parts_of(part)


def machine_of(language: Language, vocabulary: lk.Vocabulary, max_depth: int) -> Machine:
    """Return the machine of a language."""
    made = Describer(language, vocabulary)
    node = made.node(language)
    return machine(node, vocabulary, made.rules, max_depth, made.named)


def until(marker: str | int, vocabulary: lk.Vocabulary) -> Free:
    """Return anything up to a marker, as `then` has it: also text that is not UTF-8."""
    ways = [(Special(marker),)] if isinstance(marker, int) else Describer(LiteralText(""), vocabulary).ways(marker)
    return Free(tuple((way, Text(())) for way in ways), utf8=False)


def without(words: list[str], vocabulary: lk.Vocabulary) -> Free:
    """Return anything in which some texts do not occur, as `BannedStrings` has it."""
    ways = Describer(LiteralText(""), vocabulary).markers(words, words)
    return Free((), ways, utf8=False)
