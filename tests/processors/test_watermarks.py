"""Watermarks: by hand, against plain Python, their distributions, their secrets, and their detectors."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import logitkit as lk
from benchmarks.bench_watermark_detection import RESULT, table
from logitkit.errors import ConfigurationError, StateFileError
from logitkit.watermarks.scores import _binomial_tail
from tests.processors.four_logits import LOGITS, NEVER, on_either_path
from tests.registry import vocabulary

MASK = 2**64 - 1
SECRET = 918273645546372819


def mix(bits: int) -> int:
    """SplitMix64's function, in whole numbers."""
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB & MASK
    return bits ^ (bits >> 31)


def number(key: int, context: list[int], token: int) -> int:
    hashed = mix((key + 0x9E3779B97F4A7C15) & MASK)
    for part in (*context, token):
        hashed = mix(((hashed ^ part) + 0x9E3779B97F4A7C15) & MASK)
    return hashed >> 11


def test_kgw_raises_the_tokens_whose_number_is_low() -> None:
    for key in (7, SECRET):
        green = [number(key, [2, 0], token) < 2**53 * 0.4 for token in range(4)]
        wanted = [logit + 1.5 * chosen for logit, chosen in zip(LOGITS, green, strict=True)]
        watermark = lk.KgwWatermark(key, 0.4, 1.5, context_width=2)
        assert on_either_path(watermark, [2, 0], LOGITS, prompt=[3]) == wanted
        assert on_either_path(watermark, [0], LOGITS, prompt=[3, 2]) == wanted
        assert on_either_path(watermark, [0], LOGITS) == LOGITS


def test_gumbel_keeps_the_greatest_sum() -> None:
    for key in range(20):
        uniform = [(number(key, [2], token) + 0.5) / 2**53 for token in range(4)]
        noisy = [logit - math.log(-math.log(u)) for logit, u in zip(LOGITS, uniform, strict=True)]
        best = noisy.index(max(noisy))
        wanted = [logit if token == best else NEVER for token, logit in enumerate(LOGITS)]
        watermark = lk.GumbelWatermark(key, context_width=1)
        assert on_either_path(watermark, [1, 2], LOGITS) == wanted
        # Not without a whole context of output, and not after a context that has been there.
        assert on_either_path(watermark, [], LOGITS, prompt=[2]) == LOGITS
        assert on_either_path(watermark, [2, 1, 2], LOGITS) == LOGITS
        assert on_either_path(lk.GumbelWatermark(key, 1, 0), [2, 1, 2], LOGITS) == wanted


def test_synthid_with_one_layer_by_hand() -> None:
    """With bits (0, 1, 0) and the probabilities 0.5, 0.3 and 0.2, the mass of ones is 0.3: they become 0.35, 0.51 and 0.14."""
    logits = [math.log(0.5), math.log(0.3), math.log(0.2)]
    found = 0
    for key in range(60):
        watermark = lk.SynthIdWatermark([key], 2)
        bits = [int(next(lk.watermarks.synthid_bits(watermark, [[0, token]]))[0]) for token in range(3)]
        if bits == [0, 1, 0]:
            found += 1
            assert np.exp(on_either_path(watermark, [], logits)) == pytest.approx([0.35, 0.51, 0.14], rel=1e-5)
    assert found


def test_draws_have_the_distribution_of_the_model() -> None:
    """Over keys: the choice of Gumbel noise, and the mean of what a tournament leaves."""
    chances = torch.tensor([[0.5, 0.3, 0.15, 0.05]])
    keys, context = 4000, lk.Context.of([[]], 4)
    drawn, kept = torch.zeros(4), torch.zeros(4)
    for key in range(keys):
        gumbel = lk.GumbelWatermark(key, 1)
        state = gumbel.advance(gumbel.init_state(context), torch.tensor([3]))
        drawn += gumbel.process_logits(state, chances.log(), context)[1][0] > NEVER
        if key < 600:
            synthid = lk.SynthIdWatermark([key * 7919, key * 104729 + 1], 2)
            kept += synthid.process_logits(synthid.init_state(context), chances.log(), context)[1][0].exp()
    squares = ((drawn - keys * chances[0]) ** 2 / (keys * chances[0])).sum()
    assert squares < 16.3  # the 0.1% quantile with three degrees of freedom
    assert torch.allclose(kept / 600, chances[0], atol=0.04)


@pytest.mark.parametrize(
    "watermark",
    [lk.KgwWatermark(5, bias=4), lk.SynthIdWatermark(list(range(9, 40)), 3), lk.GumbelWatermark(5, 2)],
    ids=lambda w: type(w).__name__,
)
def test_marked_texts_are_detected_and_others_are_not(watermark: lk.Processor[Any]) -> None:
    rng = torch.Generator().manual_seed(3)
    context = lk.Context.of([[]] * 8, 500)
    taken: dict[bool, list[torch.Tensor]] = {True: [], False: []}
    for marks, steps in taken.items():
        state = watermark.init_state(context)
        for _ in range(80):
            logits = torch.randn(8, 500, generator=rng) * 2
            if marks:
                logits = watermark.process_logits(state, logits, context)[1]
            tokens = torch.multinomial(logits.softmax(1), 1, generator=rng)
            state = watermark.advance(state, tokens)
            steps.append(tokens)
    marked, plain = (lk.watermarks.detect(watermark, torch.cat(taken[marks], 1)) for marks in (True, False))
    assert (marked.p_value < 1e-4).all()
    assert (plain.p_value > 1e-3).all()
    assert (marked.z > 3.5).all()


def test_p_values_are_uniform_without_a_watermark() -> None:
    """Over keys, at most about the share `p` of texts has a p-value of at most `p`."""
    ids = torch.randint(0, 500, (1, 60), generator=torch.Generator().manual_seed(9))
    for make in (
        lk.KgwWatermark,
        lambda k: lk.SynthIdWatermark([k * 31 + i for i in range(10)], 2),
        lk.GumbelWatermark,
    ):
        p = torch.cat([lk.watermarks.detect(make(key * 7919 + 1), ids).p_value for key in range(400)])
        for limit in (0.05, 0.25):
            share = float((p <= limit).double().mean())
            assert share <= limit + 3.3 * math.sqrt(limit * (1 - limit) / 400)
            assert share >= limit * 0.55 - 3.3 * math.sqrt(limit * (1 - limit) / 400)


@pytest.mark.parametrize(("least", "count", "chance"), [(0, 5, 0.3), (3, 5, 0.25), (5, 5, 0.5), (40, 100, 0.25)])
def test_the_binomial_tail_is_exact(least: int, count: int, chance: float) -> None:
    exact = Fraction(chance)
    wanted = sum(math.comb(count, k) * exact**k * (1 - exact) ** (count - k) for k in range(least, count + 1))
    assert _binomial_tail(least, count, chance) == pytest.approx(float(wanted), rel=1e-10)


def test_forced_and_repeated_tokens_and_what_follows_eos_are_left_out() -> None:
    words = lk.Vocabulary([b"a", b"b", b"c", None], eos_ids=[3])
    watermark = lk.KgwWatermark(3)
    # After "a", only "b" is legal.
    regex = lk.Regex("(ab|c)*", words)
    text = [0, 1, 2, 2, 0, 1, 2, 3, 0]
    # There are eight pairs, of which (0, 1) and (1, 2) are there twice.
    assert lk.watermarks.detect(watermark, [text]).scored.tolist() == [6]
    assert lk.watermarks.detect(watermark, [text], count_repeats=True).scored.tolist() == [8]
    ended = lk.watermarks.detect(watermark, [text], eos_ids=[3])
    assert ended.scored.tolist() == [4]  # 01 12 22 20
    held = lk.watermarks.detect(watermark, [text], eos_ids=[3], constraint=regex)
    assert held.scored.tolist() == [3]
    chain = lk.chain(regex, watermark)
    assert lk.watermarks.detect(chain, [text], eos_ids=[3], constraint=chain).score.tolist() == held.score.tolist()
    nothing = lk.watermarks.detect(watermark, [[], [1]])
    assert (nothing.scored.tolist(), nothing.z.tolist(), nothing.p_value.tolist()) == ([0, 0], [0, 0], [1, 1])


def hidden(text: str) -> bool:
    return str(SECRET) not in text


@pytest.mark.parametrize(
    "watermark",
    [lk.KgwWatermark(SECRET), lk.SynthIdWatermark([5, SECRET]), lk.GumbelWatermark(SECRET)],
    ids=lambda w: type(w).__name__,
)
def test_keys_stay_secret(watermark: Any, tmp_path: Path) -> None:
    context = lk.Context.of([[5, 6]], 72)
    state = watermark.advance(watermark.init_state(context), torch.tensor([[5, 6, 7]]))
    assert hidden(repr(watermark))
    assert hidden(repr(state))
    assert hidden(repr(lk.chain(watermark)))
    lk.save_state(tmp_path / "state", state, watermark)
    assert SECRET.to_bytes(8, "little") not in (tmp_path / "state").read_bytes()
    assert hidden(repr((tmp_path / "state").read_bytes()))
    assert repr(lk.load_state(tmp_path / "state", watermark)) == repr(state)
    other: Any = type(watermark)([1] if isinstance(watermark, lk.SynthIdWatermark) else 1)
    with pytest.raises(StateFileError, match="row 0 of the state has another key") as caught:
        lk.save_state(tmp_path / "state", state, other)
    assert hidden(str(caught.value))


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("kgw_watermark", {"key": -SECRET}),
        ("kgw_watermark", {"key": float(SECRET)}),
        ("kgw_watermark", {"key": str(SECRET)}),
        ("gumbel_watermark", {"key": SECRET * 2**10 + SECRET}),
        ("synthid_watermark", {"keys": [1, -SECRET]}),
        ("synthid_watermark", {"keys": [SECRET] * 65}),
        ("synthid_watermark", {"keys": str(SECRET)}),
        ("synthid_watermark", {"keys": SECRET}),
        ("synthid_watermark", {"keys": []}),
    ],
)
def test_errors_do_not_show_keys(kind: str, arguments: dict[str, Any]) -> None:
    classes = {"kgw": lk.KgwWatermark, "gumbel": lk.GumbelWatermark, "synthid": lk.SynthIdWatermark}
    made: Any = classes[kind.removesuffix("_watermark")]
    for fails in (lambda: made(**arguments), lambda: lk.from_config({kind: arguments}, vocabulary())):
        with pytest.raises(ConfigurationError, match=r"a value that is not shown.*; allowed") as caught:
            fails()
        assert hidden(str(caught.value))
        assert str(SECRET)[:6] not in str(caught.value)


@pytest.mark.parametrize(
    "config",
    [
        {"kgw_watermark": SECRET},
        {"kgw_watermark": [SECRET]},
        {"gumbel_watermark": str(SECRET)},
        {"synthid_watermark": [5, SECRET]},
        {"chain": {"kgw_watermark": {"key": SECRET}}},
        {"chain": [[{"kgw_watermark": {"key": SECRET}}]]},
        [{"kgw_watermark": {"key": SECRET}}],
    ],
)
def test_errors_do_not_show_keys_in_the_wrong_place(config: Any) -> None:
    with pytest.raises(ConfigurationError, match="; allowed is a") as caught:
        lk.from_config(config, vocabulary())
    assert str(SECRET)[:6] not in str(caught.value)


def test_an_error_without_a_remark_has_no_empty_parentheses() -> None:
    with pytest.raises(ConfigurationError, match=r"ratio is 2; allowed are numbers from 0.001 to 0.999$"):
        lk.KgwWatermark(1, 2)


def test_rows_with_different_keys_share_a_batch() -> None:
    context = lk.Context.of([[1]], 72)
    marks = [lk.KgwWatermark(1), lk.KgwWatermark(2, scheme="lefthash"), lk.KgwWatermark(3, 0.5, 9, 4, "selfhash")]
    states = [mark.advance(mark.init_state(context), torch.tensor([[5, 9, 5]])) for mark in marks]
    logits = torch.randn(1, 72, generator=torch.Generator().manual_seed(1))
    alone = [m.process_logits(s, logits.clone(), context)[1] for m, s in zip(marks, states, strict=True)]
    together = marks[0].process_logits(lk.concatenate(states), logits.repeat(3, 1), context)[1]
    assert torch.equal(together, torch.cat(alone))


def test_a_watermark_comes_last() -> None:
    config = {"gumbel_watermark": {"key": 1}, "regex": "[a-z]+", "top_k": 5, "kgw_watermark": {"key": 2}}
    made: Any = lk.from_config(config, vocabulary())
    assert [type(p).__name__ for p in made.processors] == ["Regex", "TopK", "KgwWatermark", "GumbelWatermark"]
    with pytest.raises(ConfigurationError, match="put Regex first"):
        lk.chain(lk.GumbelWatermark(1), lk.Regex("a", vocabulary()))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((lk.TopK(5), [[1]]), "watermark is a TopK with 0 watermarks; give a KgwWatermark"),
        ((lk.chain(lk.KgwWatermark(1), lk.KgwWatermark(2)), [[1]]), "watermark is a chain with 2 watermarks"),
        ((lk.KgwWatermark(1), [1, 2]), "tokens is not a list of lists; give a list of texts"),
        ((lk.KgwWatermark(1), [[1, -2]]), "text 0 has the token -2; give a list of texts"),
        ((lk.KgwWatermark(1), torch.zeros(2, 2)), r"tokens is a tensor of shape \[2, 2\] and torch.float32"),
        ((lk.KgwWatermark(1, scheme="lefthash"), [[1, 2]]), "vocabulary_size is not given; with the scheme"),
    ],
)
def test_wrong_arguments_of_the_detector(arguments: tuple[Any, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        lk.watermarks.detect(*arguments)
    with pytest.raises(ConfigurationError, match="vocabulary_size is 5, but there is the token 7"):
        lk.watermarks.detect(lk.KgwWatermark(1, scheme="selfhash"), [[7, 7]], vocabulary_size=5)
    with pytest.raises(ConfigurationError, match="constraint is a TopK; give the constraint of the texts"):
        lk.watermarks.detect(lk.KgwWatermark(1), [[1, 2]], constraint=lk.TopK(1))


@pytest.mark.parametrize(
    ("texts", "more", "said"),
    [
        ([[2**70]], {}, "text 0 has a token that is not an integer"),
        ([[1], [2.5]], {}, "text 1 has a token that is not an integer"),
        ([["a"]], {}, "text 0 has a token that is not an integer"),
        ([[True]], {}, "text 0 has a token that is not an integer"),
        (torch.tensor([[2**40]]), {}, "text 0 has the token 1099511627776"),
        ([[1, 2]], {"eos_ids": [-1]}, "eos_ids"),
        ([[1, 2]], {"eos_ids": ["a"]}, "eos_ids"),
        ([[1, 2]], {"vocabulary_size": 10**12}, "vocabulary_size is 1000000000000; allowed are integers from 1"),
        ([[1, 2]], {"vocabulary_size": "a"}, "vocabulary_size is 'a'"),
    ],
)
def test_wrong_texts_are_refused(texts: Any, more: dict[str, Any], said: str) -> None:
    for watermark in (lk.KgwWatermark(SECRET), lk.SynthIdWatermark([SECRET]), lk.GumbelWatermark(SECRET)):
        with pytest.raises(ConfigurationError, match=said):
            lk.watermarks.detect(watermark, texts, **more)


def test_equal_keys_are_refused_without_showing_them() -> None:
    with pytest.raises(ConfigurationError, match="keys has a key twice") as caught:
        lk.SynthIdWatermark([1, SECRET, SECRET])
    assert str(SECRET) not in str(caught.value)


def test_the_page_has_the_measured_tables() -> None:
    page = (Path(__file__).parents[2] / "docs" / "watermarks.md").read_text("utf-8")
    for part in table(json.loads(RESULT.read_text("utf-8"))).split("\n\n"):
        assert part.strip() in page
