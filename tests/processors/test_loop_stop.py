"""`LoopStop`: by hand, and against its plain meaning."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.errors import ConfigurationError, StateFileError, VocabularyError
from logitkit.reasoning.loop_rows import BLOCK
from logitkit.reasoning.loop_state import LoopState
from tests.batches import same_state, tensor_path
from tests.examples import examples
from tests.processors.four_logits import AB, LOGITS, NEVER, begun
from tests.processors.four_logits import on_either_path as after
from tests.registry import BOS, EOS, PAD, TOKENS, ids, vocabulary

# Arguments of types that no type checker lets pass.
ANY: Any = lk

A, B, BOTH, END = range(4)
ONLY_END = [NEVER, NEVER, NEVER, 3.0]


@pytest.mark.parametrize(
    ("arguments", "tokens", "loops"),
    [
        ({}, [A, A], False),
        ({}, [A, A, A], True),
        ({}, [B, A, A, A], True),
        # Nothing that follows changes the verdict.
        ({}, [A, A, A, B, B], True),
        ({}, [A, B, A, B, A], False),
        ({}, [A, B, A, B, A, B], True),
        ({}, [A, B, BOTH, A, B, BOTH, A, B], False),
        ({}, [A, B, BOTH] * 3, True),
        ({"count": 2}, [A, B, BOTH] * 2, True),
        ({"count": 4}, [A, A, A], False),
        ({"count": 4}, [A, A, A, A], True),
        # Copies of another block, of which the last one is not complete.
        ({"count": 2}, [A, B, BOTH, A, B], False),
        ({"max_period": 1}, [A, B] * 5, False),
        ({"max_period": 2}, [A, B, BOTH] * 5, False),
        ({"min_period": 2}, [A, A, A], False),
        # Three copies of `aa` are a loop of two tokens too.
        ({"min_period": 2}, [A] * 5, False),
        ({"min_period": 2}, [A] * 6, True),
        ({"min_tokens": 4}, [A, A, A], False),
        ({"min_tokens": 4}, [A, A, A, A], True),
        ({"min_tokens": 4}, [A, A, A, B], False),
        # Gaps do not count.
        ({}, [A, -1, A, -1, -1, A], True),
    ],
    ids=str,
)
def test_by_hand(arguments: dict[str, int], tokens: list[int], loops: bool) -> None:
    processor = lk.LoopStop(AB, **arguments)
    assert after(processor, tokens, LOGITS) == (ONLY_END if loops else LOGITS)
    state = begun(processor, tokens)
    assert processor.fired(state).tolist() == [loops]
    assert processor.is_finished(state).tolist() == [False]


def test_the_prompt_does_not_count() -> None:
    assert after(lk.LoopStop(AB), [A], LOGITS, prompt=[A, A]) == LOGITS


def test_after_eos_only_eos_and_padding_follow() -> None:
    loops, row = lk.LoopStop(vocabulary()), [1.0] * 72
    a = ids(b"a")[0]
    for tokens in ([EOS], [a, a, a, EOS], [EOS, a]):
        assert [i for i, logit in enumerate(after(loops, tokens, row)) if logit == 1] == [EOS, PAD]
    assert [i for i, logit in enumerate(after(loops, [a, a, a], row)) if logit == 1] == [EOS]
    # The EOS of an ended row is not a loop.
    state = begun(loops, [EOS] * 5)
    assert (loops.fired(state).tolist(), loops.is_finished(state).tolist()) == ([False], [True])
    state = begun(loops, [a, a, a, EOS])
    assert (loops.fired(state).tolist(), loops.is_finished(state).tolist()) == ([True], [True])
    finished = loops.finish(begun(loops, [a, a, a]), torch.tensor([True]))
    assert same_state(finished, state)


@pytest.mark.parametrize(("value", "left"), [(NEVER, 0.0), (float("nan"), 0.0), (2.0, 2.0)])
def test_an_eos_that_is_masked_is_at_zero(value: float, left: float) -> None:
    assert after(lk.LoopStop(AB), [A] * 3, [1.0, 2.0, 3.0, value]) == [NEVER, NEVER, NEVER, left]


def test_the_period_is_that_of_the_shortest_block() -> None:
    loops = lk.LoopStop(AB, count=2)
    for tokens, period in (([A, A], 1), ([A, B, A, B], 2), ([A, B], 0), ([A, B, A, B, END], 2), ([A, A, B], 1)):
        assert loops.period(begun(loops, tokens)).tolist() == [period]
    neutral = lk.LoopStop.neutral_state(lk.Context.of([[]], 4))
    assert loops.period(neutral).tolist() == [0]


# Reasoning.


def test_a_loop_in_reasoning_ends_the_reasoning_first() -> None:
    loops = lk.LoopStop(AB, count=2, then="ab")
    forced = [0.5, NEVER, 2.0, NEVER]
    assert after(loops, [B, B], LOGITS) == forced
    # Part of the marker is there already.
    assert after(loops, [A, A], LOGITS) == [NEVER, -1.0, NEVER, NEVER]
    assert loops.is_closing(begun(loops, [B, B])).tolist() == [True]
    assert loops.fired(begun(loops, [B, B])).tolist() == [False]
    # After the marker, the row is watched again: `b` before it does not count.
    assert after(loops, [B, B, A, B], LOGITS) == LOGITS
    assert after(loops, [B, B, BOTH, B], LOGITS) == LOGITS
    assert after(loops, [B, B, BOTH, B, B], LOGITS) == ONLY_END
    assert loops.fired(begun(loops, [B, B, BOTH, B, B])).tolist() == [True]
    # A loop outside of reasoning ends the row, the first one too.
    assert after(loops, [BOTH, B, B], LOGITS) == ONLY_END
    # This processor does not allow EOS during the marker.
    cut = begun(loops, [B, B, END])
    assert (loops.is_dead(cut).tolist(), loops.is_finished(cut).tolist()) == ([True], [True])
    assert after(loops, [B, B, END], LOGITS) == ONLY_END


def test_reasoning_may_be_opened_by_the_prompt_or_the_model() -> None:
    a, b, one = (ids(text)[0] for text in (b"a", b"b", b"1"))
    row = [1.0] * 72
    loops = lk.LoopStop(vocabulary(), count=2, then="<s>", start="1")

    def legal(tokens: list[int], prompt: Sequence[int] = ()) -> list[int]:
        return [i for i, logit in enumerate(after(loops, tokens, row, prompt)) if logit == 1]

    assert legal([a, a]) == [EOS]
    assert legal([a, a], [EOS, one, 71, 99]) == [BOS]
    assert legal([one, a, a]) == [BOS]
    assert legal([one, a, a, BOS, b, b]) == [EOS]
    # A second section: its loop is the second one.
    assert legal([one, a, a, BOS, one, b, b]) == [EOS]
    # A section that was closed before does not count.
    assert legal([one, a, BOS, one, b, b]) == [BOS]
    # A loop that ends with the marker itself is outside.
    assert legal([one, BOS, one, BOS]) == [EOS]
    assert loops.reads_prompt
    assert not lk.LoopStop(AB, then="a").reads_prompt


def test_a_loop_in_a_chain() -> None:
    a, b = ids(b"a")[0], ids(b"b")[0]
    chain = lk.chain(lk.Regex("a{9}", vocabulary()), lk.LoopStop(vocabulary()))
    state = begun_chain(chain, [a, a, a])
    out = chain.process_logits(state, torch.ones(1, 72), lk.Context.of([[]], 72))[1]
    assert out[0].nonzero().flatten().tolist() != [EOS]
    assert out[0, EOS] == 0
    assert out.isneginf().sum() == 71
    assert chain.conflicts(state).tolist() == [False]
    # The marker is not a text of the pattern, so the row is in conflict.
    closing = lk.chain(lk.Regex("a{9}", vocabulary()), lk.LoopStop(vocabulary(), then="b"))
    state = begun_chain(closing, [a, a, a])
    out = closing.process_logits(state, torch.ones(1, 72), lk.Context.of([[]], 72))[1]
    assert (float(out[0, EOS]), float(out[0, b])) == (0, NEVER)
    assert closing.conflicts(state).tolist() == [True]
    # An EOS that is forced as text is not one, and no part of a loop.
    forced = lk.chain(lk.ForcedTokens([a, EOS, a, EOS, a]), lk.LoopStop(vocabulary()))
    assert forced.processors[1].fired(begun_chain(forced, [a, EOS, a, EOS, a])[1]).tolist() == [True]  # type: ignore[attr-defined]


def begun_chain(chain: lk.Chain, tokens: list[int]) -> tuple[Any, ...]:
    return chain.advance(chain.init_state(lk.Context.of([[]], 72)), torch.tensor([tokens]))


# The plain meaning.


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


# Configurations, files and refusals.


def test_configurations() -> None:
    for config, written in (
        ({"loop_stop": 4}, {"loop_stop": 4}),
        ({"loop_stop": {}}, {"loop_stop": {}}),
        ({"loop_stop": {"count": 3, "max_period": 5, "then": "-0\n"}}, None),
        ({"loop_stop": {"min_period": 2, "min_tokens": 9, "then": 5, "start": "1"}}, None),
        ({"loop_stop": {"then": {"hex": "c3"}}}, None),
    ):
        made = lk.from_config(config, vocabulary())
        again = lk.to_config(made)
        assert lk.from_config(again, vocabulary()) == made
        assert written is None or again == written
    made = lk.from_config(
        {"loop_stop": 3, "stop_strings": ["a"], "thinking_budget": {"max_tokens": 2, "end": "b"}}, vocabulary()
    )
    assert [type(part).__name__ for part in made.processors] == ["ThinkingBudget", "LoopStop", "StopStrings"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": 1}, "count is 1; allowed are integers from 2 to 65536"),
        ({"count": 2.5}, r"count is 2\.5; allowed are integers"),
        ({"max_period": 0}, "max_period is 0; allowed are integers from 1 to 4096"),
        ({"max_period": 4097}, "max_period is 4097; allowed"),
        ({"min_period": 65}, "min_period is 65, greater than max_period=64; give at most 64, or a greater max_period"),
        ({"min_tokens": -1}, "min_tokens is -1; allowed"),
        ({"start": "<think>"}, "start is '<think>', but then is None; give the end marker of reasoning"),
        ({"then": ""}, "then is empty"),
        ({"then": "x" * 257}, "then has 257 bytes; allowed are up to 256"),
        ({"then": EOS}, "then is the EOS id 1, which ends the whole text"),
        ({"then": "a", "start": 1.5}, r"start is 1\.5 of type float"),
    ],
    ids=str,
)
def test_refusals(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        lk.LoopStop(vocabulary(), **arguments)


def test_a_vocabulary_is_needed() -> None:
    with pytest.raises(VocabularyError):
        ANY.LoopStop("abc")
    with pytest.raises(VocabularyError, match="no EOS"):
        lk.LoopStop(lk.Vocabulary([b"a"], eos_ids=[]))


def test_impossible_states_in_files_are_refused(tmp_path: Any) -> None:
    loops = lk.LoopStop(vocabulary(), count=2, max_period=3, then="ab")
    state: LoopState = begun(loops, ids(b"b", b"b"))

    def saved(changed: LoopState) -> None:
        lk.save_state(tmp_path / "state", changed, loops)
        lk.load_state(tmp_path / "state", loops)

    saved(state)
    one = torch.ones(1, dtype=torch.int64)
    for changed, message in (
        (state._replace(phase=one * 9), "phase is not an integer from 0 to 7"),
        (state._replace(left=-one), "left is not"),
        (state._replace(window=state.window[:, :2]), "different shapes"),
        (state._replace(run=state.run - 1), "run is not"),
        (state._replace(needed=state.needed * 0, window=state.window * 0), "too long for it"),
        (state._replace(inside=one * 99), "without 99 states"),
        (state._replace(at=state.at._replace(state=state.at.state + 2)), "of an automaton without 2 states"),
        (begun(loops, ids(b"ab"))._replace(phase=one), "row 0 closes a section, but is not inside of one"),
    ):
        with pytest.raises(StateFileError, match=message):
            saved(changed)
    lk.save_state(tmp_path / "state", state, loops)
    with pytest.raises(StateFileError, match="its rows have automata, but this LoopStop has none"):
        lk.load_state(tmp_path / "state", lk.LoopStop(vocabulary()))


def test_a_budget_with_the_same_markers_shares_the_automaton() -> None:
    budget = lk.ThinkingBudget(5, "ab", vocabulary(), "1")
    assert lk.LoopStop(vocabulary(), then="ab", start="1").automaton is budget.automaton
