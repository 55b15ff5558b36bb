"""Processors that change rows of logits, one after another, in few launches: one goes on where the one before ends.

Most of them are a *stage*, which needs the best score of each row, and often a first pass: sums, or counts. On its own it takes
a launch for each. After another stage, the best score is known, and the launch that ends that stage does the first pass. Biases,
bans and penalties are lists of tokens. Those before a stage are changed by the launch that finds its best score.

By hand: `Temperature(0.7)`, `TopK(5)` and `MinP(0.1)` in float32 take 2, 5 and 3 launches, one by one. Together they take 6:

    the best score
    Temperature, which also counts first digits for TopK
    TopK: second digits
    TopK: third digits
    TopK: the cut, which also adds up probabilities for MinP
    MinP

Each launch does the operations of those that it replaces, in their order, and rounds where they store. So the results are the
same bits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor

from logitkit.kernels.first_pass import NOTHING_FOLLOWS, First, Follower
from logitkit.kernels.joined_lists import MOST_LISTS, TokenList, change_lists
from logitkit.kernels.row_sums import NUMBERS, LogitRows

__all__ = ["Stage", "run_stages"]


class Stage(ABC):
    """How kernels do what a processor does to whole rows of logits."""

    # Whether the next stage knows the best score, and the first column that has it.
    leaves_best: ClassVar[bool] = True
    leaves_column: ClassVar[bool] = True

    # Whether it needs the first column that has the best score.
    needs_column: ClassVar[bool] = False

    def size(self, programs: int) -> int:
        """Return how many numbers it needs in memory for a row that some programs share."""
        return NUMBERS

    def follower(self, rows: LogitRows) -> Follower:
        """Return its first pass, as the launch before does it; `rows` have its memory."""
        return Follower(First.BEST, rows.memory)

    @abstractmethod
    def launch(self, rows: LogitRows, begun: bool, following: Follower) -> bool:
        """Start its launches.

        Args:
            rows: The rows, with its memory, in which the best scores are.
            begun: Whether its first pass is done.
            following: The first pass that its last launch does too.

        Returns:
            Whether all were started. If not, the logits have not changed.
        """


def run_stages(stages: Sequence[Stage | TokenList], logits: Tensor) -> int:
    """Change rows of logits, in place, by one stage after another.

    Args:
        stages: At least one. Lists of tokens before a stage are changed in the launch that finds its best score.
        logits: [B, V] floating point.

    Returns:
        How many stages were done: the first ones. The others have changed nothing, because no kernel runs them here.
    """
    each = LogitRows.of(logits, lambda programs: [stage.size(programs) for stage in stages])
    lists: list[TokenList] = []
    done, begun = 0, False
    for number, (stage, rows) in enumerate(zip(stages, each, strict=False)):
        after = stages[number + 1] if number + 1 < len(stages) else None
        if isinstance(stage, TokenList):
            lists.append(stage)
            is_last = after is None or (isinstance(after, TokenList) and len(lists) == MOST_LISTS)
            if is_last and not change_lists(rows, lists, finds_best=False):
                return done
        else:
            if not begun and not change_lists(rows, lists, finds_best=True):
                return done
            done, is_last, following = number, True, NOTHING_FOLLOWS
            if isinstance(after, Stage) and stage.leaves_best and (stage.leaves_column or not after.needs_column):
                following = after.follower(each[number + 1])
            if not stage.launch(rows, begun, following):
                return done
            begun = following is not NOTHING_FOLLOWS
        if is_last:
            lists, done = [], number + 1
    return done
