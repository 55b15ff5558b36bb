"""What tests of `StopStrings` share: a small vocabulary, and what becomes of a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest import mock

import torch

import logitkit as lk
from logitkit.stopping.stop_state import StopState
from tests.processors import four_logits
from tests.processors.four_logits import NEVER
from tests.registry import EOS

# Ids:                      0     1     2      3 = EOS
AB = lk.Vocabulary([b"a", b"b", b"ab", None], eos_ids=[3])
LOGITS = [0.5, -1.0, 2.0, 3.0]
ENDED = [NEVER, NEVER, NEVER, 3.0]


def after(
    processor: lk.Processor[Any], tokens: Sequence[int], logits: Sequence[float], prompt: Sequence[int] = ()
) -> list[float]:
    """Return what becomes of the logits, on either path."""
    by_rows = four_logits.after(processor, tokens, logits, prompt)
    with mock.patch.object(torch.compiler, "is_compiling", return_value=True):
        assert four_logits.after(processor, tokens, logits, prompt) == by_rows
    return by_rows


def begun(processor: lk.StopStrings, tokens: Sequence[int], prompt: Sequence[int] = ()) -> StopState:
    context = lk.Context.of([prompt], processor.vocabulary.size)
    return processor.advance(processor.init_state(context), torch.tensor([[*tokens, -1]]))


def asked(processor: lk.StopStrings, tokens: Sequence[int], prompt: Sequence[int] = ()) -> tuple[int, ...]:
    """Which stop fired, bytes before and up to its end, and the index of the token."""
    state = begun(processor, tokens, prompt)
    which, place = processor.which(state), processor.place(state)
    assert processor.fired(state).tolist() == [int(which[0]) >= 0]
    return tuple(int(t[0]) for t in (which, *place))


def expected(
    stops: Sequence[bytes | int], prompt: Sequence[int], output: Sequence[int], tokens: Sequence[bytes | None]
) -> tuple[int, ...]:
    """Return the plain meaning of stops, over decoded bytes: try all after each token; ids count at the end of their token."""

    def text(ids: Sequence[int]) -> bytes:
        return b"".join(tokens[i] or b"" for i in ids)

    before = len(text(prompt))
    ids = [*prompt, *output]
    for n, token in enumerate(ids):
        if token == EOS and n >= len(prompt) and EOS not in stops:
            break
        start, so_far = len(text(ids[:n])), text(ids[: n + 1])
        found = []
        for which, stop in enumerate(stops):
            if isinstance(stop, int):
                if stop == token:
                    found.append((len(so_far), start, which))
            elif stop in so_far:
                begin = so_far.find(stop)
                found.append((begin + len(stop), begin, which))
        if found:
            end, begin, which = min(found)
            return which, begin - before, end - before, n - len(prompt)
    return -1, -1, -1, -1
