"""Processors that shape the distribution which a token is drawn from."""

from __future__ import annotations

from typing import Any

import logitkit as lk
from tests.rows.row import TEXT, Row


def _truncates(name: str, kind: str, processor: lk.Processor[Any]) -> Row:
    return Row(name, kind, lambda v: processor, TEXT, masks=True, sized=False, compares=True)


def _reshapes(name: str, kind: str, processor: lk.Processor[Any]) -> Row:
    return Row(name, kind, lambda v: processor, TEXT, masks=False, compares=True)


def _guides(name: str, processor: lk.Processor[Any]) -> Row:
    return Row(name, "guidance", lambda v: processor, TEXT, masks=False, compares=True, guided=True)


ROWS: tuple[Row, ...] = (
    Row("Temperature", "temperature", lambda v: lk.Temperature(0.7), TEXT, masks=False, compares=True),
    Row("Temperature, least", "temperature", lambda v: lk.Temperature(1e-4), TEXT, masks=False, compares=True),
    _truncates("Temperature of 0", "temperature", lk.Temperature(0)),
    _truncates("TopK", "top k", lk.TopK(5)),
    _truncates("TopK of at least 3", "top k", lk.TopK(1, min_tokens_to_keep=3)),
    _truncates("TopK of all", "top k", lk.TopK(0)),
    _truncates("TopA", "top a", lk.TopA(0.2)),
    _truncates("TopA of at least 3", "top a", lk.TopA(1, min_tokens_to_keep=3)),
    _truncates("TopA of 0", "top a", lk.TopA(0)),
    _truncates("TopP", "top p", lk.TopP(0.9)),
    _truncates("TopP of at least 3", "top p", lk.TopP(0.3, min_tokens_to_keep=3)),
    _truncates("TopP of 1", "top p", lk.TopP(1)),
    _truncates("MinP", "min p", lk.MinP(0.1)),
    _truncates("MinP of at least 3", "min p", lk.MinP(0.9, min_tokens_to_keep=3)),
    _truncates("MinP of 0", "min p", lk.MinP(0)),
    _truncates("TypicalP", "typical", lk.TypicalP(0.4)),
    _truncates("TypicalP of at least 3", "typical", lk.TypicalP(0.01, min_tokens_to_keep=3)),
    _truncates("TypicalP of 1", "typical", lk.TypicalP(1)),
    _truncates("TopNSigma", "sigma", lk.TopNSigma(1)),
    _truncates("TopNSigma of 0", "sigma", lk.TopNSigma(0)),
    _truncates("EpsilonCutoff", "epsilon", lk.EpsilonCutoff(0.03)),
    _truncates("EpsilonCutoff of at least 3", "epsilon", lk.EpsilonCutoff(1, min_tokens_to_keep=3)),
    _truncates("EpsilonCutoff of 0", "epsilon", lk.EpsilonCutoff(0)),
    _truncates("EtaCutoff", "eta", lk.EtaCutoff(0.03)),
    _truncates("EtaCutoff of at least 3", "eta", lk.EtaCutoff(1, min_tokens_to_keep=3)),
    _truncates("EtaCutoff of 0", "eta", lk.EtaCutoff(0)),
    _truncates("TopH", "top h", lk.TopH(0.4)),
    _truncates("TopH of 5", "top h", lk.TopH(0.9, candidates=5)),
    _truncates("TopH of 0", "top h", lk.TopH(0)),
    _truncates("PLess", "p-less", lk.PLess()),
    _truncates("PLess, relaxed", "p-less", lk.PLess(relaxed=True)),
    _truncates("PLess, never", "p-less", lk.PLess(enabled=False)),
    _truncates("TailFree", "tail free", lk.TailFree(0.9)),
    _truncates("TailFree of at least 9", "tail free", lk.TailFree(0.1, min_tokens_to_keep=9)),
    _truncates("TailFree of 1", "tail free", lk.TailFree(1)),
    _reshapes("DynamicTemperature", "dynamic", lk.DynamicTemperature(0.5, 1.8)),
    _reshapes("DynamicTemperature, curved", "dynamic", lk.DynamicTemperature(1e-4, 3, 0.7)),
    _reshapes("DynamicTemperature of 1", "dynamic", lk.DynamicTemperature(1, 1)),
    _guides("Guidance", lk.Guidance(1.5)),
    _guides("Guidance of 1", lk.Guidance(1)),
    _guides("Guidance, most", lk.Guidance(1e4)),
    _guides("Guidance, least", lk.Guidance(-1e4)),
    _reshapes("QuadraticSmoothing", "quadratic", lk.QuadraticSmoothing(0.3)),
    _reshapes("QuadraticSmoothing, curved", "quadratic", lk.QuadraticSmoothing(0.2, 2.5)),
    _reshapes("QuadraticSmoothing of 0", "quadratic", lk.QuadraticSmoothing(0)),
    _truncates("Xtc", "xtc", lk.Xtc(0.5, 0.1, seed=7)),
    _truncates("Xtc, always", "xtc", lk.Xtc(1, 0.02)),
    _truncates("Xtc, never", "xtc", lk.Xtc(0)),
    Row(
        "chain with guidance",
        "guided chain",
        lambda v: lk.chain(lk.Guidance(3), lk.RepetitionPenalty(1.3), lk.BanTokens([5]), lk.TopP(0.9)),
        TEXT,
        masks=True,
        sized=False,
        compares=True,
        guided=True,
    ),
    Row(
        "chain with truncations",
        "sampling chain",
        lambda v: lk.chain(
            lk.BanTokens([5]), lk.Temperature(0.7), lk.TopK(20), lk.TopP(0.9), lk.MinP(0.01), lk.Xtc(0.5)
        ),
        TEXT,
        masks=True,
        sized=False,
        compares=True,
    ),
)
