"""Where the last breaker of a DRY penalty begins and ends: a repeat never reaches back across it.

A breaker is one token, or begins in one token, its head, and continues in others. After a head, a state says what is still to
come of the breaker. An edge leads from a state, by a token, to another state or to the end of the breaker.
"""

from __future__ import annotations

from itertools import count
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.protocol.state import Fill

__all__ = ["ENDS", "Breakers", "HostBreakers"]

# The target of an edge that completes a breaker.
ENDS = -1

# Greater than all ids and edges. Both are exact as floats too, which is how torch pads.
LAST_ID, LAST_EDGE = 2**31 - 1, 2**62

# The number of tokens that are searched first: the last breaker is usually near.
NEAR = 64


class Breakers(NamedTuple):
    """The breakers of each row; every field is padded at its end.

    Args:
        single: [B, K] int32, ascending, the tokens that contain a whole breaker.
        heads: [B, H] int32, ascending, the tokens in which a breaker may begin.
        starts: [B, H, S] int32, the states after each head, -1 for none.
        edges: [B, E] int64, ascending, `state << 32 | token`.
        targets: [B, E] int32, the state that each edge leads to, or `ENDS`.
        steps: [B, D] bool. D is the maximum number of tokens after a head; a shape needs no read from a device.
    """

    single: Annotated[Tensor, Fill(LAST_ID)]
    heads: Annotated[Tensor, Fill(LAST_ID)]
    starts: Annotated[Tensor, Fill(-1)]
    edges: Annotated[Tensor, Fill(LAST_EDGE)]
    targets: Annotated[Tensor, Fill(ENDS)]
    steps: Annotated[Tensor, Fill(True)]

    def problem(self) -> str | None:
        """Describe an impossible value in a state read from a file, or return None."""
        for name in ("single", "heads", "edges"):
            field: Tensor = getattr(self, name)
            if bool((field < 0).any()) or bool((field.diff(dim=1) < 0).any()):
                return f"breakers are not in ascending order, in {name}"
        return None

    def is_single(self, tokens: Tensor) -> Tensor:
        """Return which tokens, [B, N] int32, contain a whole breaker."""
        return _found(self.single, tokens)[1]

    def limit(self, latest: Tensor) -> Tensor:
        """Return [B, 1] int64, how many tokens come after the last breaker, N if there is none.

        Args:
            latest: [B, N] int32 token ids, newest first, -1 after the oldest.
        """
        back = torch.arange(latest.shape[1], device=latest.device)
        single = self.is_single(latest)
        if not self.heads.shape[1]:
            return torch.where(single, back, latest.shape[1]).amin(1, keepdim=True)
        follow = self._follow(latest, torch.where(single, 0, -1))
        # The last head counts, and of the breakers that begin there, the longest.
        head = torch.where(follow >= 0, back, latest.shape[1]).amin(1, keepdim=True)
        return torch.where(back == head, back - follow, latest.shape[1]).amin(1, keepdim=True)

    def _follow(self, latest: Tensor, follow: Tensor) -> Tensor:
        """Return how many tokens of the breaker that begins at each place follow its head; -1 if none begins there."""
        place, begins = _found(self.heads, latest)
        state = self.starts.gather(1, place[..., None].expand(-1, -1, self.starts.shape[2]))
        state = torch.where(begins[..., None], state, -1)
        most = self.steps.shape[1]
        newer = torch.nn.functional.pad(latest, (most, 0), value=-1)
        for step in range(1, most + 1):
            token = newer[:, most - step :][:, : latest.shape[1], None].to(torch.int64)
            edge = torch.where((state >= 0) & (token >= 0), state.to(torch.int64) << 32 | token, -1).flatten(1)
            where, known = _found(self.edges, edge)
            target = self.targets.gather(1, where).view(state.shape)
            known = known.view(state.shape)
            follow = torch.where((known & (target == ENDS)).any(2), step, follow)
            state = torch.where(known, target, -1)
        return follow


class HostBreakers(NamedTuple):
    """The breakers of one row as arrays, searched only where one may begin; see `Breakers` for the fields."""

    single: NDArray[np.int32]
    heads: NDArray[np.int32]
    starts: NDArray[np.int32]
    edges: NDArray[np.int64]
    targets: NDArray[np.int32]

    @classmethod
    def rows(cls, breakers: Breakers) -> list[HostBreakers]:
        """View the rows of breakers on the CPU."""
        return [cls(*row) for row in zip(*(field.numpy() for field in breakers[:5]), strict=True)]

    def is_single(self, tokens: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return which tokens, [N], contain a whole breaker."""
        return _found_row(self.single, tokens)[1]

    def limit(self, tokens: NDArray[np.int32]) -> int:
        """Return how many of the tokens, [N], oldest first, come after the last breaker; N if there is none."""
        size = len(tokens)
        middle = max(size - NEAR, 0)
        for first, last in ((middle, size), (0, middle)):
            end = self._end(tokens, first, last)
            if end >= 0:
                return size - 1 - end
        return size

    def _end(self, tokens: NDArray[np.int32], first: int, last: int) -> int:
        """Return where the last breaker ends that begins at a place from `first` to `last - 1`, or -1."""
        some = tokens[first:last]
        ends = np.where(self.is_single(some), np.arange(first, last), -1)
        if len(self.heads):
            index, begins = _found_row(self.heads, some)
            places = np.flatnonzero(begins)
            state = self.starts[index[places]]
            places, state = places.repeat(state.shape[1]), state.ravel()
            for step in count(1):
                going = (state >= 0) & (places + first + step < len(tokens))
                places, state = places[going], state[going].astype(np.int64)
                if not len(places):
                    break
                index, known = _found_row(self.edges, state << 32 | tokens[places + first + step])
                state = np.where(known, self.targets[index], np.int32(-2))
                done = places[state == ENDS]
                ends[done] = done + first + step
        begun = np.flatnonzero(ends >= 0)
        return int(ends[begun[-1]]) if len(begun) else -1


def _found(ordered: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Look up [B, M] values in [B, K] ascending ones: an index of each that can be gathered, and whether it is there."""
    if not ordered.shape[1]:
        return torch.zeros_like(wanted, dtype=torch.int64), torch.zeros_like(wanted, dtype=torch.bool)
    place = torch.searchsorted(ordered, wanted.contiguous()).clamp(max=ordered.shape[1] - 1)
    return place, ordered.gather(1, place) == wanted


def _found_row(ordered: NDArray[Any], wanted: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Look up [M] values in [K] ascending ones; see `_found`."""
    if not len(ordered):
        return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), bool)
    place = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
    return place, ordered[place] == wanted
