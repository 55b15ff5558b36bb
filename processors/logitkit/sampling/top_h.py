"""TopH: keep the best tokens until they have a share of the entropy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.parameters import Integer, Number
from logitkit.protocol.context import Context
from logitkit.protocol.described import per_row
from logitkit.protocol.kind import Kind
from logitkit.runtime.host_logits import HostRow, Truncation
from logitkit.sampling.scores import in_place_of, remove, scores_of
from logitkit.sampling.top_k import best_ids

__all__ = ["TopH", "TopHState"]

H = Number(0, 1, "0 changes nothing")
CANDIDATES = Integer(1)


class TopHState(NamedTuple):
    """The share of the entropy that each row keeps.

    Args:
        h: [B] float64, from 0 to 1; 0 keeps all tokens.
        candidates: [B] int64, how many of the best tokens are looked at.
    """

    h: Annotated[Tensor, H]
    candidates: Annotated[Tensor, CANDIDATES]


@dataclass(frozen=True)
class TopH(Truncation[TopHState]):
    """Keep the best tokens whose parts of the entropy, -p · log p, add up to at most `h` of the whole; set all others to -inf.

    Only the best `candidates` tokens count, and their probabilities are those among themselves. The best token always stays. Of
    tokens that tie, those with lower ids come first.

    Args:
        h: From 0 (which changes nothing) to 1; the paper suggests 0.4.
        candidates: How many of the best tokens are looked at, from 1; transformers looks at 100.

    Raises:
        ConfigurationError: An argument is not in range.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> bounded = lk.TopH(0.6)
        >>> context = lk.Context.of([[]], vocabulary_size=3)
        >>> logits = torch.tensor([[0.5, 0.2, 0.3]]).log()  # parts 0.347, 0.322 and 0.361 of 1.030 nats
        >>> bounded.process_logits(bounded.init_state(context), logits, context)[1].exp()
        tensor([[0.5000, 0.0000, 0.0000]])

    Source: Baghaei Potraghloo et al., Top-H Decoding: Adapting the Creativity and Coherence with Bounded Entropy in Text
    Generation (2025). The results are those of transformers' TopHLogitsWarper, except that sums have 64 bits, which may matter
    to a token at the threshold, and that it orders tokens that tie in no particular way.
    """

    h: float
    candidates: int = 100

    # Where transformers has it: directly after the temperature.
    kind = Kind("top_h", {"h": H, "candidates": CANDIDATES}, main="h", order=5, neutral={"h": 0.0})
    may_empty_rows = False

    def init_state(self, context: Context) -> TopHState:
        """Return the initial state of the rows."""
        return TopHState(per_row(context, self.h), per_row(context, self.candidates))

    def _active(self, h: Any, columns: int) -> Any:
        return h > 0

    def _by_tensors(self, state: TopHState, logits: Tensor) -> Tensor:
        falling, order = scores_of(logits).sort(dim=1, descending=True, stable=True)
        removed = in_place_of(order, ~_selected(falling, state.h[:, None], state.candidates[:, None]))
        return remove(logits, removed, self._active(state.h, logits.shape[1]))

    def _kept(self, row: HostRow, h: float, candidates: int) -> NDArray[np.intp]:
        """Return the ids to keep, the best one first."""
        count = min(candidates, len(row.scores))
        best = best_ids(row.scores, count)
        order = best[np.argsort(-row.scores[best], kind="stable")][:count]
        falling = torch.from_numpy(row.scores[order])
        kept = _selected(falling[None], torch.tensor([[h]], dtype=torch.float64), torch.tensor([[count]]))
        ids: NDArray[np.intp] = order[kept[0].numpy()]
        return ids


def _selected(falling: Tensor, h: Tensor, candidates: Tensor) -> Tensor:
    """Return which tokens stay, [B, N] bool, the best one first.

    All sums run from the best token on and have 64 bits, so tokens after the candidates cannot change a bit.

    Args:
        falling: [B, N] scores without NaN, in descending order.
        h: [B, 1] float64.
        candidates: [B, 1] int64.
    """
    place = torch.arange(falling.shape[1], device=falling.device)
    weight = torch.where(place < candidates, (falling - falling[:, :1]).double().exp(), 0.0)
    chance = weight / weight.cumsum(1)[:, -1:]
    entropy = torch.where(chance > 0, -chance * chance.log(), 0.0).cumsum(1)
    return ((entropy <= h * entropy[:, -1:]) & (chance > 0)) | (place == 0)
