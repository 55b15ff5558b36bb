"""The language of calls whose number or order is limited: a path through the automaton of `CallOrder`.

Each call stands in the tree once for every state from which it may be called, so its parts are called as rules where they can be.
Tools are *alike* if they may be called from the same states, and the same may follow. From the first character on by which the
name of a tool differs from those of all tools that are not like it, a rule reads the rest of the call, for all alike tools whose
names begin in this way. By hand, for the tools `confirm`, `copy`, `delete` and `pay`, of which `pay` may come only after
`confirm`, in the state in which nothing was called:

    {"name": "  --d-->  rule of delete, then this state
              --co--  --n-->  rule of confirm, then the state in which all is allowed
                      --p-->  rule of copy, then this state

After `confirm`, one rule stands for any call. A rule has to end with a bracket, a quote or the end of a tag, because it is known
of these bytes what the rest of a token does after them. Calls without such an end, or with names that do not differ from another
one's beginning, are written out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from logitkit.languages import either, sequence
from logitkit.languages.language import Language
from logitkit.languages.language_symbols import spelled_out
from logitkit.languages.language_writer import LanguageWriter
from logitkit.limits import UNBOUNDED
from logitkit.patterns.construction import concatenate
from logitkit.patterns.syntax import Alternate, Graph, Node
from logitkit.tools.alike_tools import alike_tools, common_beginning, lengths_of_common_beginnings
from logitkit.tools.call_language import arguments_language, marker, named_call
from logitkit.tools.call_order import CallOrder
from logitkit.tools.definitions import ToolDefinition
from logitkit.tools.formats import ToolFormat
from logitkit.tools.formats.call_ids import ID, NUMBER, pieces_of

__all__ = ["OrderedCalls"]

# The characters with which a rule may end.
ENDS = '"}])>'


@dataclass(frozen=True)
class OrderedCalls(Language):
    """One or more calls in an order that is allowed, with a text between two of them and a text after the last.

    Args:
        tools: The tools that may be called.
        form: The format.
        order: Which calls there may be.
        rest: The number of characters of the beginning of each call that are left out.
        between: The text between two calls; None: there is at most one.
        end: The text after the last one.
    """

    tools: tuple[ToolDefinition, ...]
    form: ToolFormat
    order: CallOrder
    rest: int
    between: Language | None
    end: Language

    @cached_property
    def parts(self) -> tuple[Language, ...]:
        """The languages that it is built from."""
        others = () if self.between is None else (self.between,)
        return (self._call([tool.name for tool in self.tools]), *others, self.end)

    @cached_property
    def _named(self) -> dict[tuple[str, str], Language]:
        """The calls from the names of their tools on, by the name and what follows it."""
        return {
            (tool.name, name_end): named_call(tool, self.form, name_end)
            for tool in self.tools
            for _, name_end in self.form.heads
        }

    def _call(self, names: Sequence[str]) -> Language:
        """Return the language of a call of one of some tools."""
        ways = (
            sequence(marker(self.form, begin[self.rest :]), either(*(self._named[name, end] for name in names)))
            for begin, end in self.form.heads
        )
        return sequence(either(*ways), marker(self.form, self.form.call_end))

    def paths(self) -> tuple[list[list[tuple[Language, int]]], tuple[int, ...]]:
        """Return the order of the parts: for each state, parts and the state after each; and the states in which it may end."""
        states = self.order.states([tool.name for tool in self.tools], UNBOUNDED)
        count = len(states.moves)
        rows = [[(self._call(names), count + target) for target, names in row.items()] for row in states.moves]
        for row, may_end in zip(states.moves, states.may_end, strict=True):
            again = [(self.between, len(rows) - count)] if row and self.between is not None else []
            rows.append([*([(self.end, 2 * count)] if may_end else []), *again])
        return [*rows, []], (2 * count,)

    def tree(self, writer: LanguageWriter) -> Node:
        """Return the syntax tree.

        Raises:
            PatternTooLarge: There are too many states of the order.
        """
        return _OrderTree(self, writer).tree()


class _Tail(NamedTuple):
    """The rest of the calls of some alike tools from some character of their names on.

    Args:
        names: The names.
        begun: The characters of the names before it.
        tree: The rest, up to the part of `call_end` with which rules end.
    """

    names: tuple[str, ...]
    begun: str
    tree: Node


class _OrderTree:
    """Writes the tree of some calls."""

    def __init__(self, calls: OrderedCalls, writer: LanguageWriter) -> None:
        self.calls, self.form, self.writer = calls, calls.form, writer
        self.names = [tool.name for tool in calls.tools]
        # First of all, as there may be too many.
        self.states = calls.order.states(self.names, writer.limits)
        self.arguments = {tool.name: arguments_language(tool, self.form).tree(writer) for tool in calls.tools}
        # The part of the text after the arguments that belongs to the rule of a call; None: calls cannot be rules.
        # Where a byte is not a token, or the bytes of the whole language are asked for, it must be known what follows a call.
        # Grammars know that of all rules.
        called = writer.options.longest > 0 or not writer.options.fragments
        cut = self._cut() if called else None
        self.has_rules, self.inside = cut is not None, self.form.call_end if cut is None else cut
        self.after = self._text(self.form.call_end.removeprefix(self.inside))
        self._groups: dict[tuple[str, ...], Node] = {}
        self.tails: dict[str, list[_Tail]] = {}
        self.moves: list[list[tuple[Node, int]]] = []

    def _text(self, text: str) -> Node:
        return marker(self.form, text).tree(self.writer)

    def _cut(self) -> str | None:
        """Return the part of `call_end` with which the rule of a call ends; None: it cannot end anywhere."""
        form = self.form
        if form.arguments.startswith("json"):
            return ""
        first = (pieces_of(form.call_end) or [""])[0]
        stop = next((at for at, character in enumerate(first) if character in ENDS), None)
        if stop is None or first in (ID, NUMBER):
            return None
        found = first[: stop + 1]
        # Nothing may go on after the end of a rule, as another argument would.
        before = form.parameter_begin.partition("{name}")[0]
        others = [form.parameter_separator + before, before]
        goes_on = any(found.startswith(text) or text.startswith(found) for text in others if text)
        if goes_on or (not before and (form.arguments != "python" or found[0].isidentifier())):
            return None
        return None if self._has_special(form.call_end, stop + 1) else found

    def _has_special(self, text: str, stop: int) -> bool:
        """Whether a special token begins in the first characters of a text."""
        named = any(begin < stop for begin, _ in self.writer.names_in(text))
        return named or any(0 <= text.find(token) < stop for token in self.form.tokens)

    def tree(self) -> Node:
        """Return the tree."""
        states = self.states
        opening = self._opening()
        is_needed = opening is None or any(len(row) > 1 for row in states.moves)
        ends = dict.fromkeys(end for _, end in self.form.heads)
        alike = alike_tools(states, self.names) if is_needed else None
        # For each text after names, the calls from there on.
        self.tails = {end: self._tails(end, alike) for end in ends}
        groups = Counter(tuple(names) for row in states.moves if len(row) == 1 for names in row.values())
        count = len(states.moves)
        # A state before each call, one in which the text after its arguments is left, one after it, and the end.
        self.moves = [[] for _ in range(3 * count + 1)]
        for number, row in enumerate(states.moves):
            target, names = next(((target, tuple(names)) for target, names in row.items()), (0, ()))
            if opening is not None and len(row) == 1 and (not is_needed or groups[names] > 1):
                self.moves[number].append((self._group(opening, names), count + target))
            elif row:
                targets = {name: count + target for target, names in row.items() for name in names}
                self._add_names(number, targets)
        self._add_ends()
        accepting = tuple(state == 3 * count for state in range(len(self.moves)))
        return Graph(tuple(map(tuple, self.moves)), accepting)

    def _add_ends(self) -> None:
        """Add the moves after the calls."""
        count = len(self.states.moves)
        end = self.calls.end.tree(self.writer)
        again = None if self.calls.between is None else self.calls.between.tree(self.writer)
        for number, (row, may_end) in enumerate(zip(*self.states, strict=True)):
            self.moves[count + number].append((self.after, 2 * count + number))
            if row and again is not None:
                self.moves[2 * count + number].append((again, number))
            if may_end:
                self.moves[2 * count + number].append((end, 3 * count))

    def _rest(self, name: str, name_end: str, begun: int = 0) -> Node:
        """Return the tree of a call after some characters of its name, up to where rules end."""
        text = self.form.named(name, name_end)[begun:]
        return concatenate([self._text(text), self.arguments[name], self._text(self.inside)])

    def _tails(self, name_end: str, alike: dict[str, int] | None) -> list[_Tail]:
        """Return the calls from their names on, in the order of these.

        Args:
            name_end: The text after names.
            alike: For each tool, what it has in common with those that are like it; None: no names have to be distinguished.
        """
        if alike is None or not self.has_rules:
            return [_Tail((name,), "", self._rest(name, name_end)) for name in self.names]
        words = {name: name + self._first_character(name_end) for name in self.names}
        written_out, called = [], dict[str, list[str]]()
        for name, size in lengths_of_common_beginnings(words, alike).items():
            # Without a character of its own, or with a special token in its name, a call is written out.
            if size == len(words[name]) or self._has_special(self.form.named(name, name_end), size + 1):
                written_out.append(_Tail((name,), "", self._rest(name, name_end)))
            else:
                called.setdefault(words[name][: size + 1], []).append(name)
        rules = []
        for begun, names in called.items():
            bodies = [self._rest(name, name_end, len(begun)) for name in names]
            rules.append(_Tail((*names,), begun[:-1], self.writer.rule(begun[-1], _one_of(bodies))))
        return [*written_out, *rules]

    def _first_character(self, name_end: str) -> str:
        """Return the character that follows a name; "" if it may be one of several, or a token."""
        first = (pieces_of(name_end) or [""])[0]
        return "" if first in (ID, NUMBER) else first[:1]

    def _opening(self) -> str | None:
        """Return the first character of all calls; None: they have none in common, or rules cannot begin with it."""
        begins = [begin[self.calls.rest :] for begin, _ in self.form.heads]
        firsts = {begin[:1] for begin in begins}
        if not self.has_rules or len(firsts) > 1 or "" in firsts:
            return None
        fixed = all(not self._has_special(begin, 1) and pieces_of(begin)[0] not in (ID, NUMBER) for begin in begins)
        return firsts.pop() if fixed else None

    def _group(self, opening: str, names: tuple[str, ...]) -> Node:
        """Return the tree of a call of one of some tools, up to where rules end."""
        known = self._groups.get(names)
        if known is None:
            inside, ways = {*names}, []
            for begin, end in self.form.heads:
                tails = [tail for tail in self.tails[end] if tail.names[0] in inside]
                calls = _one_of([concatenate([*spelled_out(tail.begun), tail.tree]) for tail in tails])
                ways.append(concatenate([self._text(begin[self.calls.rest + 1 :]), calls]))
            known = self._groups[names] = self.writer.rule(opening, _one_of(ways))
        return known

    def _add_names(self, number: int, targets: dict[str, int]) -> None:
        """Add the moves that read the beginning of a call and then a name, to the states after each tool."""
        for begin, name_end in self.form.heads:
            tails = [tail for tail in self.tails[name_end] if tail.names[0] in targets]
            todo = [(self._state(number, self._text(begin[self.calls.rest :])), "", tails)]
            for state, read, left in todo:
                longer: dict[str, list[_Tail]] = {}
                for tail in left:
                    if len(tail.begun) == len(read):
                        self.moves[state].append((tail.tree, targets[tail.names[0]]))
                    else:
                        longer.setdefault(tail.begun[len(read)], []).append(tail)
                for group in longer.values():
                    shared = common_beginning([tail.begun for tail in group])
                    todo.append((self._state(state, concatenate(spelled_out(shared[len(read) :]))), shared, group))

    def _state(self, before: int, label: Node) -> int:
        """Add a state, and the move that leads to it."""
        self.moves.append([])
        self.moves[before].append((label, len(self.moves) - 1))
        return len(self.moves) - 1


def _one_of(options: list[Node]) -> Node:
    return Alternate(tuple(options)) if len(options) > 1 else options[0]
