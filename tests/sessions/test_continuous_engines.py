"""`continuous` in every engine: what comes out is what one run from the beginning gives, and little is fed."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

import logitkit as lk
from logitkit.sessions.sequence_parts import CacheDropped
from logitkit_adapters.sessions import continuous
from tests.adapters.demo import vocabulary
from tests.sessions.continuation import PROMPT, PROMPTS, check_weights, lengths
from tests.sessions.engines import COPYING, ENGINES, loaded, watched
from tests.sessions.failing import Failing


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def generator(engine: str, processor: Any = None, **options: Any) -> Any:
    return continuous(*loaded(engine), processor, **options)


def test_continuation_equals_one_shot_and_feeds_23_and_6_positions(engine: str) -> None:
    text = generator(engine)
    with watched(loaded(engine)[0]) as fed:
        s1 = text(PROMPT, max_new_tokens=4)
        first = sum(fed)
        s2 = text(s1, max_new_tokens=6)
    assert (first, sum(fed) - first) == (23, 6)
    whole = text(PROMPT, max_new_tokens=10)
    assert (s2.rows, lengths(s2)) == (whole.rows, [30])
    torch.testing.assert_close(s2.weights, whole.weights, atol=1e-4, rtol=0)
    assert str(s2).startswith(PROMPT)


def test_equals_transformers(engine: str) -> None:
    both = lk.chain(lk.RepetitionPenalty(1.2), lk.Regex(r" [A-Z][a-z]+ [0-9]+\.", vocabulary()))
    for processor in (None, both):
        found, wanted = (generator(name, processor)(PROMPTS, max_new_tokens=9) for name in (engine, "transformers"))
        assert found.rows == wanted.rows
        torch.testing.assert_close(found.weights, wanted.weights, atol=2e-3, rtol=0)


def test_samples_in_parts_and_their_branches(engine: str) -> None:
    draw = generator(engine, lk.FrequencyPenalty(0.3), num_samples=3, seed=3)
    a, whole = draw(PROMPTS[:2], max_new_tokens=4), draw(PROMPTS[:2], max_new_tokens=8)
    assert (a.batch_size, a.num_samples) == (2, 3)
    assert len(set(a.rows)) > 2
    for _ in range(2):
        with watched(loaded(engine)[0]) as fed:
            b = draw(a, max_new_tokens=4)
        assert b.rows == whole.rows
        # Each of four passes feeds one token of every row, in llama.cpp and mlx-lm one row at a time.
        assert sum(fed) <= 4 * (1 if engine == "transformers" else 6) + 2
    assert draw(a, max_new_tokens=4, seed=4).rows != whole.rows
    assert (
        generator(engine)(a[1, 2, :], max_new_tokens=5).rows
        == generator(engine)(a, 5, num_samples=3, do_sample=False)[1, 2, :].rows
    )


@pytest.mark.parametrize("engine", COPYING)
def test_prefix_slices_keep_the_cache(engine: str) -> None:
    text = generator(engine)
    s = text(PROMPTS, max_new_tokens=6)
    for part in (s[:, :7], s.tokens[:, :4], s[:, :-2], s[1:, :5]):
        with watched(loaded(engine)[0]) as fed:
            found = text(part, max_new_tokens=1)
        assert max(fed) <= 4
        # The same tokens without a cache.
        assert text(replace(part, kv_cache=None, cached=0), max_new_tokens=1).rows == found.rows
    with pytest.warns(CacheDropped):
        part = s[:, 2:]
    assert text(part, max_new_tokens=2).rows[0][: len(part.rows[0])] == part.rows[0]


def test_state_plus_state_and_plus_text(engine: str) -> None:
    text = generator(engine)
    left, right = text(PROMPT, max_new_tokens=4), text("Item: pen", max_new_tokens=3)
    for both, more in ((left + right, lengths(right)[0]), (left + " and so", lengths(left + " and so")[0] - 24)):
        with watched(loaded(engine)[0]) as fed:
            found = text(both, max_new_tokens=1)
        # And the last left one, which nothing needed before.
        assert sum(fed) == more + 1
        assert text(replace(both, kv_cache=None, cached=0), max_new_tokens=1).rows == found.rows


def test_beams(engine: str) -> None:
    options = [" yes", " no", " not really", " never"]
    for processor in (None, lk.Choice(options, vocabulary())):
        found, wanted = (
            generator(name, processor, num_beams=3)(PROMPTS[:2], max_new_tokens=4) for name in (engine, "transformers")
        )
        assert found.rows == wanted.rows
        torch.testing.assert_close(found.weights, wanted.weights, atol=2e-3, rtol=0)
    beams = generator(engine, num_beams=3)
    assert beams(beams(PROMPTS, max_new_tokens=2), max_new_tokens=2).rows == beams(PROMPTS, max_new_tokens=4).rows


def test_generators_mix_and_rows_finish_at_different_times(engine: str) -> None:
    pick = generator(engine, lk.Choice([" yes", " no, not at all"], vocabulary()))
    s = pick(["Question: Is Paris in France?\nAnswer:", PROMPT, "Is it?"])
    assert bool(s.finished.all())
    found = generator(engine)(s, max_new_tokens=3)
    for row in range(3):
        assert generator(engine)(s[row, :], max_new_tokens=3).rows[0] == found.rows[row]


@pytest.mark.parametrize("how", [{}, {"num_samples": 3, "seed": 2}, {"num_beams": 3}], ids=["greedy", "drawn", "beams"])
def test_an_eos_that_is_gone_on_from_counts_no_more(engine: str, how: dict[str, Any]) -> None:
    text = generator(engine, **how)
    samples = text.samples
    s = text(["Question: Is Paris in France?\nAnswer:", "Question: Is it?\nAnswer: no"], max_new_tokens=6)
    assert bool(s.finished.any())
    assert bool((s.open_weights > s.weights)[s.finished.reshape(2, samples)].all())
    greedy = generator(engine, num_samples=samples, do_sample=False)
    again = greedy(s, max_new_tokens=1)
    prompts = [int(n) for n in s.prompt_lengths]
    check_weights(loaded("transformers")[0], again, prompts)
    # EOS comes again at once where it was the likeliest token, and the weight is what it was.
    same = again.finished & s.finished
    torch.testing.assert_close(
        again.weights[same.reshape(2, samples)], s.weights[same.reshape(2, samples)], atol=1e-4, rtol=0
    )
    # However it was put together.
    for part in (s.tokens[(slice(None),) * (2 if samples > 1 else 1) + (slice(None),)], s.to("cpu")):
        torch.testing.assert_close(greedy(part, max_new_tokens=1).weights, again.weights)
    both = s + s
    assert torch.equal(both.weights, s.weights * 2)
    torch.testing.assert_close(both.open_weights, s.open_weights * 2)
    if samples == 1:
        assert torch.equal(s.fan_out(2).open_weights, s.open_weights.repeat(1, 2))
    # A row that is carried on stays as it is.
    still = generator(engine, num_samples=samples, do_sample=False, carry_state=True)(s, max_new_tokens=1)
    finished = s.finished.reshape(2, samples)
    assert torch.equal(still.weights[finished], s.weights[finished])
    assert torch.equal(still.open_weights[finished], s.open_weights[finished])


def test_ragged_state_plus_state_feeds_only_the_right_tokens(engine: str) -> None:
    text = generator(engine)
    left, right = text(PROMPTS, max_new_tokens=4), text(["x", "The price of tea and", "Is it?"], max_new_tokens=2)
    counts = lengths(right)
    assert len(set(counts)) > 1
    with watched(loaded(engine)[0]) as fed:
        found = text(left + right, max_new_tokens=1)
    # And the last left one, which nothing needed before. In transformers all rows are one rectangle, and columns are counted.
    wanted = [max(counts) + 1] if engine == "transformers" else [count + 1 for count in counts]
    assert sum(fed) == sum(wanted)
    assert found.rows == text(replace(left + right, kv_cache=None, cached=0), max_new_tokens=1).rows


def test_a_state_of_one_engine_goes_on_in_another(engine: str) -> None:
    s = generator(engine)(PROMPTS, max_new_tokens=3)
    for other in ENGINES:
        assert generator(other)(s, max_new_tokens=3).rows == generator(engine)(PROMPTS, max_new_tokens=6).rows


@pytest.mark.parametrize("seed", [0, 1])
def test_whatever_was_done_to_a_state_it_goes_on_as_without_a_cache(engine: str, seed: int) -> None:
    draw = random.Random(seed)
    text, beams = generator(engine, num_samples=2, do_sample=False), generator(engine, num_beams=2)
    pick = generator(engine, lk.Choice([" yes", " no, not at all"], vocabulary()), num_samples=2, do_sample=False)
    states = [generator(engine, num_samples=2, seed=seed)(PROMPTS[:2], max_new_tokens=5)]
    steps: dict[str, Callable[[Any], Any]] = {
        "text": lambda s: s[:, :, : draw.randint(3, 30)],
        "tokens": lambda s: s.tokens[:, :, : -draw.randint(1, 4)],
        "append": lambda s: s + " and \u00e9",
        "join": lambda s: s + draw.choice(states),
        "greedy": lambda s: text(s, max_new_tokens=2),
        "choice": pick,
        "beams": lambda s: beams(s, max_new_tokens=2),
        "order": lambda s: s[::, -2:, :],
    }
    for name in draw.sample([*steps], len(steps)):
        states.append(steps[name](draw.choice(states)))
        assert states[-1].kv_cache is not None
        for going_on in (text, beams):
            found = going_on(states[-1], max_new_tokens=2)
            wanted = going_on(replace(states[-1], kv_cache=None, cached=0), max_new_tokens=2)
            assert found.rows == wanted.rows, name
            torch.testing.assert_close(found.weights, wanted.weights, atol=1e-3, rtol=0)


@pytest.mark.parametrize("at", [0, 2])
def test_a_failure_half_way_leaves_the_state_as_it_was(engine: str, at: int) -> None:
    text = generator(engine)
    s = text(PROMPTS[:2], max_new_tokens=3)
    wanted = text(s, max_new_tokens=4).rows
    for error in (RuntimeError("no"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            generator(engine, Failing(error, at))(s, max_new_tokens=4)
        with watched(loaded(engine)[0]) as fed:
            assert text(s, max_new_tokens=4).rows == wanted
        assert max(fed) == 1
