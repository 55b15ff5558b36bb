"""The green lists of transformers' watermark: the first part of a random permutation of the vocabulary, seeded by a context.

With ten tokens, a ratio of 0.25 and the seed 3, `torch.randperm(10)` begins with two ids: these two are green. The seed is the
key times the last token ("lefthash"), or the least product of the key and two table entries over the last tokens, among which is
the candidate itself ("selfhash"), so that each candidate has its own permutation.

A permutation is a loop over the vocabulary that cannot be split, so all of this runs on the CPU. "selfhash" only asks whether the
candidate is in the first part. `is_first` finds that without the permutation, from the random numbers that torch would draw: it
follows one id through the swaps.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["CANDIDATES", "best_candidates", "is_first", "left_greens", "self_greens", "self_seeds"]

# How many of the best tokens "selfhash" considers.
CANDIDATES = 40

# The entries of the table of "selfhash".
ENTRIES = 1_000_003

MASK = 2**64 - 1


@lru_cache(maxsize=256)
def left_greens(key: int, token: int, columns: int, count: int) -> Tensor:
    """Return which tokens are green after a token, [columns] bool, not to be changed: the 256 last results are kept."""
    generator = torch.Generator().manual_seed(key * token % MASK)
    return torch.zeros(columns, dtype=torch.bool).index_fill_(
        0, torch.randperm(columns, generator=generator)[:count], True
    )


def self_greens(
    key: int, context: NDArray[np.integer], candidates: NDArray[np.integer], columns: int, count: int
) -> NDArray[np.integer]:
    """Return the green ones among some candidates.

    Args:
        key: The key.
        context: [W - 1] the tokens before the candidate, of which there may be none.
        candidates: [N] token ids.
        columns: The number of ids.
        count: How many of them are green.
    """
    seeds = self_seeds(key, np.broadcast_to(context, (len(candidates), len(context))), candidates)
    green = [is_first(seed, int(token), columns, count) for seed, token in zip(seeds, candidates, strict=True)]
    return candidates[np.array(green, np.bool_)]


def self_seeds(key: int, contexts: NDArray[np.integer], tokens: NDArray[np.integer]) -> list[int]:
    """Return the seeds of tokens, [N], after contexts, [N, W - 1]."""
    table = _table(key)
    own = table[tokens % ENTRIES].astype(np.int64) + 1
    others = table[np.concatenate([contexts, tokens[:, None]], 1) % ENTRIES].astype(np.int64) + 1
    # Products wrap around at 64 bits, as transformers' do.
    products = np.int64(key) * others * own[:, None]
    return [int(seed) % MASK for seed in products.min(1)]


@lru_cache(maxsize=4)
def _table(key: int) -> NDArray[np.int32]:
    drawn = torch.randperm(ENTRIES, generator=torch.Generator().manual_seed(key))
    table: NDArray[np.int32] = drawn.to(torch.int32).numpy()
    return table


def best_candidates(scores: Tensor) -> NDArray[np.int64]:
    """Return the ids of the best tokens of a row, [V], at most 40 of them: those that a sort puts first."""
    count = min(CANDIDATES, len(scores))
    best, ids = scores.topk(count)
    # If more tie with the last of them, transformers leaves it to its sort which ones count.
    if int((scores >= best[-1]).sum()) > count:
        ids = scores.sort(descending=True).indices[:count]
    return ids.numpy()


def is_first(seed: int, token: int, columns: int, count: int) -> bool:
    """Whether an id is among the first ones of `torch.randperm(columns)` on the CPU, seeded with `seed`.

    torch swaps the ids at i and i + draw % (columns - i), for i = 0, 1, 2... So the id at a place p > i moves to i, where it
    stays, if the swap i has p as its partner; and the swap p, if none did before, moves it to the partner of p.

    Example:
        >>> first = torch.randperm(20, generator=torch.Generator().manual_seed(5))[:6].tolist()
        >>> [token for token in range(20) if is_first(5, token, 20, 6)] == sorted(first)
        True
    """
    # torch and numpy seed the Mersenne twister alike, with the low 32 bits.
    draws = np.random.RandomState(seed & 0xFFFFFFFF).randint(0, 2**32, size=count, dtype=np.uint32)
    steps = np.arange(count, dtype=np.uint32)
    partners = steps + draws % (np.uint32(columns) - steps)
    place, begin = token, 0
    while True:
        hits = np.flatnonzero(partners[begin : min(place, count)] == place)
        if len(hits):
            return True
        if place >= count:
            return False
        partner = int(partners[place])
        if partner == place:
            return True
        place, begin = partner, place + 1
