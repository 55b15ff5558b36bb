"""Random texts, token by token: what a model without an opinion would write under a mask."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from benchmarks.peer import NotTaken, Rows
from logitkit.vocabulary import Vocabulary

# Where EOS is legal beside other tokens, it comes this often.
EOS_SHARE = 0.05


@dataclass
class Walk:
    """The tokens of some rows.

    Args:
        tokens: One [B] int64 a step; -1 where a row's text ends and its next one begins.
        texts: All texts that ended.
        stuck: Why a row could not go on, if one could not: no token was allowed, or an allowed one was not taken.
    """

    tokens: list[Tensor] = field(default_factory=list)
    texts: list[bytes] = field(default_factory=list)
    stuck: str = ""


def walk(rows: Rows, count: int, vocabulary: Vocabulary, steps: int, seconds: float = 1e9) -> Walk:
    """Let rows write random legal tokens, the same ones on every run.

    Args:
        rows: Rows at their beginning.
        count: How many.
        vocabulary: Their tokens.
        steps: How many tokens each row writes, the ends of texts included.
        seconds: Stop after so long, with the steps made by then.
    """
    random = np.random.default_rng(0)
    logits = torch.empty(count, vocabulary.size)
    array = logits.numpy()
    written: list[list[int]] = [[] for _ in range(count)]
    found = Walk()
    deadline = time.monotonic() + seconds
    while len(found.tokens) < steps and time.monotonic() < deadline:
        logits.zero_()
        rows.mask(logits)
        chosen = [_choose(array[row], vocabulary.eos_ids[0], random) for row in range(count)]
        for row, token in enumerate(chosen):
            if token is None:
                found.stuck = f"after {vocabulary.decode(written[row])!r} nothing is allowed"
                return found
            if token == -1:
                found.texts.append(vocabulary.decode(written[row]))
                written[row] = []
            else:
                written[row].append(token)
        tokens = torch.tensor(chosen)
        try:
            rows.advance(tokens)
        except NotTaken as error:
            found.stuck = str(error)
            return found
        found.tokens.append(tokens)
    return found


def _choose(row: np.ndarray[tuple[int], np.dtype[np.float32]], eos: int, random: np.random.Generator) -> int | None:
    ends = row[eos] == 0
    if ends and random.random() < EOS_SHARE:
        return -1
    guesses = random.integers(len(row), size=64)
    good = guesses[(row[guesses] == 0) & (guesses != eos)]
    if len(good):
        return int(good[0])
    legal = np.flatnonzero(row == 0)
    legal = legal[legal != eos]
    if len(legal):
        return int(random.choice(legal))
    return -1 if ends else None


def replay(rows: Rows, tokens: list[Tensor], logits: Tensor) -> list[float]:
    """Mask and advance along known tokens; return the seconds of each step.

    The logits are written again before each step, as a model does, so no step sees logits that were already masked.
    """
    clock = time.process_time
    times = []
    for chosen in tokens:
        logits.zero_()
        begin = clock()
        rows.mask(logits)
        rows.advance(chosen)
        times.append(clock() - begin)
    return times
