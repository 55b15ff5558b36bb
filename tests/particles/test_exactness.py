"""Particles on a toy model, against the true conditional by brute force over all rows of tokens."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import logitkit as lk
from logitkit.particles import ParticleFilter
from tests.particles.toy import (
    EOS,
    VOCABULARY,
    Row,
    assert_unbiased,
    bytes_of,
    estimates,
    finished,
    logits_of,
    truth,
)

PATTERN, LIMIT = "(ab?){1,3}b", 5
RUNS = 200

OPTIONS: dict[str, dict[str, Any]] = {
    "by default": {},
    "one particle": {"particles": 1},
    "at every step": {"resample": 1.0},
    "never": {"resample": 0.0},
    "multinomial": {"resampling": "multinomial", "resample": 1.0},
    "twisted": {"twist": 1.0},
    "twisted at every step": {"twist": 0.7, "resample": 1.0, "resampling": "multinomial"},
}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Tensors of four tokens take longer on several threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def accepts(pattern: str) -> Callable[[bytes], bool]:
    return lambda text: re.fullmatch(pattern.encode(), text) is not None


def makes(processor: lk.Processor[Any] | None, **options: Any) -> Callable[[int], ParticleFilter]:
    values = {"particles": 4, **options}
    return lambda seed: ParticleFilter(processor=processor, eos_ids=[EOS], seed=seed, **values)


@pytest.mark.parametrize("name", OPTIONS)
def test_every_estimate_has_the_mean_of_the_truth(name: str) -> None:
    regex = lk.Regex(PATTERN, VOCABULARY)
    assert_unbiased(estimates(makes(regex, **OPTIONS[name]), RUNS, LIMIT), truth(accepts(PATTERN), LIMIT))


def test_the_bias_of_a_text_falls_and_a_single_particle_is_plain_masking() -> None:
    regex, wanted = lk.Regex(PATTERN, VOCABULARY), truth(accepts(PATTERN), LIMIT)
    total = sum(wanted.values())
    variations = {}
    for particles, runs in ((1, 400), (4, 150), (32, 25)):
        mean: dict[Row, float] = {}
        # A run without a particle left gives no text.
        found = [one for one in estimates(makes(regex, particles=particles), runs, LIMIT) if sum(one.values())]
        for one in found:
            for row, value in one.items():
                mean[row] = mean.get(row, 0.0) + value / sum(one.values()) / len(found)
        variations[particles] = sum(abs(mean.get(row, 0.0) - p / total) for row, p in wanted.items()) / 2
        if particles == 1:
            assert masked_variation(mean, wanted) < 0.1
    assert variations[1] > 0.3
    assert variations[4] < 0.75 * variations[1]
    assert variations[32] < 0.3 * variations[1]


def masked_variation(mean: dict[Row, float], wanted: dict[Row, float]) -> float:
    """The total variation to masking token by token, of the rows that are complete in time."""
    regex = lk.Regex(PATTERN, VOCABULARY)
    found: dict[Row, float] = {}

    def grow(row: Row, probability: float) -> None:
        state = regex.advance(regex.init_state(lk.Context.of([[]], 4)), torch.tensor([[*row]], dtype=torch.int64))
        masked = regex.process_logits(state, logits_of(row)[None].clone(), lk.Context.of([[]], 4))[1][0].softmax(0)
        found[(*row, EOS)] = probability * float(masked[EOS])
        if len(row) < LIMIT:
            for token in range(3):
                if masked[token]:
                    grow((*row, token), probability * float(masked[token]))

    grow((), 1.0)
    total = sum(found[row] for row in wanted)
    return sum(abs(mean.get(row, 0.0) - found[row] / total) for row in wanted) / 2


def penalised(row: Row, logits: Tensor) -> Tensor:
    """A frequency penalty of 0.8 and a temperature of 0.7, by their definitions."""
    counts = torch.tensor([row.count(token) for token in range(4)])
    return (logits - 0.8 * counts) / 0.7


@pytest.mark.parametrize("order", ["before", "around", "after"])
def test_penalties_and_temperatures_are_part_of_the_model_wherever_they_stand(order: str) -> None:
    regex, penalty, temperature = lk.Regex(PATTERN, VOCABULARY), lk.FrequencyPenalty(0.8), lk.Temperature(0.7)
    orders: dict[str, list[lk.Processor[Any]]] = {
        "before": [penalty, temperature, regex],
        "around": [penalty, regex, temperature],
        "after": [regex, penalty, temperature],
    }
    found = estimates(makes(lk.chain(*orders[order])), 120, LIMIT)
    assert_unbiased(found, truth(accepts(PATTERN), LIMIT, penalised))


def test_several_constraints_and_bans() -> None:
    chain = lk.chain(lk.Regex("[ab]*b", VOCABULARY), lk.BanTokens([2]), lk.MinNewTokens(2, [EOS]))
    wanted = {row: p for row, p in truth(accepts("[ab]*b"), 4).items() if 2 not in row and len(row) > 2}
    assert_unbiased(estimates(makes(chain), 120, 4), wanted)


def test_without_a_constraint_the_language_is_that_of_texts_within_the_limit() -> None:
    wanted = truth(lambda text: True, 3)
    assert 0 < sum(wanted.values()) < 1
    assert_unbiased(estimates(makes(None), 120, 3), wanted)


def test_a_stop_takes_the_place_of_eos() -> None:
    wanted: dict[Row, float] = {}

    def grow(row: Row, probability: float) -> None:
        chances = logits_of(row).double().softmax(0).tolist()
        if b"ba" in bytes_of(row):
            wanted[(*row, EOS)] = probability
            return
        wanted[(*row, EOS)] = probability * chances[EOS]
        for token in range(3) if len(row) < 4 else ():
            grow((*row, token), probability * chances[token])

    grow((), 1.0)
    assert_unbiased(estimates(makes(lk.StopStrings(["ba"], VOCABULARY)), 120, 4), wanted)


def test_a_stop_counts_only_where_the_other_constraints_allow_an_end() -> None:
    chain = lk.chain(lk.Regex("(ab){2}|bb", VOCABULARY), lk.StopStrings(["ba"], VOCABULARY))
    wanted = truth(accepts("bb"), 4)
    # The stop is complete with the last token, or the text goes on and is not of the language.
    for row in ((2, 2), (0, 1, 2)):
        chances = [float(logits_of(row[:i]).double().softmax(0)[token]) for i, token in enumerate(row)]
        wanted[(*row, EOS)] = math.prod(chances)
    assert_unbiased(estimates(makes(chain), 120, 4), wanted)


def test_forced_tokens_count_with_the_probability_of_the_model() -> None:
    chain = lk.chain(lk.Regex("[ab]+", VOCABULARY), lk.ForcedTokens([1, 0]))
    wanted = {row: p for row, p in truth(accepts("[ab]+"), 4).items() if row[:2] == (1, 0)}
    assert_unbiased(estimates(makes(chain), 120, 4), wanted)


@pytest.mark.parametrize("twist", [0.0, 1.0])
def test_closing_changes_the_proposal_and_not_the_target(twist: float) -> None:
    schema = {"type": "string", "pattern": "^a+$"}
    vocabulary = lk.Vocabulary([b"a", b'"', b'a"', None], eos_ids=[EOS])
    texts = {b'"' + b"a" * count + b'"' for count in range(1, 5)}
    wanted: dict[Row, float] = {}

    def grow(row: Row, probability: float) -> None:
        chances = logits_of(row).double().softmax(0).tolist()
        text = b"".join((b"a", b'"', b'a"')[token] for token in row)
        if text in texts:
            wanted[(*row, EOS)] = probability * chances[EOS]
        for token in range(3) if len(row) < 4 else ():
            grow((*row, token), probability * chances[token])

    grow((), 1.0)
    lost = {}
    for closing in (False, True):
        if twist and not closing:
            continue
        constraint = lk.JsonSchema(schema, vocabulary, closing=closing)
        found = estimates(makes(constraint, particles=2, twist=twist), 120, 4)
        assert_unbiased(found, wanted)
        lost[closing] = sum(not sum(one.values()) for one in found)
    # With closing, no particle is lost because the text is too long.
    assert lost[True] == 0
    assert twist or lost[False] > 0


def test_the_effective_sample_size_falls_and_resampling_restores_it() -> None:
    regex = lk.Regex(PATTERN, VOCABULARY)
    population = finished(ParticleFilter(processor=regex, eos_ids=[EOS], particles=64, seed=1), LIMIT)
    assert population is not None
    sizes = population.effective_sample_sizes
    assert sizes[0] == pytest.approx(64)
    assert [step for step, size in enumerate(sizes[:-1]) if size < 32] == [*population.resampled]
    assert population.resampled
    assert math.isfinite(population.log_probability)
