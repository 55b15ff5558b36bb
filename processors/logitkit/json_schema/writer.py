"""From the parts of a schema's language to a nested grammar: what nests without bound is called, all else is written in place."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable
from dataclasses import replace

from logitkit.compiler.characters.components import components
from logitkit.compiler.characters.positions import count_positions
from logitkit.compiler.characters.symbols import Symbol
from logitkit.compiler.nested_grammars.nested_grammar import NestedGrammar, NestedRule, Strings
from logitkit.json_schema.conjunction import ANYTHING, Conjunction
from logitkit.json_schema.delimited_strings import DelimitedStrings
from logitkit.json_schema.layout import JSON_LITERALS, Layout, is_unicode, literal, quoted, written
from logitkit.json_schema.parts import Key, Trimmed, parts_of
from logitkit.json_schema.plan import Block, Move, Names
from logitkit.json_schema.reader import Reader
from logitkit.json_schema.string_spellings import spelled_strings, spelled_text
from logitkit.json_schema.together import parts_together
from logitkit.json_schema.value_graph import with_values_once
from logitkit.patterns.charset import CharSet
from logitkit.patterns.construction import concatenate
from logitkit.patterns.syntax import Alternate, Call, Characters, Node

# A value that is nested deeper is called, so that no tree is deeper than the builders of automata can take.
DEEPEST_INLINE = 12
# A nested grammar with more characters has large parts that are used repeatedly written once, and called. One that calls
# something has a stack, so that another call costs it little, and smaller parts are called too. As a row has room for a limited
# number of open calls, small parts are called only if fewer than `DEEPEST_SMALL` calls for size may be open inside.
LARGE, LARGE_NESTED = 12_000, 1_500
LARGE_PART, LARGE_NESTED_PART = 200, 25
DEEPEST_SMALL = 6
# Items in blocks are written in dozens of places, so they are called sooner. Such calls do not count as nesting.
LARGE_IN_BLOCKS, LARGE_PART_IN_BLOCKS = 300, 20
# More parts than this that begin in one place are not called for their size.
MOST_TOGETHER = 4
# Strings that are so few are written in place.
MOST_INLINE = 64


def nested_grammar_of(
    root: Conjunction,
    reader: Reader,
    layout: Layout,
    fragments: bool = True,
    longest: int = 0,
    called_root: bool = False,
) -> NestedGrammar | None:
    """Return the language of the values that satisfy a conjunction, or None if there are none.

    Args:
        root: The conjunction.
        reader: Knows its schemas.
        layout: The white space around members and items, and how literals and strings are written.
        fragments: Whether strings are called, unless they are few; only if they are written as in JSON.
        longest: The most characters of a token, if the characters of strings may be counted; 0 if they may not.
        called_root: Whether the object or array that is the whole value is to be called.

    Raises:
        UnsupportedSchema: Some part has no exact form.
    """
    fragments &= layout.strings == "json"
    parts = parts_of(root, reader, layout)
    trimmed = Trimmed(parts, reader)
    if not trimmed.has_value(root):
        return None
    keys = list(trimmed.live)
    number = {key: i + 1 for i, key in enumerate(keys)}
    inside: list[list[Key]] = [trimmed.keys_of([root]), *[trimmed.keys_of(parts[key].inside) for key in keys]]
    order = components([{number[key]: 1 for key in row} for row in inside])
    called: set[Key] = {*trimmed.keys_of([root])} if called_root else set()
    bottom_up: list[Key] = []
    recurring: set[Key] = set()
    for component in order:
        of_component = [state for state in component if state]
        bottom_up += [keys[state - 1] for state in of_component]
        recurring |= {keys[s - 1] for s in of_component if len(component) > 1 or keys[s - 1] in inside[s]}
    if any(key.opening == "," for key in recurring):
        # A row has room for a limited number of frames of blocks, so values that recur must have none.
        without = replace(layout, blocks=False)
        return nested_grammar_of(root, reader, without, fragments, longest, called_root)
    called |= {key for key in bottom_up if key in recurring or key.opening == ","}
    height: dict[Key, int] = {}
    for key in bottom_up:
        height[key] = 1 + max((height.get(k, 0) for k in inside[number[key]] if k not in called), default=0)
        called |= {key} if height[key] > DEEPEST_INLINE else set()
    blocks = {key for key in called if key.opening == ","}
    # Without calls, it does not matter what begins together.
    together = parts_together(trimmed.keys_of([root]), trimmed) if called else {}
    # Items are read again and again, each time beside other states of the arrays around them, so that calls share much.
    called |= {key for keys, are_items in together.items() if are_items for key in keys}
    called |= _with_those_beside(called, together)
    writer = _Writer(trimmed, called, layout, fragments, longest)
    large, large_part = (LARGE_NESTED, LARGE_NESTED_PART) if called else (LARGE, LARGE_PART)
    if blocks:
        large, large_part, writer.flat = LARGE_IN_BLOCKS, LARGE_PART_IN_BLOCKS, blocks
    if writer.total(bottom_up, root) > large:
        uses = trimmed.uses(root)
        if not called and any(uses[key] > 1 and writer.size(key) > large_part for key in bottom_up):
            large_part = LARGE_NESTED_PART
        # A call of many parts at once is larger than what it saves.
        crowded = {key for keys in together if len(keys) > MOST_TOGETHER for key in keys}
        writer.forget()
        open_calls: dict[Key, int] = {}
        for key in bottom_up:
            open_calls[key] = max((open_calls.get(k, 0) for k in inside[number[key]]), default=0)
            least = LARGE_PART if open_calls[key] >= DEEPEST_SMALL and not blocks else large_part
            # The part around it is measured later, and counts a call.
            if uses[key] > 1 and key not in crowded and writer.size(key) > least:
                writer.flat |= {key} - called if blocks else set()
                called.add(key)
                open_calls[key] += 1
        called |= _with_those_beside(called, together)
    return writer.nested_grammar(bottom_up, root)


def _with_those_beside(called: set[Key], together: Iterable[frozenset[Key]]) -> set[Key]:
    """Return the parts that are called, and those that begin in the same place."""
    found = {*called}
    left = {*together}
    while beside := {keys for keys in left if not found.isdisjoint(keys)}:
        found.update(*beside)
        left -= beside
    return found


class _Writer:
    """Writes trees, those of inner parts first."""

    def __init__(self, trimmed: Trimmed, called: set[Key], layout: Layout, fragments: bool, longest: int) -> None:
        self.trimmed = trimmed
        self.longest = longest
        self.layout = layout
        self.called = called
        self.fragments = fragments
        # A part that is called, but does not recur.
        self.flat: set[Key] = set()
        self._sizes: dict[Key, int] = {}
        self._value_sizes: dict[Conjunction | Block, int] = {}
        self._counted: dict[int, int] = {}
        self._bodies: dict[Key, Node] = {}
        self._values: dict[Conjunction | Block, Node] = {}
        self._numbers: dict[Key, int] = {}
        self._fragments: dict[Hashable, Strings] = {}
        # Whether names and other fixed texts are words. Without objects and arrays, the whole language is a finite automaton.
        self.words = fragments and bool(trimmed.live)
        # The same numbers in all schemas, as any value whatever is a part that all of them share.
        self._words: dict[str, int] = dict(zip(layout.literals, range(3), strict=True)) if self.words else {}
        self._has_words = False
        self._fragment_numbers: dict[Hashable, int] = {}
        # By identity: a run is kept by its blocks.
        self._runs: dict[int, int] = {}
        self._inline: dict[Names, list[str] | None] = {}

    def forget(self) -> None:
        """Forget the sizes: more will be called."""
        self._sizes.clear()
        self._value_sizes.clear()

    def total(self, bottom_up: list[Key], root: Conjunction) -> int:
        """Return how many characters the whole nested grammar has."""
        for key in bottom_up:
            self.size(key)
        return sum(self.size(key) for key in bottom_up if key in self.called) + self._value_size(root)

    def size(self, key: Key) -> int:
        """Return how many characters the tree of a part has, with all that is written in place."""
        if key not in self._sizes:
            # Its inside has been counted before: it comes first in the order.
            self._sizes[key] = 0
            self._sizes[key] = sum(
                self._count(move.text)
                + self._names_size(move.names)
                + (0 if move.value is None else self._value_size(move.value))
                for row in self.trimmed.live[key][0]
                for move in row
            )
        return self._sizes[key]

    def nested_grammar(self, bottom_up: list[Key], root: Conjunction) -> NestedGrammar:
        """Return the nested grammar."""
        self._numbers = {key: i for i, key in enumerate(key for key in bottom_up if key in self.called)}
        for key in bottom_up:
            moves, ends = self.trimmed.live[key]
            # Characters are not counted of names beside which others may stand.
            alone = len({move.names for row in moves for move in row} - {None}) == 1
            self._bodies[key] = with_values_once(
                [[(self._before(move, alone), self._written(move), move.target) for move in row] for row in moves], ends
            )
        main = self._value(root)
        rules = [self._rule(key) for key in self._numbers]
        # Labels begin with a surrogate.
        words = tuple([text.encode("utf-8", "surrogatepass") for text in self._words]) if self._has_words else ()
        return NestedGrammar(main, (*rules, *self._fragments.values()), words)

    def _rule(self, key: Key) -> NestedRule:
        if key.value != ANYTHING or not self.fragments:
            block = None
            if isinstance(key.value, Block):
                block = self._runs.setdefault(id(key.value.run), len(self._runs)), key.value.size
            return NestedRule(key.opening, self._bodies[key], recurs=key not in self.flat, block=block)
        # Any value whatever is the same in all schemas.
        reader = self.trimmed.reader
        strings = Names(reader.everything.strings)
        calls = [self._numbers[Key(ANYTHING, "{")], self._numbers[Key(ANYTHING, "[")]]
        own = self._strings(strings)
        assert isinstance(own, Call)
        return NestedRule(
            key.opening,
            self._bodies[key],
            ("anything", self.layout.whitespace, self.layout.literals, *reader.free_of),
            (*calls, own.rule),
        )

    def _before(self, move: Move, alone: bool) -> Node:
        """Return the tree of what a move reads before its value."""
        return concatenate([*self._names(move.names, alone), move.text])

    def _written(self, move: Move) -> Node | None:
        """Return the tree of the value of a move."""
        return None if move.value is None else self._value(move.value)

    def _names(self, names: Names | str | None, alone: bool) -> tuple[Node, ...]:
        strings = self.layout.strings
        if isinstance(strings, DelimitedStrings) and names is not None:
            if isinstance(names, Names):
                return (strings.names(names.exact().language),)
            # Without texts of whole values, each of these is the name of a member.
            return (strings.name(str(json.loads(names))),)
        if isinstance(names, Names):
            return (self._strings(names, alone),)
        return () if names is None else (self._text(self._spelled(names)),)

    def _spelled(self, text: str) -> str:
        """Return the JSON text of a string or a literal as the layout has it."""
        known = dict(zip(JSON_LITERALS, self.layout.literals, strict=True))
        assert not isinstance(self.layout.strings, DelimitedStrings)
        return spelled_text(known.get(text, text), self.layout.strings)

    def _text(self, text: str) -> Node:
        """Return the tree of a text that no other one begins with."""
        if not self.words:
            return written(text)
        self._has_words = True
        return Characters(CharSet.single(Symbol.word(self._words.setdefault(text, len(self._words)))))

    def _names_size(self, names: Names | str | None) -> int:
        return self._strings_size(names) if isinstance(names, Names) else len(names or "")

    def _strings(self, names: Names, alone: bool = True) -> Node:
        """Return the tree of some strings: a call of what is the same in many places, or themselves if they are few.

        Args:
            names: The strings.
            alone: Whether no other texts begin with a quote there.
        """
        if isinstance(self.layout.strings, DelimitedStrings):
            return self.layout.strings.strings(names.exact().language)
        if self.layout.strings != "json":
            return spelled_strings(names.exact().language, self.layout.strings)
        few = self._few(names)
        if not self.fragments or (few is not None and not self.words):
            return names.exact().tree()
        if few is not None:
            return _any_of([self._text(text) for text in few])
        closing = self.layout.within_tokens
        counted = alone and not names.excluded and names.strings.counts(self.longest, closing)
        key = names.strings.key, names.excluded, counted
        if key not in self._fragments:
            excluded = [quoted(name)[1:-1].encode() for name in names.excluded if is_unicode(name)]
            self._fragments[key] = Strings(
                names.strings.fragment(counted, closing),
                tuple(excluded),
                lambda: names.exact().body(),
                names.strings.fragment,
            )
            self._fragment_numbers[key] = len(self._numbers) + len(self._fragment_numbers)
        return Call(self._fragment_numbers[key])

    def _few(self, names: Names) -> list[str] | None:
        """Return the JSON texts of strings that are written in place, or None if they are called."""
        if names not in self._inline:
            few = None if names.excluded else names.strings.values(MOST_INLINE)
            self._inline[names] = few and [quoted(text) for text in few]
        return self._inline[names]

    def _strings_size(self, names: Names) -> int:
        few = self._few(names)
        if few is not None:
            return sum(map(len, few))
        return 1 if self.fragments else self._count(names.exact().tree())

    def _value(self, value: Conjunction | Block) -> Node:
        if isinstance(value, Block):
            return Call(self._numbers[Key(value, ",")])
        if value not in self._values:
            spelled = dict(zip(JSON_LITERALS, self.layout.literals, strict=True))
            options = [self._text(spelled[text]) for text in self.trimmed.literals(value)]
            numbers = self.trimmed.numbers(value)
            if numbers is not None:
                options.append(numbers)
            strings = self.trimmed.strings(value)
            if strings is not None:
                options.append(self._strings(strings))
            for key in self.trimmed.keys_of([value]):
                if key in self.called:
                    options.append(Call(self._numbers[key]))
                else:
                    options.append(concatenate([literal(key.opening), self._bodies[key]]))
            self._values[value] = _any_of(options)
        return self._values[value]

    def _value_size(self, value: Conjunction | Block) -> int:
        if isinstance(value, Block):
            return 1
        found = self._value_sizes.get(value)
        if found is None:
            numbers, strings = self.trimmed.numbers(value), self.trimmed.strings(value)
            found = sum(map(len, self.trimmed.literals(value))) + (0 if numbers is None else self._count(numbers))
            found += 0 if strings is None else self._strings_size(strings)
            found += sum(1 if key in self.called else 1 + self.size(key) for key in self.trimmed.keys_of([value]))
            self._value_sizes[value] = found
        return found

    def _count(self, node: Node) -> int:
        # By identity: nodes are shared, and live as long as what they are part of.
        found = self._counted.get(id(node))
        if found is None:
            found = self._counted[id(node)] = count_positions(node)
        return found


def _any_of(options: list[Node]) -> Node:
    # Not `alternate`, which would make one set of the characters that stand for two words.
    return Alternate(tuple(options)) if len(options) > 1 else options[0]
