"""Frequency, presence and DRY penalties are bit by bit those of llama.cpp's own samplers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

import logitkit as lk
from tests import llama_cpp_samplers as samplers
from tests import llama_cpp_vocabulary
from tests.examples import examples
from tests.processors.both_paths import tensors_only

VOCABULARY = llama_cpp_vocabulary.vocabulary()
COLUMNS = VOCABULARY.size

# Few texts, so that repeats and breakers occur.
PIECES = (b"a", b"b", b"c", b":", b"\n", b"ab", b"a\n", b"\nb", b"::", b"cab", b"b:", b":c", b"\n\n", b"abc")
IDS = [VOCABULARY.tokens.index(piece) for piece in PIECES]

texts = st.lists(st.sampled_from(IDS[:3]), max_size=40) | st.lists(st.sampled_from(IDS), max_size=60)
windows = st.integers(1, 50)
singles = st.sampled_from([":", "\n", "a", "c"])
several = singles | st.sampled_from(["::", "\n\n", "ab", "cab", ":c", "b:\n", "abca", "a\nb", "::::", "abab", "\nb:c"])


def logits_of(seed: int) -> Tensor:
    return torch.randn(COLUMNS, generator=torch.Generator().manual_seed(seed)) * 10


def ours(processor: Any, prompt: list[int], output: list[int], logits: Tensor) -> list[Tensor]:
    """Return what both paths make of the logits."""
    context = lk.Context.of([prompt], COLUMNS)
    state = processor.advance(processor.init_state(context), torch.tensor([output], dtype=torch.int64).reshape(1, -1))
    rows = processor.process_logits(state, logits[None].clone(), context)[1]
    return [rows[0], tensors_only(processor, state, logits[None])[0]]


@given(texts, texts, windows, st.sampled_from([-2.0, -0.3, 0.1, 0.7, 1.1, 100.0]))
def test_frequency_and_presence(prompt: list[int], output: list[int], window: int, penalty: float) -> None:
    logits = logits_of(window)
    theirs = samplers.after(samplers.penalties(COLUMNS, window, penalty, 0.0), prompt + output, logits)
    for out in ours(lk.FrequencyPenalty(penalty, window, include_prompt=True), prompt, output, logits):
        assert out.equal(theirs)
    theirs = samplers.after(samplers.penalties(COLUMNS, window, 0.0, penalty), prompt + output, logits)
    for out in ours(lk.PresencePenalty(penalty, window, include_prompt=True), prompt, output, logits):
        assert out.equal(theirs)


@st.composite
def settings_of_dry(draw: st.DrawFn) -> tuple[float, float, int]:
    return (
        draw(st.sampled_from([0.1, 0.8, 1.0, 5.0])),
        draw(st.sampled_from([1.0, 1.05, 1.1, 1.75, 2.0, 3.3])),
        draw(st.integers(0, 5)),
    )


@settings(max_examples=examples(200))
@given(settings_of_dry(), st.lists(singles, max_size=3), windows, texts, texts)
@example((0.8, 1.75, 2), [], 200, [IDS[0]] * 180, [])
@example((1.0, 3.3, 0), [":"], 50, IDS[:4], IDS[:4])
def test_dry_with_breakers_of_one_character(
    three: tuple[float, float, int], breakers: list[str], window: int, prompt: list[int], output: list[int]
) -> None:
    processor = lk.Dry(*three, breakers, window, vocabulary=VOCABULARY)
    check(processor, prompt, output)


@settings(max_examples=examples(200))
@given(settings_of_dry(), st.lists(several, min_size=1, max_size=3), windows, texts, texts)
def test_dry_with_longer_breakers(
    three: tuple[float, float, int], breakers: list[str], window: int, prompt: list[int], output: list[int]
) -> None:
    processor = lk.Dry(*three, breakers, window, vocabulary=VOCABULARY, encode=samplers.encode)
    check(processor, prompt, output)


def check(processor: lk.Dry, prompt: list[int], output: list[int]) -> None:
    assert processor.window is not None
    sampler = samplers.dry(
        processor.multiplier,
        processor.base,
        processor.allowed_length,
        processor.window,
        [str(breaker) for breaker in processor.breakers],
    )
    logits = logits_of(len(prompt))
    theirs = samplers.after(sampler, prompt + output, logits)
    for out in ours(processor, prompt, output, logits):
        assert out.equal(theirs)


@pytest.mark.parametrize("base", [1.0, 1.01, 1.03, 1.75, 2.5, 1000.0])
def test_dry_of_long_repeats(base: float) -> None:
    """Up to where penalties stop growing, and beyond; one breaker is far in the past."""
    run = [IDS[i * i % 5] for i in range(400)]
    check(lk.Dry(1e-9, base, 3, [":"], 1500, vocabulary=VOCABULARY), [IDS[3], *run, *run[:50], *run], run[:399])
    check(lk.Dry(1e-9, base, 3, ["\n:"], 1500, vocabulary=VOCABULARY), run * 3, run)


@pytest.mark.parametrize(
    ("breakers", "history"),
    [
        # A breaker inside another: the one that begins last counts, although the other ends after it.
        (["b", "abca"], [b"c", b"ab", b":", b"\n", b"a", b"b", b"c", b"ab", b":"]),
        (["b", "abca"], [b"ca", b":", b":", b"\n", b"a", b"b", b"ca", b":", b":"]),
        (["b\n", "ab\n"], [b"\n", b":", b":", b"c", b"ab", b"\n", b":", b":"]),
        # A token that holds a breaker begins no other, though it ends as one begins.
        (["::"], [b":", b"a", b"b", b"c", b"::", b":", b"a", b"b"]),
        (["::"], [b":", b"a", b"b", b"c", b"\n", b":", b":", b":", b"a", b"b"]),
        # The longest of the breakers that begin at the same position, and breakers that begin at several positions of a token.
        (["ab", "ab::"], [b"::", b"c", b"b:", b"\n", b"a", b"b", b"::", b"c", b"b:"]),
        (["::::", ":::c"], [b"b:", b":", b":", b"c", b"::", b":", b"c", b"b:", b":", b":"]),
        # llama.cpp compares only 20 tokens after the head of a long breaker.
        (["a" * 30], [b"c", b"b", b":", *[b"a"] * 21, b"c", b"b"]),
        (["a" * 30], [b"a", b"c", b"b", b":", *[b"a"] * 20, b"c", b"b"]),
    ],
)
@pytest.mark.parametrize("allowed_length", [0, 1, 2])
def test_dry_with_breakers_that_overlap(breakers: list[str], history: list[bytes], allowed_length: int) -> None:
    ids = [VOCABULARY.tokens.index(piece) for piece in history]
    check(lk.Dry(0.8, 2.0, allowed_length, breakers, 64, vocabulary=VOCABULARY, encode=samplers.encode), ids, [])


def test_the_tokens_are_those_of_llama_cpp() -> None:
    for text in ("abc", "cab::", "\n\nab:c"):
        assert VOCABULARY.decode(samplers.encode(text)) == text.encode()
    assert samplers.encode("abc") == [VOCABULARY.tokens.index(b"abc")]
