"""Processors that change whole rows of logits, one after another, in few launches: one goes on where the one before ends.

Each processor is a *stage*, which needs the best score of each row, and often a first pass: sums, or counts. On its own it takes
a launch for each. After another stage, the best score is known, and the launch that ends that stage does the first pass.

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
from logitkit.kernels.row_sums import LogitRows, best_kernel

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
        return 0

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


def run_stages(stages: Sequence[Stage], logits: Tensor) -> int:
    """Change rows of logits, in place, by one stage after another.

    Args:
        stages: At least one.
        logits: [B, V] floating point.

    Returns:
        How many stages were done: the first ones. The others have changed nothing, because no kernel runs them here.
    """
    each = LogitRows.of(logits, lambda programs: [stage.size(programs) for stage in stages])
    begun = False
    for number, (stage, rows) in enumerate(zip(stages, each, strict=False)):
        if not begun and not rows.launch(best_kernel):
            return number
        following, goes_on = NOTHING_FOLLOWS, False
        if number + 1 < len(stages):
            after = stages[number + 1]
            goes_on = stage.leaves_best and (stage.leaves_column or not after.needs_column)
            following = after.follower(each[number + 1]) if goes_on else NOTHING_FOLLOWS
        if not stage.launch(rows, begun, following):
            return number
        begun = goes_on
    return len(each)
