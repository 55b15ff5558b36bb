"""Long runs of items or members: blocks of them are called, in place of each being written out.

Of an array of up to 1,000 items, the first is written, then a comma calls a block of 273 items; that is written as one item and
a comma that calls a block of 16; and so on. So a bound costs a few dozen items for each factor of 17, and the frames on the
stack say how many items there are:

    [ item , ------ block of 273 ------ , item , ...
             item , block of 16 , item , ...

A call begins with the comma before its first item. It ends with the comma after its last one, if the run goes on, or with the
closing bracket after any of them, if the run may end there: these are two definitions, which are told apart by how they end.

`contains` asks for a number of items of one kind. If it is large, only these items count, and any number of others may come
before each item of a block. If it is small, beside a large number of items, each number is a phase: then there is a definition
for each phase in which a block may begin and each in which it may end. With many phases, the items are written out.
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


def run_of(items: tuple[Move, ...], layout: Layout, closing: str) -> ItemRun:
    """Return a run of items, each of which is one of some moves from state 0 to itself."""
    return ItemRun((items,), ((),), (True,), layout.gap, layout.closing[closing])


def call_block(
    plan: Plan,
    source: int,
    run: ItemRun,
    room: int,
    may_end: bool,
    after: Callable[[int, int], int],
    end: int,
    phase: int = 0,
) -> bool:
    """Add the moves that call the largest block of a run that fits, and return whether one does.

    Args:
        plan: Where to add them.
        source: The state after an item.
        run: The items.
        room: How many items that count may follow, at most. At least one item follows a block.
        may_end: Whether the run may end after each of the block's items, if it is complete.
        after: Returns the state before the next item, given the number of items in the block and the phase after it.
        end: The state after the closing bracket.
        phase: The phase after the item.
    """
    if room <= ITEMS:
        return False
    size = ITEMS
    while (larger := ITEMS * (size + 1) + 1) < room:
        size = larger
    # A phase that no items lead to has a block without texts, which is left out later.
    for target in range(len(run.counted)):
        called = plan.state(("called", source, target))
        plan.move(source, Empty(), Block(run, size, phase, target), called)
        plan.move(called, run.gap, None, after(size, target))
    if may_end:
        plan.move(source, Empty(), Block(run, size, phase, None), end)
    return True


def block_plan(block: Block) -> Plan:
    """Return the graph of what follows the comma that calls a block."""
    run, size, begin, end = block
    plan = Plan()
    start, plan.end = plan.state("start"), plan.state("end")

    def next_item(count: int, more: int, phase: int) -> int:
        return plan.reach(("next", count + more, phase))

    plan.move(start, run.gap, None, plan.reach(("next", 0, begin)))
    while plan.todo:
        kind, count, phase = plan.todo.pop()
        source = plan.state((kind, count, phase))
        if kind == "next":
            for moves, after in ((run.counted[phase], count + 1), (run.uncounted[phase], count)):
                for move in moves:
                    plan.move(source, move.text, move.value, plan.reach(("after", after, move.target)), move.names)
            continue
        if end is None and run.complete[phase]:
            plan.move(source, run.closing, None, plan.end)
        if count == size:
            if phase == end:
                plan.move(source, literal(","), None, plan.end)
        elif not call_block(plan, source, run, size - count, end is None, partial(next_item, count), plan.end, phase):
            comma = plan.state(("comma", count, phase))
            plan.move(source, literal(","), None, comma)
            plan.move(comma, run.gap, None, plan.reach(("next", count, phase)))
    return plan
