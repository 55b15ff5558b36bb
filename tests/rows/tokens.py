"""Processors that name tokens by their ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import logitkit as lk
from tests.rows.row import BOS, EOS, PAD, TEXT, Row, ids

MAKE = Callable[[lk.Vocabulary], lk.Processor[Any]]


def _masks(name: str, kind: str, make: MAKE, *runs: tuple[int, ...]) -> Row:
    return Row(name, kind, make, runs, masks=True, sized=False)


def _cites(name: str, make: MAKE) -> Row:
    return Row(f"CiteFromPrompt{name}", "cite", make, TEXT, masks=False)


def _controls(name: str, boost: float, *more: Any, other_ends: Sequence[int] = ()) -> Row:
    def make(v: lk.Vocabulary) -> lk.LengthControl:
        return lk.LengthControl(boost, [*v.eos_ids, *other_ends], *more)

    return Row(f"LengthControl{name}", "length", make, TEXT, masks=False)


DIGITS = ids(b"1", b"10", b"2", b"3")
BEGIN = ids(b"a", b"cat", b"b")

ROWS: tuple[Row, ...] = (
    Row("LogitBias", "bias", lambda v: lk.LogitBias({3: 5.5, 71: -100, 0: 0.1, 9: 1e4}), TEXT, masks=False),
    Row("LogitBias of one", "bias", lambda v: lk.LogitBias({0: -1e4}), TEXT, masks=False),
    Row("LogitBias of none", "bias", lambda v: lk.LogitBias({7: 0}), TEXT, masks=False),
    Row(
        "SequenceBias",
        "sequence bias",
        lambda v: lk.SequenceBias(
            {TEXT[0][:2]: 5.5, (TEXT[0][1],): -3.25, TEXT[1][1:4]: 1e4, (71,): 0.1, (9, 71): -1e4}
        ),
        TEXT,
        masks=False,
    ),
    Row("SequenceBias of pairs", "sequence bias", lambda v: lk.SequenceBias({TEXT[1][:2]: 2.0}), TEXT, masks=False),
    Row("SequenceBias of none", "sequence bias", lambda v: lk.SequenceBias({}), TEXT, masks=False),
    _cites("", lambda v: lk.CiteFromPrompt(2.5)),
    _cites(" of what follows", lambda v: lk.CiteFromPrompt(-1.0, 3.5, [*v.eos_ids, 71])),
    _cites(" of only that", lambda v: lk.CiteFromPrompt(0.0, 7.0)),
    _cites(" of nothing", lambda v: lk.CiteFromPrompt(0.0)),
    _controls("", 0.5),
    _controls(" at sentences", -1.5, 3, ids(b"a", b"b"), other_ends=[71]),
    _controls(" of nothing", 0.0),
    _controls(" at once", 1e4, 0),
    _masks("AllowTokens", "allow", lambda v: lk.AllowTokens([EOS, *DIGITS]), DIGITS, (*DIGITS, EOS)),
    _masks("AllowTokens of one", "allow", lambda v: lk.AllowTokens([BOS]), (BOS,), (BOS, BOS)),
    _masks("BanTokens", "ban", lambda v: lk.BanTokens([BOS, 71, PAD, *DIGITS]), ids(b"a", b"b"), (EOS,)),
    _masks("BanTokens of none", "ban", lambda v: lk.BanTokens([]), *TEXT),
    _masks("MinNewTokens", "min new", lambda v: lk.MinNewTokens(3, v.eos_ids), *TEXT, (*BEGIN, EOS)),
    _masks("MinNewTokens of none", "min new", lambda v: lk.MinNewTokens(0, v.eos_ids), (EOS,), *TEXT),
    _masks("MinNewTokens of several", "min new", lambda v: lk.MinNewTokens(2, [PAD, *v.eos_ids, 71]), *TEXT),
    _masks("MinLength", "min length", lambda v: lk.MinLength(4, v.eos_ids), *TEXT, (*BEGIN, *BEGIN, EOS)),
    _masks("MinLength of none", "min length", lambda v: lk.MinLength(0, v.eos_ids), (EOS,), *TEXT),
    _masks("SuppressAtBegin", "begin", lambda v: lk.SuppressAtBegin([EOS, *DIGITS]), (*BEGIN, *DIGITS, EOS)),
    _masks("SuppressAtBegin of none", "begin", lambda v: lk.SuppressAtBegin([]), (EOS,), *TEXT),
    _masks("ForcedEos", "forced eos", lambda v: lk.ForcedEos(v.eos_ids, 4), (*BEGIN, EOS, EOS), (*ids(b"a"), EOS, EOS)),
    _masks("ForcedEos of one token", "forced eos", lambda v: lk.ForcedEos(v.eos_ids[0], 1), (EOS,), (EOS, EOS)),
    _masks(
        "ForcedEos of several",
        "forced eos",
        lambda v: lk.ForcedEos([71, *v.eos_ids, PAD], 3),
        (*BEGIN[:2], PAD, 71),
        (71, EOS),
    ),
    _masks("ForcedEos of the engine", "forced eos", lambda v: lk.ForcedEos(v.eos_ids), *TEXT, (*BEGIN, EOS, EOS)),
    _masks("ForcedTokens", "forced", lambda v: lk.ForcedTokens(BEGIN), BEGIN, (*BEGIN, EOS)),
    _masks("ForcedTokens with EOS", "forced", lambda v: lk.ForcedTokens([BOS, EOS, BOS, 71, 4]), (BOS, EOS, BOS)),
    _masks("ForcedTokens of none", "forced", lambda v: lk.ForcedTokens([]), *TEXT),
)
