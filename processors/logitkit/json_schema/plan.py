"""How objects and arrays are written: graphs whose edges read a text and then a value that is not worked out yet."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from logitkit.budget import spend
from logitkit.errors import UnsupportedSchema
from logitkit.json_schema.conjunction import Conjunction
from logitkit.json_schema.string_set import StringSet, without
from logitkit.patterns.syntax import Empty, Node

# The form of an item: a fixed text, or a value that satisfies a conjunction.
Item: TypeAlias = "tuple[Node, Conjunction | None]"

# Moves of one graph.
MOST_MOVES = 100_000
# The costs of finding and of writing each.
MOVE_STEPS = 35


def too_many() -> UnsupportedSchema:
    """Return the error for what has more moves; the pointer is the caller's to say."""
    return UnsupportedSchema("counting its members or items takes too many states; lower the bounds")


class Names(NamedTuple):
    """The JSON texts of a set of strings, without those of some of them.

    Args:
        strings: The set.
        excluded: Strings that are left out.
    """

    strings: StringSet
    excluded: tuple[str, ...] = ()

    def exact(self) -> StringSet:
        """Return the set without those that are left out."""
        return without(self.strings, self.excluded)


class ItemRun(NamedTuple):
    """Items of an array, or members of an object, of which one may come after another.

    A run is in a phase: how many items there are of each kind of which a few are asked for, as by `contains`.

    Args:
        counted: For each phase, what an item may be that counts: moves to phases.
        uncounted: For each phase, what an item may be that does not count.
        complete: Whether the run may end, in each phase.
        gap: The white space that may stand after a comma.
        closing: The closing bracket, with what may stand before it.
    """

    counted: tuple[tuple[Move, ...], ...]
    uncounted: tuple[tuple[Move, ...], ...]
    complete: tuple[bool, ...]
    gap: Node
    closing: Node


class Block(NamedTuple):
    """A part of a run, from the comma before its first item on.

    Args:
        run: The run.
        size: How many items it has.
        begin: The phase before it.
        end: The phase after it, in which it ends with the comma after the last item; None: it ends with the closing bracket
            after any of them, in a complete phase.
    """

    run: ItemRun
    size: int
    begin: int
    end: int | None


class Move(NamedTuple):
    """One edge: a name or another fixed text, or any of a set of names; a text; and after it a value.

    Args:
        text: The text.
        value: The conjunction that the value satisfies, or a block of items in place of a value; None: there is neither.
        target: Where the edge leads.
        names: The JSON text of a name, or of another string or `null`, `true` or `false`; or the set; None: there is none.
    """

    text: Node
    value: Conjunction | Block | None
    target: int
    names: Names | str | None = None


class DifferentMembers(NamedTuple):
    """Members that must be there and differ in name, where the moves of a graph only count them.

    By hand, for `{"a": A, "b": B}` in any order, where both are required: the moves read any two members. If no value satisfies
    B, the moves still read `"a"` twice, but a row that remembers names does not. So no object satisfies the schema.

    Args:
        least: How many must be there.
        once: The conjunction for the value of each that has one name.
        often: The conjunctions for the values of those with many names.
    """

    least: int
    once: tuple[Conjunction, ...]
    often: tuple[Conjunction, ...] = ()

    def are_enough(self, has_value: Callable[[Conjunction], bool]) -> bool:
        """Whether as many are possible as must be there, given whether some value satisfies a conjunction."""
        return any(map(has_value, self.often)) or sum(map(has_value, self.once)) >= self.least


@dataclass(eq=False, slots=True)
class Plan:
    """A graph under construction; state 0 is the start.

    Args:
        moves: The edges of each state.
        end: The accepting state, or -1 while there is none.
        todo: The names of states that `reach` has made, for whoever adds the moves after them.
        remembers: Whether a row must remember the names of members.
        has_same_names: Whether the same names are possible wherever a member may come.
        different: Members that must be there and differ in name, where the row only remembers that.
    """

    moves: list[list[Move]] = field(default_factory=list)
    end: int = -1
    todo: list[Any] = field(default_factory=list)
    remembers: bool = False
    has_same_names: bool = False
    different: tuple[DifferentMembers, ...] = ()
    _numbers: dict[Hashable, int] = field(default_factory=dict)
    _count: int = 0

    def state(self, name: Hashable) -> int:
        """Return the state of a name, made when it is first asked for."""
        found = self._numbers.setdefault(name, len(self.moves))
        if found == len(self.moves):
            self.moves.append([])
        return found

    def reach(self, name: Hashable) -> int:
        """Return the state of a name; if it is made for that, its name is still to do."""
        known = len(self.moves)
        found = self.state(name)
        if found == known:
            self.todo.append(name)
        return found

    def begin_with(self, label: str) -> None:
        """Let the graph, which never leads back to its start, begin with a label."""
        labelled = self.state("labelled")
        self.moves[0], self.moves[labelled] = [], self.moves[0]
        self.move(0, Empty(), None, labelled, label)

    def move(
        self,
        source: int,
        text: Node,
        value: Conjunction | Block | None,
        target: int,
        names: Names | str | None = None,
    ) -> None:
        """Add an edge.

        Raises:
            UnsupportedSchema: There are too many; the pointer is the caller's to say.
        """
        self._count += 1
        spend(MOVE_STEPS)
        if self._count > MOST_MOVES:
            raise too_many()
        self.moves[source].append(Move(text, value, target, names))
