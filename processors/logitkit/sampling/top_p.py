"""TopP: nucleus sampling."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.parameters import Number
from logitkit.protocol.context import Context
from logitkit.protocol.described import per_row
from logitkit.protocol.kind import Kind
from logitkit.runtime.host_logits import HostRow, Truncation
from logitkit.runtime.logit_arrays import exponentials, ids_from
from logitkit.sampling.scores import AT_LEAST, in_place_of, remove, scores_of

if TYPE_CHECKING:
    from logitkit.kernels.stages import Stage

__all__ = ["TopP", "TopPState"]

# Likely tokens are sorted alone if they are at most this part of all. numpy sorts a whole row in the time of two softmaxes.
FEW_LIKELY = 16

# Every 64th token tells whether few tokens are likely. Rows of fewer columns than these, which are more than SOME, are sorted at
# once, which takes less time.
SAMPLED, MANY_COLUMNS = 64, 10_000

# The others may have this many times the spared probability by the sample, which mostly lacks the few most likely tokens.
UNCERTAIN = 1.5

# Half the distance from 1 to the next number of float32, by which an operation rounds. The other number is more than the
# errors of an exponential, which in torch are up to 40 of these, of a quotient, and of a sum of the lanes of a vector together.
EPSILON, ROUNDINGS = 2.0**-24, 64

# How often torch rounds a number that it sums with a million others: 16 times in each of its levels, and once for each lane of a
# vector, 80 times in all. And `exponentials` mostly does not round the difference to the greatest score, below 40 on average.
SUMMED = 128

# A vector of torch has at least this many numbers.
LANES = 4

# The cut is first looked for among tokens of at least this part of the spared probability.
SOME = 1024

# The ids of likely tokens, their scores, rising, and how many of them are cut off.
Cut = tuple[NDArray[np.intp], NDArray[np.float32], int]

P = Number(0, 1, "1 changes nothing")


class TopPState(NamedTuple):
    """The probability that each row keeps.

    Args:
        p: [B] float64, from 0 to 1; 1 keeps all tokens.
        keep: [B] int64, the minimum number of tokens to keep.
    """

    p: Annotated[Tensor, P]
    keep: Annotated[Tensor, AT_LEAST]


@dataclass(frozen=True)
class TopP(Truncation[TopPState]):
    """Keep the most likely tokens whose probabilities add up to at least p; set all others to -inf.

    If only some of several equally likely tokens are needed, it keeps those with the highest ids.

    Args:
        p: From 0 (which keeps only the best token) to 1 (which changes nothing).
        min_tokens_to_keep: Keep at least this many of the best tokens; from 1.

    Raises:
        ConfigurationError: An argument is not in range.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> nucleus = lk.TopP(0.7)
        >>> context = lk.Context.of([[]], vocabulary_size=3)
        >>> logits = torch.tensor([[0.5, 0.2, 0.3]]).log()
        >>> nucleus.process_logits(nucleus.init_state(context), logits, context)[1].exp()
        tensor([[0.5000, 0.0000, 0.3000]])

    Source: Holtzman et al., The Curious Case of Neural Text Degeneration (2019). The results are those of transformers'
    TopPLogitsWarper in float32, except that it sorts tied tokens in no particular order. On a GPU, sums round in another way.
    """

    p: float
    min_tokens_to_keep: int = 1

    kind = Kind("top_p", {"p": P, "min_tokens_to_keep": AT_LEAST}, main="p", order=40, neutral={"p": 1.0})
    may_empty_rows = False

    def init_state(self, context: Context) -> TopPState:
        """Return the initial state of the rows."""
        return TopPState(per_row(context, self.p), per_row(context, self.min_tokens_to_keep))

    def _active(self, p: Any, columns: int) -> Any:
        return p < 1

    def _by_tensors(self, state: TopPState, logits: Tensor) -> Tensor:
        scores = scores_of(logits)
        rising, order = scores.sort(dim=1, stable=True)
        unlikely = rising.softmax(1).cumsum(1) <= (1 - state.p).to(scores.dtype)[:, None]
        best = torch.arange(scores.shape[1], device=scores.device) >= scores.shape[1] - state.keep[:, None]
        return remove(logits, in_place_of(order, unlikely & ~best), self._active(state.p, logits.shape[1]))

    def _stage(self, state: TopPState) -> Stage | None:
        from logitkit.kernels.truncation_step import Rule, TruncationStage

        return TruncationStage(Rule.TOP_P, state.p, state.keep)

    def _kept(self, row: HostRow, p: float, least: int) -> NDArray[np.intp]:
        """Return the ids to keep; the others have at most the probability 1 - p together.

        Only values are sorted, which numpy does many times faster than torch sorts values and indices. The last bits of the
        sums of a softmax depend on the order, and so does the cut. This is the order of the reference. Mostly, the likely tokens
        alone tell the cut, whatever the last bits are.
        """
        scores, spared = row.scores, row.scores.dtype.type(1 - p)
        found = cut_of_likely(row, float(spared), least) if scores.dtype == np.float32 else None
        if found is None:
            rising = np.sort(scores)
            sums = torch.from_numpy(rising).softmax(0).cumsum(0).numpy()
            gone = int(np.searchsorted(sums, spared, "right"))
        else:
            likely, rising, gone = found
        gone = max(0, min(gone, len(rising) - least))
        cut = rising[gone]
        ids = np.flatnonzero(scores >= cut) if found is None else likely[scores[likely] >= cut]
        tied = gone - int(np.searchsorted(rising, cut))
        return ids if tied == 0 else np.delete(ids, np.flatnonzero(scores[ids] == cut)[:tied])


def cut_of_likely(row: HostRow, spared: float, least: int = 1) -> Cut | None:
    """Return the cut, found among likely tokens only; None if rounding could move it.

    The tokens below 1 / V of the spared probability have less than that together, so the cut is above them. Mostly, so is it with
    SOME in place of V, which leaves fewer to sort.

    Args:
        row: The row, of float32.
        spared: The probability that may be cut off, rounded to float32.
        least: How many likely tokens there must be.
    """
    if not 0 < spared < 1:
        return None
    scores, columns = row.scores, len(row.scores)
    if columns < MANY_COLUMNS or not (attempts := _promising(row, spared)):
        return None
    chances, greatest = exponentials(torch.from_numpy(scores), row.top)
    whole = float(chances.sum()) / greatest
    # The second time, there are more likely tokens: those of the first time no longer count among the others.
    for among in attempts:
        likely = ids_from(scores, row.top + math.log(spared / among * whole), columns // FEW_LIKELY)
        if likely is not None and len(likely) >= least:
            chances.numpy()[likely] = 0
            rest = float(chances.sum()) / greatest / whole
            found = _cut_among(row, likely, whole, rest, spared) if rest < spared else None
            if found is not None:
                return found
    return None


def _promising(row: HostRow, spared: float) -> list[int]:
    """Return for which of SOME and the number of columns, rising, a cut among likely tokens is probable, by every 64th token.

    It is if these are few and all others together are spared. In a flat row, in which thousands are nearly as likely as the best,
    it is for neither.
    """
    columns = len(row.scores)
    # In the middle of each 64, as special tokens have round numbers. The best token is hardly ever among these.
    chances = np.exp(row.scores[SAMPLED // 2 :: SAMPLED].astype(np.float64) - row.top)
    whole = 1 + SAMPLED * float(chances.sum())
    found = []
    for among in (SOME, columns):
        unlikely = chances < spared / among * whole
        few = SAMPLED * (len(chances) - np.count_nonzero(unlikely)) <= columns // FEW_LIKELY
        if few and SAMPLED * float(chances.sum(where=unlikely)) < UNCERTAIN * spared * whole:
            found.append(among)
    return found


def _cut_among(row: HostRow, likely: NDArray[np.intp], whole: float, rest: float, spared: float) -> Cut | None:
    """Return the cut, if it is certainly among likely tokens.

    Without rounding, the reference computes the same sums. Its softmax divides by a sum of V numbers, in which the part of each
    number is rounded once for each greater one in its lane of a vector, and a few times for the lanes together. So the error is
    limited, and a cut that is further away is certain.

    Args:
        row: The row.
        likely: The ids of the likely tokens; no other score is greater than theirs.
        whole: The sum of exponentials of all scores less the greatest one.
        rest: The probability of all other tokens. Found by a difference, it would have the error of the greatest probabilities.
        spared: The probability that may be cut off.
    """
    rising, count = np.sort(row.scores[likely]), len(likely)
    # The difference is rounded to float32 in the reference too.
    sums = rest + np.cumsum(np.exp((rising - np.float32(row.top)).astype(np.float64)) / whole)
    additions = float(sums.sum()) + rest * (len(row.scores) - count)
    unsure = EPSILON * (2 * ROUNDINGS + 3 * SUMMED + additions / LANES) * spared
    gone = int(np.searchsorted(sums, spared, "right"))
    below = sums[gone - 1] if gone else rest
    if below > spared - unsure or (gone < count and sums[gone] < spared + unsure):
        return None
    return likely, rising, gone
