"""Where the last breaker ends in a history: what is before it is no part of a repeat.

A breaker is one token, or begins in a token, its head, and goes on through others. Behind a head, one is in a state: what of the
breaker is still to come. An edge leads from a state by a token to another state, or to the breaker's end.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.protocol.state import Fill

__all__ = ["ENDS", "Breakers"]

# Where an edge leads that completes a breaker.
ENDS = -1

# Behind all ids and edges; both are whole as floats too, which is how torch pads.
LAST_ID, LAST_EDGE = 2**31 - 1, 2**62

# So many of the last tokens are looked at first: most breakers are seldom far.
NEAR = 64


class Breakers(NamedTuple):
    """The breakers of each row; every field is padded at its end.

    Args:
        single: [B, K] int32 in ascending order, the tokens that hold a whole breaker.
        heads: [B, H] int32 in ascending order, the tokens at whose end a breaker may begin.
        starts: [B, H, S] int32, the states behind each head, -1 for none.
        edges: [B, E] int64 in ascending order, `state << 32 | token`.
        targets: [B, E] int32, the state that an edge leads to, or `ENDS`.
        steps: [B, D] bool. The shape alone says how many tokens may follow a head, and no device is asked.
    """

    single: Annotated[Tensor, Fill(LAST_ID)]
    heads: Annotated[Tensor, Fill(LAST_ID)]
    starts: Annotated[Tensor, Fill(-1)]
    edges: Annotated[Tensor, Fill(LAST_EDGE)]
    targets: Annotated[Tensor, Fill(ENDS)]
    steps: Annotated[Tensor, Fill(True)]

    def problem(self) -> str | None:
        """Say what is impossible about values read from a file, or return None."""
        for name in ("single", "heads", "edges"):
            field: Tensor = getattr(self, name)
            if bool((field < 0).any()) or bool((field.diff(dim=1) < 0).any()):
                return f"breakers are not in ascending order, in {name}"
        return None

    def is_single_tensors(self, tokens: Tensor) -> Tensor:
        """Return which tokens, [B, N] int32, hold a whole breaker."""
        return _found(self.single, tokens)[1]

    def limit_tensors(self, latest: Tensor) -> Tensor:
        """Return [B, 1] int64: how many tokens come behind the last breaker, N if there is none.

        Args:
            latest: [B, N] int32 token ids, newest first, -1 behind the oldest.
        """
        size = latest.shape[1]
        # Of the breaker that begins at each place, how many tokens follow its head; -1 where none begins.
        follow = torch.where(self.is_single_tensors(latest), 0, -1)
        if self.heads.shape[1]:
            place, begins = _found(self.heads, latest)
            many = self.starts.shape[2]
            state = self.starts.gather(1, place[..., None].expand(-1, -1, many))
            state = torch.where(begins[..., None], state, -1)
            newer = torch.nn.functional.pad(latest, (self.steps.shape[1], 0), value=-1)
            for step in range(1, self.steps.shape[1] + 1):
                token = newer[:, self.steps.shape[1] - step :][:, :size, None].to(torch.int64)
                edge = torch.where((state >= 0) & (token >= 0), state.to(torch.int64) << 32 | token, -1).flatten(1)
                where, known = _found(self.edges, edge)
                target = self.targets.gather(1, where).view(state.shape)
                known = known.view(state.shape)
                follow = torch.where((known & (target == ENDS)).any(2), step, follow)
                state = torch.where(known, target, -1)
        back = torch.arange(size, device=latest.device)
        # The last head counts, and of several breakers that begin there the longest.
        head = torch.where(follow >= 0, back, size).amin(1, keepdim=True)
        return torch.where(back == head, back - follow, size).amin(1, keepdim=True)


class HostBreakers(NamedTuple):
    """The breakers of one row, as arrays; for the fields see `Breakers`."""

    single: NDArray[np.int32]
    heads: NDArray[np.int32]
    starts: NDArray[np.int32]
    edges: NDArray[np.int64]
    targets: NDArray[np.int32]

    @classmethod
    def rows(cls, breakers: Breakers) -> list[HostBreakers]:
        """Look at the rows of breakers on the CPU."""
        return [cls(*row) for row in zip(*(field.numpy() for field in breakers[:5]), strict=True)]

    def is_single(self, tokens: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return which tokens, [N], hold a whole breaker."""
        return _found_row(self.single, tokens)[1]

    def limit(self, tokens: NDArray[np.int32]) -> int:
        """Return how many of the tokens, [N] in order, come behind the last breaker; N if there is none."""
        count = len(tokens)
        middle = max(count - NEAR, 0)
        for first, last in ((middle, count), (0, middle)):
            end = self._end(tokens, first, last)
            if end >= 0:
                return count - 1 - end
        return count

    def _end(self, tokens: NDArray[np.int32], first: int, last: int) -> int:
        """Return where the last of the breakers ends that begin from place `first` on and before `last`, or -1."""
        some = tokens[first:last]
        ends = np.where(self.is_single(some), np.arange(first, last), -1)
        if len(self.heads):
            index, begins = _found_row(self.heads, some)
            places = np.flatnonzero(begins)
            state = self.starts[index[places]]
            places, state = places.repeat(state.shape[1]), state.ravel()
            step = 0
            while True:
                step += 1
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
    """Look for [B, M] values in [B, K] ascending ones: a place of each that may be gathered, and whether it is there."""
    if not ordered.shape[1]:
        return torch.zeros_like(wanted, dtype=torch.int64), torch.zeros_like(wanted, dtype=torch.bool)
    place = torch.searchsorted(ordered, wanted.contiguous()).clamp(max=ordered.shape[1] - 1)
    return place, ordered.gather(1, place) == wanted


def _found_row(ordered: NDArray[Any], wanted: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Look for [M] values in [K] ascending ones; see `_found`."""
    if not len(ordered):
        return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), bool)
    place = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
    return place, ordered[place] == wanted
