"""Functions of kernels: where tokens lead a row, and which classes of tokens are legal there.

A row is a state and a stack of frames. A function looks up one class, or a block of classes, in one row. A block goes through the
tables in step: a loop runs as long as one of its lanes needs it, and changes nothing for the others. So no result depends on the
order in which threads or programs run.

The columns of the tables are those of `Records`. Numbers have 32 bits, as in most tables, but for states and token ids.
"""

from __future__ import annotations

from logitkit.compiler.bytes import byte_dfa
from logitkit.compiler.tokens.tables import mask_key, token_table
from logitkit.kernels import records
from logitkit.kernels.codes import action_of, count_of, state_of, with_count
from logitkit.kernels.language import constant, device_function, tl

__all__ = ["advance", "is_current", "is_legal"]

DEAD, FINISHED, FIRST_STATE = map(constant, (byte_dfa.DEAD, byte_dfa.FINISHED, byte_dfa.FIRST_STATE))
STAY, NO_LIMIT, ILLEGAL = map(constant, (token_table.STAY, mask_key.NO_LIMIT, mask_key.ILLEGAL))
PUSHED = constant(records.FIRST_PUSHED)
# The widths of records, and their columns.
SLOT, ROW = map(constant, (len(records.SLOT_FIELDS), len(records.ROW_FIELDS)))
GENERATION, FIRST_ROW, CLASSES, MAX_DEPTH, FIRST_BLOCK = map(constant, range(len(records.SLOT_FIELDS)))
START, END, FALLBACK, COST = map(constant, range(len(records.ROW_FIELDS)))
AFTER, REST, HEIGHT, ACTION_COST, LOW, HIGH, KEPT, ADDED = map(constant, range(len(records.ACTION_FIELDS)))


@device_function
def is_current(tables, slot_count, slot, generation):
    """Return whether the automaton of a state is still in its slot, which a state of another registry may lack."""
    exists = (slot >= 0) & (slot < slot_count)
    return exists & (tl.load(tables.slots + slot * SLOT + GENERATION, mask=exists, other=0) == generation)


@device_function
def some(condition, BLOCK: tl.constexpr):
    """Return whether a condition holds, in some lane if it is a block."""
    if BLOCK:
        return tl.max(condition.to(tl.int32), 0) > 0
    else:  # noqa: RET505 - the compiler must not see the other branch
        return condition


@device_function
def listed(tables, row, symbol):
    """Return the targets that a row lists for classes, and whether it lists them: a binary search.

    Args:
        tables: The records of the registry.
        row: The number of the row.
        symbol: A class, or [K] classes.
    """
    begin = tl.load(tables.rows + row * ROW + START)
    length = tl.load(tables.rows + row * ROW + END) - begin
    found, at = length > 0, begin + symbol * 0
    # The pair is among `length` ones from `at` on, if it is in the row.
    while length > 1:
        half = length // 2
        at = tl.where(tl.load(tables.pairs + 2 * (at + half - 1)) < symbol, at + half, at)
        length -= half
    # An empty row reads the next pair, which exists.
    return tl.load(tables.pairs + 2 * at + 1), found & (tl.load(tables.pairs + 2 * at) == symbol)


@device_function
def looked_up(tables, defaults, row, symbol, BLOCK: tl.constexpr):
    """Return the targets of classes, and whether a row lists them, or one that it falls back to.

    Args:
        tables: The records of the registry.
        defaults: Pointer to the default targets of the slot.
        row: The row of a state.
        symbol: A class, or [K] classes.
        BLOCK: Whether these are a block.
    """
    target, found = listed(tables, row, symbol)
    lower = tl.load(tables.rows + row * ROW + FALLBACK)
    while (lower != row) & some(~found, BLOCK):
        below, lists = listed(tables, lower, symbol)
        target = tl.where(found, target, below)
        found = found | lists
        row = lower
        lower = tl.load(tables.rows + row * ROW + FALLBACK)
    return tl.where(found, target, tl.load(defaults + symbol)), found


@device_function
def followed(tables, action_width, first, most, first_block, target, count, stack, below, BLOCK: tl.constexpr):
    """Follow targets that are actions through the frames that they pop.

    By hand: with the frames 40 and 41 on the stack, innermost last, the token `]],` leads to an action that pops a frame and has
    the rest `],`. The row of frame 41 lists the class of that rest, with an action that pops again and has the rest `,`. The row
    of frame 40 lists this class with a state: the result, after two frames.

    A lane that does not pop in a round never pops again, so all lanes that pop in a round pop the same frame.

    Args:
        tables: The records of the registry.
        action_width: The number of columns of an action.
        first: The first row of the slot.
        most: The most frames that a row may have, those of blocks not counted.
        first_block: The frame with which those of blocks begin.
        target: A target, or [K] targets.
        count: The count of the state.
        stack: [D] the frames of the row.
        below: The tokens needed to finish after all frames are popped.
        BLOCK: Whether the targets are a block.

    Returns:
        The targets; pointers to the records of those that are actions; whether these push; how many frames were popped; the
        tokens needed after the frames that are left.
    """
    nests = ((stack > 0) & (stack < first_block)).to(tl.int32)
    depth = tl.sum((stack > 0).to(tl.int32), 0)
    popped, nested, below = target * 0, target * 0 + tl.sum(nests, 0), target * 0 + below
    outside, which = action_of(target)
    record = tables.actions + which * action_width
    miscounted = (count < tl.load(record + LOW)) | (count > tl.load(record + HIGH))
    target = tl.where(outside & miscounted, DEAD, target)
    again = depth > 0
    while again:
        outside, which = action_of(target)
        record = tables.actions + which * action_width
        rest = tl.load(record + REST)
        pops = outside & (rest > 0) & (nested + tl.load(record + HEIGHT) <= most)
        depth -= 1
        innermost = tl.arange(0, stack.shape[0]) == depth
        frame = tl.sum(tl.where(innermost, stack, 0), 0)
        after, found = listed(tables, first + frame, rest)
        # A rest that the frame does not list is illegal: that is the default of rests.
        target = tl.where(pops, tl.where(found, after, DEAD), target)
        popped += tl.where(pops, 1, 0)
        below -= tl.where(pops, tl.load(tables.rows + (first + frame) * ROW + COST), 0)
        nested -= tl.where(pops, tl.sum(tl.where(innermost, nests, 0), 0), 0)
        again = (depth > 0) & some(pops, BLOCK)
    outside, which = action_of(target)
    record = tables.actions + which * action_width
    pushes = outside & (tl.load(record + REST) == 0) & (nested + tl.load(record + HEIGHT) <= most)
    return target, record, pushes, popped, below


@device_function
def advance(tables, size, class_width, action_width, slot, state, stack, token, DEPTH: tl.constexpr):
    """Return the state and the stack of a live row after a token.

    Args:
        tables: The records of the registry.
        size: The number of ids of the vocabulary.
        class_width: The number of columns of `tables.default`.
        action_width: The number of columns of an action.
        slot: The slot of the automaton.
        state: int64, the state with its count.
        stack: [DEPTH] frames, if there is room for any.
        token: A token id, which is not -1.
        DEPTH: The room for frames; 0 if states say everything.
    """
    at = state_of(state)
    record = tables.slots + slot * SLOT
    first = tl.load(record + FIRST_ROW).to(tl.int32)
    known = (token >= 0) & (token < size)
    symbol = tl.load(tables.class_of + slot * size + token, mask=known, other=0).to(tl.int32)
    target, _ = looked_up(tables, tables.default + slot * class_width, first + at, symbol, False)
    target = tl.where(known, tl.where(target == STAY, at, target), DEAD)
    after = target.to(tl.int64)
    if DEPTH > 0:
        most, first_block = tl.load(record + MAX_DEPTH).to(tl.int32), tl.load(record + FIRST_BLOCK).to(tl.int32)
        count = count_of(state)
        target, action, pushes, popped, _ = followed(
            tables, action_width, first, most, first_block, target, count, stack, 0, False
        )
        counted = tl.load(action + KEPT) * tl.where(popped > 0, 0, count) + tl.load(action + ADDED)
        reached = with_count(tl.load(action + AFTER), counted)
        outside, _ = action_of(target)
        after = tl.where(outside, tl.where(pushes, reached, DEAD), target)
        depth, lane = tl.sum((stack > 0).to(tl.int32), 0) - popped, tl.arange(0, DEPTH)
        pushing = pushes & (lane >= depth) & (lane < depth + action_width - PUSHED)
        pushed = tl.load(action + PUSHED + lane - depth, mask=pushing, other=0)
        stack = tl.where(after == DEAD, 0, tl.where(lane < depth, stack, pushed))
    return after, stack


@device_function
def is_legal(tables, class_width, action_width, slot, state, stack, left, symbol, DEPTH: tl.constexpr):
    """Return whether classes are legal in a live row, and fit into the tokens that it has left: [K].

    A class fits if fewer tokens are needed after it than are left. A row that has fewer left than it needs gets as many as it
    needs, so that it can finish.

    Args:
        tables: The records of the registry.
        class_width: The number of columns of `tables.default`.
        action_width: The number of columns of an action.
        slot: The slot of the automaton.
        state: int64, the state with its count.
        stack: [DEPTH] frames, if there is room for any.
        left: int64, the number of tokens left, or `NO_LIMIT`.
        symbol: [K] classes.
        DEPTH: The room for frames; 0 if states say everything.
    """
    at = state_of(state)
    record = tables.slots + slot * SLOT
    first = tl.load(record + FIRST_ROW).to(tl.int32)
    target, found = looked_up(tables, tables.default + slot * class_width, first + at, symbol, True)
    legal = target != DEAD
    if DEPTH > 0:
        most, first_block = tl.load(record + MAX_DEPTH).to(tl.int32), tl.load(record + FIRST_BLOCK).to(tl.int32)
        count = count_of(state)
        costs = tables.rows + first * ROW + COST
        below = tl.sum(tl.load(costs + stack * ROW, mask=stack > 0, other=0), 0)
        needed = below + tl.load(costs + at * ROW)
        limit = tl.where(left == NO_LIMIT, ILLEGAL, tl.minimum(tl.maximum(left, needed), ILLEGAL)).to(tl.int32) - 1
        target, action, pushes, _, after = followed(
            tables, action_width, first, most, first_block, target, count, stack, below, True
        )
        outside, _ = action_of(target)
        legal = tl.where(outside, pushes, target != DEAD)
        cost = tl.load(costs + tl.where(outside, 0, tl.maximum(target, 0)) * ROW) + tl.where(found, after, 0)
        cost = tl.where(outside, tl.load(action + ACTION_COST) + after, cost)
        # To end is always possible where it is legal.
        cost = tl.where(found & (target == FINISHED), -1, tl.where(target == STAY, needed, cost))
        legal = legal & (cost <= limit)
    return legal
