"""`ThinkingBudget` against its plain meaning, byte by byte."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from tests.examples import examples
from tests.processors.four_logits import NEVER
from tests.processors.four_logits import on_either_path as after
from tests.registry import BOS, EOS, PAD, TOKENS, vocabulary

# The plain meaning, byte by byte.


def plain(
    limit: int, end: bytes | int, start: bytes | int | None, prompt: Sequence[int], output: Sequence[int]
) -> set[int] | None:
    """Return which ids are legal after the tokens; None for all."""
    inside, said, spent = start is None, b"", 0
    given = [(token, True) for token in (prompt if start is not None else ())] + [(token, False) for token in output]
    for token, of_prompt in given:
        if token == EOS:
            if not of_prompt:
                return {EOS, PAD}
            continue
        before = inside
        if token == (end if inside else start):
            inside, said = not inside, b""
        else:
            for byte in TOKENS[token] or b"":
                said += bytes([byte])
                marker = end if inside else start
                if isinstance(marker, bytes) and said.endswith(marker):
                    inside, said = not inside, b""
        spent = spent + 1 if before and inside and not of_prompt else 0
    if not inside or spent < limit:
        return None
    if isinstance(end, int):
        return {end}
    rest = end[max(k for k in range(len(end)) if said.endswith(end[:k])) :]
    # The vocabulary has every ASCII byte, so a token is legal unless it leaves half of "é".
    return {i for i, t in enumerate(TOKENS) if t and rest.startswith(t)}


_likely = [i for i, t in enumerate(TOKENS) if t in (b"a", b"b", b"c", b"ab", b"abc", b"\xc3", b"\xa9", b"a\xc3")]
_ids = st.integers(0, len(TOKENS) - 1) | st.sampled_from([*_likely, BOS]) | st.sampled_from(_likely)
_marker = st.sampled_from(["ab", "abab", "aab", "abcab", "é", "éa", "a", "aa", "-0\n", BOS, 13, "cat"])


@settings(max_examples=examples(150))
@given(st.integers(0, 4), _marker, st.none() | _marker, st.lists(_ids, max_size=8), st.lists(_ids, max_size=12))
def test_against_the_plain_meaning(
    limit: int, end: str | int, start: str | int | None, prompt: list[int], output: list[int]
) -> None:
    budget = lk.ThinkingBudget(limit, end, vocabulary(), start)
    raw_end, raw_start = (m.encode() if isinstance(m, str) else m for m in (end, start))
    assert raw_end is not None
    for n in range(len(output) + 1):
        legal = plain(limit, raw_end, raw_start, prompt, output[:n])
        given_ = [0.5] * 72
        found = after(budget, output[:n], given_, prompt)
        wanted = given_ if legal is None else [0.5 if i in legal else NEVER for i in range(72)]
        assert found == wanted


@settings(max_examples=20)
@given(st.data())
def test_a_forced_end_in_a_real_vocabulary(tekken: lk.Vocabulary, data: st.DataObject) -> None:
    """Whatever legal tokens are chosen, the section ends with the marker, and nothing follows it in the same token."""
    budget = lk.ThinkingBudget(3, "</think>\n\n", tekken)
    thought = data.draw(st.lists(st.integers(1000, 50_000), min_size=3, max_size=3))
    if data.draw(st.booleans()):
        thought[-1] = tekken.tokens.index(b"</")
    context = lk.Context.of([[]], tekken.size)
    state = budget.advance(budget.init_state(context), torch.tensor([thought]))
    forced: list[int] = []
    while budget.is_forced(state).item():
        legal = budget.process_logits(state, torch.zeros(1, tekken.size), context)[1][0].isfinite().nonzero()[:, 0]
        forced.append(data.draw(st.sampled_from(legal.tolist())))
        state = budget.advance(state, torch.tensor(forced[-1:]))
    assert tekken.decode([*thought, *forced]).endswith(b"</think>\n\n")
    assert len(tekken.decode(forced)) <= len(b"</think>\n\n")
    logits = torch.randn(1, tekken.size)
    assert torch.equal(budget.process_logits(state, logits.clone(), context)[1], logits)
