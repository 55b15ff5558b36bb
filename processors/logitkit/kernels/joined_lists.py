"""Biases, bans and penalties that follow one another, in one launch, which also finds the best score for what comes after them.

Each program has some columns of a row. It goes through the lists of the row in the order of the processors, and changes those
logits that are in its columns. Then it reads all its columns for the best score.

By hand: `LogitBias({3: 1.0})` and `RepetitionPenalty(2)` after the token 3, for the logit 5. The program of column 3 adds, and
writes 6 in the dtype of the logits. Then it reads 6, divides and writes 3.

A list may not name an id twice, so no two threads change a logit at once, and no two programs have the same column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from logitkit.kernels.kernel import Argument, kernel
from logitkit.kernels.language import device_function, tl
from logitkit.kernels.listed_step import BAN, DIVIDE, Change, changed_logits, finite
from logitkit.kernels.row_sums import LogitRows, best_kernel, chunk_of, find_best

__all__ = ["MOST_LISTS", "TokenList", "change_lists"]

# How many lists a launch has room for.
MOST_LISTS = 4


@device_function
def change_list(
    ids, amounts, size, counted, strengths, row, logits, width, column_stride,
    CHANGE: tl.constexpr, MOST_FINITE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Change the logits of those ids that a row lists and that are columns of the program.

    Args:
        ids: [B, N] int32, none of them twice in a row; numbers that are not columns mean none.
        amounts: [B, N]; see `listed_kernel`.
        size: N.
        counted: [B] int64, how many ids each row has, of which the others mean none. None: N.
        strengths: [B], the penalty of each row.
        row: The number of the row.
        logits: Pointer to the row.
        CHANGE: The change; -1: there is no list.
    """
    if CHANGE >= 0:
        count, penalty = size, 0.0
        if counted is not None:
            count = tl.load(counted + row).to(tl.int32)
        if strengths is not None:
            penalty = tl.load(strengths + row).to(tl.float32)
            # The penalty that changes nothing.
            count = tl.where(penalty == (1.0 if CHANGE == DIVIDE else 0.0), 0, count)
        first, last = chunk_of(width, BLOCK)
        for begin in range(0, count, BLOCK):
            lane = begin + tl.arange(0, BLOCK)
            token = tl.load(ids + row * size + lane, mask=lane < count, other=-1)
            there = (token >= first) & (token < last)
            here = logits + token.to(tl.int64) * column_stride
            if CHANGE == BAN:
                tl.store(here, float("-inf"), mask=there)
            else:
                given = tl.load(here, mask=there, other=0.0).to(tl.float32)
                amount = 0.0
                if amounts is not None:
                    amount = tl.load(amounts + row * size + lane, mask=there, other=0)
                changed = changed_logits(given, penalty, amount, CHANGE)
                tl.store(here, finite(given, changed, logits.dtype.element_ty, MOST_FINITE), mask=there)
        # From here on, threads read what others have written.
        tl.debug_barrier()


@kernel
def lists_kernel(
    numbers, room: tl.int64,
    ids, amounts, size: tl.int32, counted, strengths,
    ids_2, amounts_2, size_2: tl.int32, counted_2, strengths_2,
    ids_3, amounts_3, size_3: tl.int32, counted_3, strengths_3,
    ids_4, amounts_4, size_4: tl.int32, counted_4, strengths_4,
    logits, width: tl.int32, row_stride: tl.int64, column_stride: tl.int64,
    CHANGE: tl.constexpr, CHANGE_2: tl.constexpr, CHANGE_3: tl.constexpr, CHANGE_4: tl.constexpr,
    FINDS_BEST: tl.constexpr, MOST_FINITE: tl.constexpr, CONTIGUOUS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Change the logits that the lists of each row name, and find the best score if a processor follows that needs it."""
    row = tl.program_id(0).to(tl.int64)
    own = logits + row * row_stride
    change_list(ids, amounts, size, counted, strengths, row, own, width, column_stride, CHANGE, MOST_FINITE, BLOCK)
    change_list(
        ids_2, amounts_2, size_2, counted_2, strengths_2, row, own, width, column_stride, CHANGE_2, MOST_FINITE, BLOCK
    )
    change_list(
        ids_3, amounts_3, size_3, counted_3, strengths_3, row, own, width, column_stride, CHANGE_3, MOST_FINITE, BLOCK
    )
    change_list(
        ids_4, amounts_4, size_4, counted_4, strengths_4, row, own, width, column_stride, CHANGE_4, MOST_FINITE, BLOCK
    )
    if FINDS_BEST:
        find_best(numbers + row * room, own, width, column_stride, CONTIGUOUS, BLOCK)


@dataclass(slots=True)
class TokenList:
    """A change of the logits of listed tokens, which says by itself which of the tensors there are, and their dtypes.

    Args:
        change: The change.
        ids: [B, N] int32, none of them twice in a row; numbers that are not columns mean none.
        amounts: [B, N]; see `listed_step`.
        counted: [B] int64, how many ids each row has, which come first; None: N.
        strength: [B], the penalty of each row, for penalties.
    """

    change: Change
    ids: Tensor
    amounts: Tensor | None = None
    counted: Tensor | None = None
    strength: Tensor | None = None

    def size(self, programs: int) -> int:
        """Return how many numbers it needs in memory for a row: none."""
        return 0

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """Its arguments of a kernel."""
        amounts, counted, strength = [
            None if part is None else part.contiguous() for part in (self.amounts, self.counted, self.strength)
        ]
        return self.ids.contiguous(), amounts, self.ids.shape[1], counted, strength


NO_LIST: tuple[Argument, ...] = (None, None, 0, None, None)


def change_lists(rows: LogitRows, lists: Sequence[TokenList], finds_best: bool) -> bool:
    """Change the logits of listed tokens, in place, by one launch.

    Args:
        rows: The rows.
        lists: The lists, in order: up to `MOST_LISTS`, or none.
        finds_best: Whether to leave the best scores afterwards in the memory of the rows.

    Returns:
        Whether it was done. If not, no kernel runs here, and nothing has happened.
    """
    # A request without a bias, for example.
    lists = [one for one in lists if one.ids.numel()]
    if not lists:
        return not finds_best or rows.launch(best_kernel)
    missing = MOST_LISTS - len(lists)
    arguments = [argument for one in lists for argument in one.arguments] + [*NO_LIST] * missing
    changes = [int(one.change) for one in lists] + [-1] * missing
    most = torch.finfo(rows.logits.dtype).max
    return rows.launch(lists_kernel, *arguments, constants=(*changes, int(finds_best), most))
