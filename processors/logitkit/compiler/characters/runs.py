r"""Runs of positions, each of which may be the last, as those of `x{1,256}`.

In `[a-z]{1,256};` there are 256 positions for letters. Each reads a letter, and is followed by the next one or by the semicolon.
Such a *run* makes the subset construction long, but says little:

- The earlier of two positions of a run reads every text that the later one does: only the earlier one counts. So a state
  needs no more than one position of a run.
- A state with position 6 leads where the same state with position 5 leads, one position further on. So the moves of a state
  are worked out for one position, and shifted for the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, chain, groupby, pairwise

from logitkit.compiler.characters.positions import Positions

__all__ = ["Runs"]

# Shorter runs are not worth it.
LONG_RUN = 8


@dataclass(frozen=True, eq=False, slots=True)
class Runs:
    """The runs of an automaton of positions; those of a run have consecutive numbers.

    Args:
        first: The first position of its run, for each position of a run.
    """

    first: dict[int, int]

    @classmethod
    def of(cls, positions: Positions, masks: list[int]) -> Runs:
        """Find the runs, given the symbols that each position reads."""
        bounds = [0, *accumulate(len(list(alike)) for _, alike in groupby(masks))]
        stretches = [range(begin, end) for begin, end in pairwise(bounds) if end - begin >= LONG_RUN]
        entered = Counter(chain(positions.first, *positions.follow)) if stretches else {}
        return cls({p: first for alike in stretches for p, first in _runs_among(positions, alike, entered).items()})

    def earliest(self, future: tuple[int, ...]) -> tuple[int, ...]:
        """Return some positions, in order, without those of a run after the first one."""
        inside = [position for position in future if position in self.first]
        if len(inside) < 2:
            return future
        kept = {self.first[position]: position for position in reversed(inside)}
        return tuple([p for p in future if p not in self.first or kept[self.first[p]] == p])

    def only_one(self, future: tuple[int, ...]) -> int | None:
        """Return the one position of a run that is among some positions, None if there are several, or if its run ends there."""
        inside = [position for position in future if position in self.first]
        if len(inside) == 1 and self.first.get(inside[0] + 1) == self.first[inside[0]]:
            return inside[0]
        return None


def _runs_among(positions: Positions, alike: range, entered: Mapping[int, int]) -> dict[int, int]:
    """Find the runs among consecutive positions that read the same, given how many positions each comes after."""
    follow, final = positions.follow, positions.final
    # From the last position on: where a run leads, besides its own next position. Only its first one is entered from elsewhere.
    bounds = [alike.stop]
    leads = set(follow[alike[-1]])
    for position in alike[-2::-1]:
        after = position + 1
        if final[position] != final[after] or entered[after] != 1 or {*leads, after} != set(follow[position]):
            bounds.append(after)
            leads = set(follow[position])
    bounds.append(alike.start)
    runs = [range(begin, end) for end, begin in pairwise(bounds) if end - begin >= LONG_RUN]
    return {position: run.start for run in runs for position in run}
