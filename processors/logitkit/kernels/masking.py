"""Functions of kernels: mask one row of logits in place.

A row of logits belongs to a few programs, its *parts*, which take its blocks of columns in turns. Each part computes by itself
which classes are legal, which takes less time than a second launch. Then it masks its own columns. It reads and writes no
others.

By hand: the tokens `a`, `b`, `aa` and EOS have the classes 0, 1, 0 and 2, and only class 0 is legal. So `legal` is 1, 0, 0. The
part that has these columns reads the logits of `a` and `aa`, and sets those of `b` and EOS to -inf without reading them. If
both that it read are -inf, and no other part keeps any, the part that comes last sets EOS to 0, so that the row ends.
"""

from __future__ import annotations

from logitkit.kernels.automaton import CLASSES, FINISHED, FIRST_STATE, SLOT, is_legal
from logitkit.kernels.language import constant, device_function, tl

__all__ = ["ALL_ENDS", "EOS_ALONE", "NO_ENDS", "legal_bytes", "mask_row", "mask_state"]

# Which of the ids in `Records.ends` a row may emit, besides those of legal classes.
NO_ENDS, EOS_ALONE, ALL_ENDS = map(constant, range(3))

# A part adds this to the arrivals of its row if it has kept a token. A row has fewer parts.
SOME = constant(2**16)


@device_function
def place_of(logits, column_stride, begin, lane, CONTIGUOUS: tl.constexpr):
    """Return pointers to the columns `begin + lane` of a row."""
    # Where columns are contiguous, the part that all threads share comes first: so the pointers differ by constants.
    if CONTIGUOUS:
        return logits + begin + lane
    else:  # noqa: RET505 - the compiler must not see the other branch
        return logits + (begin + lane).to(tl.int64) * column_stride


@device_function
def drop(logits, column_stride, begin, lane, x, inside, CONTIGUOUS: tl.constexpr):
    """Set columns to -inf where `x`, what is to stay of them, is -inf or NaN, and return `x` with at least 32 bits."""
    # An exact conversion, because some devices do not compare numbers of 16 bits.
    wide = x.to(tl.float32) if x.dtype.primitive_bitwidth == 16 else x
    never = float("-inf")
    tl.store(place_of(logits, column_stride, begin, lane, CONTIGUOUS), never, mask=inside & ~(wide > never))
    return wide


@device_function
def mask_block(
    class_of, size, legal, logits, width, column_stride, begin, most,
    WHOLE: tl.constexpr, CONTIGUOUS: tl.constexpr, STRIP: tl.constexpr, STRIPS: tl.constexpr,
):  # fmt: skip
    """Mask a block of columns of a live row; return the greatest of the logits that it kept and of those in `most`.

    Only logits that may stay are read, and only those that go are written.

    Args:
        class_of: Pointer to the classes of tokens.
        begin: The first column.
        most: [STRIP].
        WHOLE: Whether all columns are ids of the vocabulary, so that none needs to be checked.
        STRIP: The number of columns in a strip; a block has a few of them, which each thread works on at once.
    """
    # One column for each thread, then the next one for each: with neighbours in one thread, a load or store of some of them would
    # reach over several times as much memory as it needs.
    lane = tl.max_contiguous(tl.arange(0, STRIP), [1])
    found = ()
    for strip in tl.static_range(0, STRIPS * STRIP, STRIP):
        known = (begin + strip + lane < size) | WHOLE
        symbol = tl.load(class_of + begin + strip + lane, mask=known, other=0).to(tl.uint32)
        kept = tl.load(legal + symbol, mask=known, other=0) > 0
        here = place_of(logits, column_stride, begin + strip, lane, CONTIGUOUS)
        loaded = tl.load(here, mask=kept, other=float("-inf"))
        found = found + (loaded,)  # type: ignore[assignment]  # noqa: RUF005 - Triton has no unpacking
    for i in tl.static_range(STRIPS):
        inside = (begin + i * STRIP + lane < width) | WHOLE
        x = drop(logits, column_stride, begin + i * STRIP, lane, found[i], inside, CONTIGUOUS)
        most = tl.maximum(most, x)
    return most


@device_function
def end_block(
    tables, ends, kept_ends, logits, width, column_stride, begin, most, CONTIGUOUS: tl.constexpr, STRIP: tl.constexpr
):
    """Mask a strip of columns of a row that may emit nothing but some ends; see `mask_block`."""
    lane = tl.max_contiguous(tl.arange(0, STRIP), [1])
    kept = lane < 0
    for i in range(ends):
        token, is_eos = tl.load(tables.ends + 2 * i), tl.load(tables.ends + 2 * i + 1)
        kept = kept | ((begin + lane == token) & (kept_ends + is_eos > 1))
    x = tl.load(place_of(logits, column_stride, begin, lane, CONTIGUOUS), mask=kept, other=float("-inf"))
    return tl.maximum(most, drop(logits, column_stride, begin, lane, x, begin + lane < width, CONTIGUOUS))


@device_function
def mask_row(
    tables, size, ends, slot, legal, live, kept_ends, logits, width, column_stride, arrivals, part, parts,
    CONTIGUOUS: tl.constexpr, STRIP: tl.constexpr, STRIPS: tl.constexpr,
):  # fmt: skip
    """Set the logits of a row to -inf, but for those of legal classes or of ends; a row without any left gets EOS at 0.

    Args:
        tables: The records of the registry.
        size: The number of ids of the vocabulary; later columns go.
        ends: The number of rows in `tables.ends`.
        slot: The slot of the automaton.
        legal: Pointer to a byte for each class, which all threads of the program can read: 1 if it is legal.
        live: Whether classes are legal. If not, `legal` is not read, and `kept_ends` counts.
        kept_ends: `NO_ENDS`, `EOS_ALONE` or `ALL_ENDS`.
        logits: Pointer to the row.
        width: The number of columns.
        column_stride: How far one column is from the next.
        arrivals: Pointer to a number that is 0 before the launch, unless the row has one part.
        part: The number of this part.
        parts: The number of parts.
        CONTIGUOUS: Whether `column_stride` is 1.
        STRIP: The number of columns in a strip.
        STRIPS: The number of strips in a block.
    """
    class_of = tables.class_of + slot * size
    most = tl.full([STRIP], float("-inf"), tl.float64 if logits.dtype.element_ty == tl.float64 else tl.float32)
    if live:
        BLOCK: tl.constexpr = STRIP * STRIPS
        for begin in range(part * BLOCK, width, parts * BLOCK):
            if begin + BLOCK <= size:
                most = mask_block(
                    class_of, size, legal, logits, width, column_stride, begin, most, True, CONTIGUOUS, STRIP, STRIPS
                )
            else:
                most = mask_block(
                    class_of, size, legal, logits, width, column_stride, begin, most, False, CONTIGUOUS, STRIP, STRIPS
                )
    else:
        for begin in range(part * STRIP, width, parts * STRIP):
            most = end_block(tables, ends, kept_ends, logits, width, column_stride, begin, most, CONTIGUOUS, STRIP)
    some = tl.max(most, 0) > float("-inf")
    # All threads have written before this part says that it has arrived.
    tl.debug_barrier()
    arrived = 1 + tl.where(some, SOME, 0)
    if parts > 1:
        # The part that comes last sees the sum of all, which does not depend on the order. The others wrote their logits before
        # they arrived, so before the last one writes EOS: that is the meaning of acquire and release.
        arrived += tl.atomic_add(arrivals, arrived, sem="acq_rel")
    # All parts are here, and none has kept a token.
    if arrived == parts:
        for i in range(ends):
            token, is_eos = tl.load(tables.ends + 2 * i), tl.load(tables.ends + 2 * i + 1)
            place = token if CONTIGUOUS else token * column_stride
            tl.store(logits + place, 0.0, mask=is_eos == 1)


@device_function
def legal_bytes(scratch, row, part, parts, class_width):
    """Return where a part of a row has room for a byte for each class: after the numbers of arrivals of all rows."""
    return (scratch + tl.num_programs(0)).to(tl.pointer_type(tl.int8)) + (row * parts + part) * class_width


@device_function
def mask_state(
    tables, size, class_width, action_width, ends, slot, state, stack, left, logits, width, column_stride, scratch, row,
    part, parts,
    DEPTH: tl.constexpr, CONTIGUOUS: tl.constexpr, LANES: tl.constexpr, STRIP: tl.constexpr, STRIPS: tl.constexpr,
):  # fmt: skip
    """Set the logits of a row to -inf, but for those of tokens that are legal in a state; see `is_legal` and `mask_row`.

    Args:
        state: int64: the state, which may be dead or finished.
        scratch: Pointer to the numbers of arrivals, then the bytes of `legal_bytes`.
        row: The number of the row.
        LANES: The number of classes at a time.
    """
    legal = legal_bytes(scratch, row, part, parts, class_width)
    if state >= FIRST_STATE:
        classes = tl.load(tables.slots + slot * SLOT + CLASSES).to(tl.int32)
        for begin in range(0, classes, LANES):
            # Past the end, threads repeat the last class.
            symbol = tl.minimum(begin + tl.arange(0, LANES), classes - 1)
            found = is_legal(tables, class_width, action_width, slot, state, stack, left, symbol, DEPTH)
            tl.store(legal + symbol, found.to(tl.int8))
        # From here on, threads read what others have written.
        tl.debug_barrier()
    mask_row(
        tables, size, ends, slot, legal, state >= FIRST_STATE, tl.where(state == FINISHED, ALL_ENDS, NO_ENDS),
        logits, width, column_stride, scratch + row, part, parts, CONTIGUOUS, STRIP, STRIPS,
    )  # fmt: skip
