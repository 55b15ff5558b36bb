"""Shared by the tests of `StopStrings`: a small vocabulary, and the logits of a row."""

from __future__ import annotations

from collections.abc import Sequence

import logitkit as lk
from tests.processors.four_logits import NEVER, begun
from tests.registry import EOS

ENDED = [NEVER, NEVER, NEVER, 3.0]


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
