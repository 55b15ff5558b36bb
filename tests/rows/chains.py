"""Chains, and functions without a state."""

from __future__ import annotations

import torch
from torch import Tensor

import logitkit as lk
from tests.rows.automata import LIST
from tests.rows.row import BOS, EOS, TEXT, Row, ids


def _half(logits: Tensor, context: lk.Context) -> Tensor:
    return logits * 0.5


def _by_length(logits: Tensor, context: lk.Context) -> Tensor:
    """Depends on every key of the context: a batch that mixes up its rows is seen."""
    prompt = torch.where(context.prompt >= 0, context.prompt, 0).sum(1)
    scale = 1 / (1 + prompt + 2 * context.lengths + 3 * context.prompt_lengths)
    return logits * scale[:, None].to(logits.dtype)


ROWS: tuple[Row, ...] = (
    Row("Stateless", "stateless", lambda v: lk.Stateless(_by_length), TEXT, masks=False),
    Row(
        "chain of three",
        "chain",
        lambda v: lk.chain(lk.RepetitionPenalty(1.3), lk.Regex(r"[0-9](,[0-9])*", v), lk.Stateless(_half)),
        LIST,
        masks=True,
    ),
    Row(
        "chain of three others",
        "chain",
        lambda v: lk.chain(lk.RepetitionPenalty(0.9, window=4), lk.Choice(["1", "2,5"], v), lk.Stateless(_half)),
        ((*ids(b"1"), EOS), ids(b"2", b",5")),
        masks=True,
    ),
    Row(
        "chain of all roles",
        "pipeline",
        lambda v: lk.chain(
            lk.LogitBias({ids(b"a")[0]: 2.0, ids(b"1")[0]: -1.0}),
            lk.RepetitionPenalty(1.2, window=8),
            lk.FrequencyPenalty(0.3),
            lk.Regex(r"([a-z]|[0-9]+,)*", v),
            lk.BannedStrings(["cata", "11"], v),
            lk.StopStrings(["dog", "3,"], v),
            lk.MinNewTokens(2, v.eos_ids),
            lk.Temperature(0.7),
            lk.TopK(20),
            lk.TopP(0.95),
        ),
        (ids(b"a", b"b", b"cat", b"b"), (*ids(b"cat", b"dog"), EOS), (*ids(b"1,", b"2", b"1,"), EOS)),
        masks=True,
        compares=True,
    ),
    Row(
        "chain of all roles but other numbers",
        "pipeline",
        lambda v: lk.chain(
            lk.LogitBias({ids(b"b")[0]: 9.0}),
            lk.RepetitionPenalty(0.9),
            lk.FrequencyPenalty(-0.1, window=3),
            lk.ForcedPrefix("ab", v, then=lk.Regex("[a-d]{0,9}", v)),
            lk.StopStrings(["cc", BOS], v),
            lk.MinNewTokens(0, v.eos_ids),
            lk.Temperature(1.5),
            lk.TopK(3),
            lk.TopP(0.5),
        ),
        ((*ids(b"ab", b"c", b"c"), EOS), (*ids(b"a", b"b", b"d"), EOS)),
        masks=True,
        compares=True,
    ),
    Row("empty chain", "empty", lambda v: lk.chain(), TEXT, masks=False),
)
