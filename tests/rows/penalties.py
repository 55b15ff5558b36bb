"""Penalties on what was said already."""

from __future__ import annotations

from typing import Any

import logitkit as lk
from tests.rows.row import TEXT, Row, ids


def _windowed(window: int, penalty: float) -> Row:
    name = f"RepetitionPenalty of {window}"
    return Row(name, "repetition", lambda v: lk.RepetitionPenalty(penalty, window=window), TEXT, masks=False)


def _counted(kind: str, make: type[lk.FrequencyPenalty | lk.PresencePenalty]) -> tuple[Row, ...]:
    def row(name: str, *arguments: Any) -> Row:
        return Row(f"{make.__name__}{name}", kind, lambda v: make(*arguments), TEXT, masks=False)

    return (
        row("", 0.7),
        row(" of all that encourages", -2.0, None, True),
        row(" of 1", 0.5, 1),
        row(" of 5 of all", 100.0, 5, True),
        row(" of nothing", 0.0, 3),
    )


def _n_gram(name: str, n: int, window: int | None = None, include_prompt: bool = True) -> Row:
    return Row(
        f"NoRepeatNGram of {n}{name}",
        "n-gram",
        lambda v: lk.NoRepeatNGram(n, window, include_prompt),
        (ids(b"a", b"b", b"cat", b"1", b"dog"), ids(b"1", b"2", b"\xc3\xa9", b"10", b"-")),
        masks=True,
        sized=False,
    )


def _prompt_n_gram(n: int) -> Row:
    name = f"EncoderNoRepeatNGram of {n}"
    return Row(name, "prompt n-gram", lambda v: lk.EncoderNoRepeatNGram(n), TEXT, masks=True, sized=False)


def _decay(name: str, start: int, factor: float, *more: int) -> Row:
    def make(v: lk.Vocabulary) -> lk.LengthDecay:
        return lk.LengthDecay(start, factor, [*more, *v.eos_ids])

    return Row(f"LengthDecay{name}", "decay", make, TEXT, masks=False)


def _encoder(penalty: float) -> Row:
    name = f"EncoderRepetitionPenalty of {penalty:g}"
    return Row(name, "prompt repetition", lambda v: lk.EncoderRepetitionPenalty(penalty), TEXT, masks=False)


def _dry(name: str, multiplier: float, **more: Any) -> Row:
    return Row(f"Dry{name}", "dry", lambda v: lk.Dry(multiplier, **{"vocabulary": v, **more}), TEXT, masks=False)


ROWS: tuple[Row, ...] = (
    *_counted("frequency", lk.FrequencyPenalty),
    *_counted("presence", lk.PresencePenalty),
    _dry("", 0.8),
    _dry(" of 12", 5.0, base=2.5, allowed_length=1, breakers=["-0", "5,", "c", "é1"], window=12),
    _dry(" of output", 100.0, base=1.0, allowed_length=0, breakers=ids(b"b", b"20"), include_prompt=False),
    _dry(" of nothing", 0.0, breakers=()),
    _n_gram("", 1),
    _n_gram(" in 6 of output", 1, 6, include_prompt=False),
    _n_gram("", 2),
    _n_gram(" in 5", 3, 5),
    *(_prompt_n_gram(n) for n in (0, 2, 4)),
    _decay("", 1, 1.3),
    _decay(" of several at once", 0, 1e4, 71),
    _decay(" the other way", 2, 0.5),
    _decay(" of nothing", 0, 1),
    *(_encoder(penalty) for penalty in (1.0, 1.5, 0.2)),
    Row("RepetitionPenalty", "repetition", lambda v: lk.RepetitionPenalty(1.3), TEXT, masks=False),
    Row(
        "RepetitionPenalty of output",
        "repetition",
        lambda v: lk.RepetitionPenalty(3.7, include_prompt=False),
        TEXT,
        masks=False,
    ),
    _windowed(1, 1.5),
    _windowed(4, 0.6),
    _windowed(16, 2.0),
)
