"""`LoopStop` against its plain meaning: a text ends with copies of a block."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.reasoning.loop_rows import BLOCK
from tests.batches import same_state, tensor_path
from tests.examples import examples
from tests.processors.four_logits import begun
from tests.processors.four_logits import on_either_path as after
from tests.registry import BOS, EOS, PAD, TOKENS, ids, vocabulary


def is_loop(text: Sequence[int], count: int, least: int, most: int) -> bool:
    """Whether a text ends with copies of a block."""
    return any(
        len(text) >= period * count and list(text[-period * count :]) == list(text[-period:]) * count
        for period in range(least, most + 1)
    )


def plain(
    output: Sequence[int],
    numbers: dict[str, int],
    then: bytes | None = None,
    start: bytes | None = None,
    prompt: Sequence[int] = (),
) -> str | int:
    """Return what may follow: "any", "eos" after a loop, "ended" after EOS, or how many bytes of the marker are there."""
    inside, said = then is not None and start is None, b""

    def read(token: int) -> None:
        nonlocal inside, said
        for byte in TOKENS[token] or b"":
            said += bytes([byte])
            marker = then if inside else start
            if marker is not None and said.endswith(marker):
                inside, said = not inside, b""

    if start is not None:
        for token in prompt:
            read(token)
    text: list[int] = []
    closing = again = False
    for number, token in enumerate(output, 1):
        if token == EOS:
            return "ended"
        read(token)
        if closing:
            closing, again = inside, not inside
            continue
        text.append(token)
        if number >= numbers["min_tokens"] and is_loop(
            text, numbers["count"], numbers["min_period"], numbers["max_period"]
        ):
            if not inside or again:
                return "eos" if EOS not in output[number:] else "ended"
            closing, text = True, []
    if not closing:
        return "any"
    assert then is not None
    return max(k for k in range(len(then)) if said.endswith(then[:k]))


_few = st.sampled_from(ids(b"a", b"b", b"ab", b"1"))
_ids = _few | st.sampled_from([*ids(b"c", b"abc", b"-", b"-0"), BOS, EOS])
_numbers = st.fixed_dictionaries(
    {
        "count": st.integers(2, 4),
        "min_period": st.integers(1, 3),
        "max_period": st.integers(3, 6),
        "min_tokens": st.sampled_from([0, 0, 5, 9]),
    }
)


def allowed(processor: lk.LoopStop, output: list[int], prompt: Sequence[int] = ()) -> set[int]:
    return {i for i, logit in enumerate(after(processor, output, [1.0] * 72, prompt)) if logit == 1}


@settings(max_examples=examples(150))
@given(_numbers, st.lists(_few, max_size=24) | st.lists(_ids, max_size=16))
def test_against_the_plain_meaning(numbers: dict[str, int], output: list[int]) -> None:
    processor = lk.LoopStop(vocabulary(), **numbers)
    legal = {"any": set(range(72)), "eos": {EOS}, "ended": {EOS, PAD}}
    for n in range(len(output) + 1):
        assert allowed(processor, output[:n]) == legal[str(plain(output[:n], numbers))]


@settings(max_examples=examples(150))
@given(
    _numbers,
    st.sampled_from(["ab", "aab", "1a", "b", "-0"]),
    st.sampled_from([None, "a", "1", "ba", "--"]),
    st.lists(_few, max_size=4),
    st.lists(_few, max_size=20) | st.lists(_ids, max_size=16),
)
def test_reasoning_against_the_plain_meaning(
    numbers: dict[str, int], then: str, start: str | None, prompt: list[int], output: list[int]
) -> None:
    processor = lk.LoopStop(vocabulary(), **numbers, then=then, start=start)
    marker = then.encode()
    for n in range(len(output) + 1):
        found = plain(output[:n], numbers, marker, None if start is None else start.encode(), prompt)
        if isinstance(found, int):
            # The vocabulary has every ASCII byte.
            legal = {i for i, text in enumerate(TOKENS) if text and marker[found:].startswith(text)}
        else:
            legal = {"any": set(range(72)), "eos": {EOS}, "ended": {EOS, PAD}}[found]
        assert allowed(processor, output[:n], prompt) == legal


@settings(max_examples=examples(60))
@given(
    _numbers, st.lists(st.lists(st.sampled_from([-1, 5, 6, 7, 7, 7]), min_size=9, max_size=9), min_size=1, max_size=4)
)
def test_tokens_of_several_rows_at_once(numbers: dict[str, int], rows: list[list[int]]) -> None:
    processor, tokens = lk.LoopStop(vocabulary(), **numbers), torch.tensor(rows)
    context = lk.Context.of([[]] * len(rows), 72)
    one_by_one = at_once = processor.init_state(context)
    for column in tokens.unbind(1):
        one_by_one = processor.advance(one_by_one, column)
    at_once = processor.advance(at_once, tokens)
    assert same_state(one_by_one, at_once)
    for row, fired in zip(rows, processor.fired(at_once).tolist(), strict=True):
        assert fired == (plain([token for token in row if token >= 0], numbers) == "eos")
    with tensor_path():
        assert same_state(processor.advance(processor.init_state(context), tokens), at_once)


@settings(max_examples=examples(60))
@given(
    st.lists(st.lists(st.sampled_from([5, 6]), min_size=12, max_size=12), min_size=2, max_size=2), st.integers(1, 12)
)
def test_many_tokens_of_rows_with_different_periods(rows: list[list[int]], first: int) -> None:
    """In a batch, the window of one row is longer than it needs."""
    short, long = lk.LoopStop(vocabulary(), count=4, max_period=2), lk.LoopStop(vocabulary(), count=4, max_period=6)
    context = lk.Context.of([[]], 72)
    tokens = torch.tensor(rows)
    together = lk.concatenate([short.init_state(context), long.init_state(context)])
    for part in (tokens[:, :first], tokens[:, first:]):
        together = short.advance(together, part)
    for row, alone in enumerate((short, long)):
        wanted = alone.advance(alone.init_state(context), tokens[row : row + 1])
        assert same_state(lk.select(together, torch.tensor([row])), wanted)


@pytest.mark.parametrize("tensors", [False, True], ids=["rows", "tensors"])
def test_an_id_outside_of_the_vocabulary_has_no_text(tensors: bool) -> None:
    """As a draft may have it: it is part of a loop as any other, and not of a marker."""
    loops = lk.LoopStop(vocabulary(), count=2, then="ab")
    with tensor_path() if tensors else nullcontext():
        assert loops.is_closing(begun(loops, [80, 80])).tolist() == [True]
        state = loops.init_state(lk.Context.of([[]], 72))
        for token in (80, 80):
            state = loops.advance(state, torch.tensor([token]))
        assert loops.is_closing(state).tolist() == [True]
        assert loops.is_closing(begun(loops, [80, *ids(b"a"), 80, *ids(b"b")])).tolist() == [False]


def test_a_long_text_is_compared_in_blocks() -> None:
    """A loop may begin in one block and end in another."""
    generator = torch.Generator().manual_seed(0)
    processor = lk.LoopStop(vocabulary(), count=2, max_period=40)
    start = processor.init_state(lk.Context.of([[]], 72))
    for end in (BLOCK - 1, BLOCK, BLOCK + 1, BLOCK + 39, 2 * BLOCK, 3 * BLOCK - 1):
        # No token equals one of the 60 before it, until the last 40 are repeated.
        order = torch.randperm(60, generator=generator)
        text = order.repeat(3 * BLOCK // 60 + 2)[: end - 40] + 5
        text = torch.cat([text, text[-40:]])
        assert processor.fired(processor.advance(start, text[None, :-1])).tolist() == [False]
        state = processor.advance(start, torch.cat([text, text[:3]])[None])
        assert (processor.fired(state).tolist(), processor.period(state).tolist()) == ([True], [40])
