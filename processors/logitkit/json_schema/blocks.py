"""Long runs of items or members: blocks of them are called, in place of each being written out.

Of an array of up to 1,000 items, the first is written, then a comma calls a block of 273 items; that is written as one item and
a comma that calls a block of 16; and so on. So a bound costs a few dozen items for each factor of 17, and the frames on the
stack say how many items there are:

    [ item , ------ block of 273 ------ , item , ...
             item , block of 16 , item , ...

A call begins with the comma before its first item. It ends with the comma after its last one, if the run goes on, or with the
closing bracket after any of them, if the run may end there: these are two definitions, which are told apart by how they end.

Where only some items are counted, as for `contains`, any number of others may come before each of the items of a block.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from logitkit.json_schema.layout import Layout, literal
from logitkit.json_schema.plan import Block, ItemRun, Move, Plan
from logitkit.patterns.syntax import Empty

__all__ = ["LARGE_COUNT", "LARGE_COUNT_CLOSING", "block_plan", "call_block", "run_of"]

# Bounds up to this are written out: that costs little, and needs no stack. So are larger ones where texts must be completed
# within a number of tokens, because a token that ends a block and says more is not counted on.
LARGE_COUNT = 48
LARGE_COUNT_CLOSING = 200

# The smallest block, and how many of it the next larger one calls; there is an item beside each.
ITEMS = 16


def run_of(items: tuple[Move, ...], layout: Layout, closing: str, uncounted: tuple[Move, ...] = ()) -> ItemRun:
    """Return a run of items, each of which is one of some moves from state 0, perhaps among others that do not count."""
    return ItemRun(items, layout.gap, layout.closing[closing], uncounted)


def call_block(
    plan: Plan, source: int, run: ItemRun, room: int, may_end: bool, after: Callable[[int], int], end: int
) -> bool:
    """Add the moves that call the largest block of a run that fits, and return whether one does.

    Args:
        plan: Where to add them.
        source: The state behind an item.
        run: The items.
        room: How many items may follow, at most. At least one follows a block.
        may_end: Whether the run may end behind each of the block's items.
        after: Returns the state in which the next item comes, behind some number of items.
        end: The state behind the closing bracket.
    """
    if room <= ITEMS:
        return False
    size = ITEMS
    while (larger := ITEMS * (size + 1) + 1) < room:
        size = larger
    called = plan.state(("called", source))
    plan.move(source, Empty(), Block(run, size, False), called)
    plan.move(called, run.gap, None, after(size))
    if may_end:
        plan.move(source, Empty(), Block(run, size, True), end)
    return True


def block_plan(block: Block) -> Plan:
    """Return the graph of what follows the comma that calls a block."""
    run, size, ends = block
    plan = Plan()
    start, plan.end = plan.state("start"), plan.state("end")
    todo: list[tuple[str, int]] = []

    def state(kind: str, count: int) -> int:
        if plan.is_new((kind, count)):
            todo.append((kind, count))
        return plan.state((kind, count))

    def next_item(count: int, more: int) -> int:
        return state("next", count + more)

    plan.move(start, run.gap, None, state("next", 0))
    while todo:
        kind, count = todo.pop()
        source = plan.state((kind, count))
        if kind == "next":
            for moves, after in ((run.items, count + 1), (run.uncounted, count)):
                for move in moves:
                    plan.move(source, move.text, move.value, state("behind", after), move.names)
            continue
        if ends:
            plan.move(source, run.closing, None, plan.end)
        if count == size:
            if not ends:
                plan.move(source, literal(","), None, plan.end)
        elif not call_block(plan, source, run, size - count, ends, partial(next_item, count), plan.end):
            comma = plan.state(("comma", count))
            plan.move(source, literal(","), None, comma)
            plan.move(comma, run.gap, None, state("next", count))
    return plan
