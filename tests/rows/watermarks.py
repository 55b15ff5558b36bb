"""Processors that mark texts, so that a detector recognizes them."""

from __future__ import annotations

from typing import Any

import logitkit as lk
from tests.rows.row import TEXT, Row

KEYS = [654, 400, 836, 123, 340]


def _marks(name: str, kind: str, processor: lk.Processor[Any], *, on_host: bool = False) -> Row:
    return Row(name, kind, lambda v: processor, TEXT, masks=False, compares=True, on_host=on_host)


def _draws(name: str, processor: lk.Processor[Any]) -> Row:
    return Row(name, "gumbel watermark", lambda v: processor, TEXT, masks=True, sized=False, compares=True)


ROWS: tuple[Row, ...] = (
    _marks("KgwWatermark", "kgw", lk.KgwWatermark(7)),
    _marks("KgwWatermark of 3 tokens", "kgw", lk.KgwWatermark(2**63 - 1, 0.5, 1e4, context_width=3)),
    _marks("KgwWatermark of 0", "kgw", lk.KgwWatermark(7, bias=0)),
    _marks("KgwWatermark, lefthash", "kgw of transformers", lk.KgwWatermark(7, scheme="lefthash"), on_host=True),
    _marks("KgwWatermark, selfhash", "kgw of transformers", lk.KgwWatermark(5, 0.5, 9, 2, "selfhash"), on_host=True),
    _marks("SynthIdWatermark", "synthid", lk.SynthIdWatermark(KEYS)),
    _marks(
        "SynthIdWatermark of 2 tokens",
        "synthid",
        lk.SynthIdWatermark([2**63 - 1], 2, 3, sampling_table_size=40, skip_first_ngram_calls=True),
    ),
    _draws("GumbelWatermark", lk.GumbelWatermark(7, context_width=1)),
    _draws("GumbelWatermark of 2 tokens", lk.GumbelWatermark(2**63 - 1, 2, context_history_size=2)),
)
