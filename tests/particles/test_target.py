"""Particles refuse processors without a stated target, lose texts outside of the language, and are reproducible values."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

import logitkit as lk
from logitkit.errors import BatchMismatch, BrokenLogits, ConfigurationError, NoParticleLeft
from logitkit.particles import ParticleFilter, Particles
from logitkit.particles.tokens_needed import TokensNeeded
from logitkit.runtime.completion import completion_of
from tests.particles.toy import EOS, TOKENS, VOCABULARY, finished


def made(processor: lk.Processor[Any] | None, **options: Any) -> ParticleFilter:
    return ParticleFilter(processor=processor, eos_ids=[EOS], **options)


def all_steps(particles: ParticleFilter, limit: int) -> None:
    population = particles.start([], 4, limit)
    while not population.is_done:
        population = particles.step(population, torch.zeros(particles.particles, 4))


@pytest.mark.parametrize(
    ("processor", "message"),
    [
        (
            lk.TopP(0.9),
            "TopP is a truncation: .* leave it out. Biases, penalties, and a Temperature above 0 are allowed",
        ),
        (lk.Xtc(0.5), "Xtc is a truncation"),
        (lk.Temperature(0), "Temperature is a truncation"),
        (lk.KgwWatermark(5), "KgwWatermark is a watermark, which draws tokens by a key"),
        (lk.SynthIdWatermark([1, 2]), "SynthIdWatermark is a watermark"),
        (lk.Stateless(lambda logits, context: logits), "declares no role"),
    ],
)
def test_processors_without_a_stated_target_are_refused(processor: lk.Processor[Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        made(processor)
    with pytest.raises(ConfigurationError, match=message):
        made(lk.chain(lk.Regex("a", VOCABULARY), processor))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"particles": 0}, "particles"),
        ({"resample": 1.5}, "resample"),
        ({"seed": -1}, "seed"),
        ({"resampling": "residual"}, "'residual'; allowed are 'systematic' and 'multinomial'"),
        ({"twist": -1.0}, "twist"),
        ({"eos_ids": []}, "eos_ids is empty"),
        (
            {"twist": 1.0, "processor": lk.BanTokens([0])},
            "twist needs a constraint .* has BanTokens; give a constraint such",
        ),
        ({"twist": 1.0}, "the processor has no constraint"),
    ],
)
def test_arguments_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        ParticleFilter(**{"processor": None, "eos_ids": [EOS], **options})


def test_logits_of_another_shape_and_too_few_columns_are_refused() -> None:
    particles = made(None, particles=3)
    population = particles.start([], 4, 5)
    with pytest.raises(BatchMismatch, match=r"shape \[2, 4\], but the particles need \[3, 4\]"):
        particles.step(population, torch.zeros(2, 4))
    with pytest.raises(ConfigurationError, match="3 columns"):
        particles.start([], 3, 5)
    with pytest.raises(ConfigurationError, match="max_new_tokens"):
        particles.start([], 4, -1)


def test_broken_logits_name_the_particle_and_the_step() -> None:
    particles = made(lk.Regex("aa", VOCABULARY), particles=3)
    population = particles.step(particles.start([0], 4, 5), torch.zeros(3, 4))
    logits = torch.zeros(3, 4)
    logits[2, 1] = torch.nan
    with pytest.raises(BrokenLogits) as caught:
        particles.step(population, logits)
    assert (caught.value.row, caught.value.step) == (2, 1)


def test_no_particle_is_left_if_no_text_fits_the_limit() -> None:
    particles = made(lk.Regex("a{3}", VOCABULARY), particles=4)
    with pytest.raises(
        NoParticleLeft, match="no text is complete after at most 2 tokens; give more max_new_tokens"
    ) as caught:
        all_steps(particles, 2)
    assert (caught.value.particles, caught.value.step, caught.value.limit) == (4, 2, 2)


def test_no_particle_is_left_if_constraints_contradict_each_other() -> None:
    particles = made(lk.chain(lk.Regex("ab", VOCABULARY), lk.BanTokens([0, 2])), particles=4)
    with pytest.raises(
        NoParticleLeft, match="after 0 tokens: no token that the constraints allow has a probability there"
    ):
        particles.step(particles.start([], 4, 5), torch.zeros(4, 4))


def test_a_model_that_bans_the_language_leaves_no_particle() -> None:
    particles = made(lk.Regex("a", VOCABULARY), particles=2)
    with pytest.raises(NoParticleLeft):
        particles.step(particles.start([], 4, 5), torch.tensor([[-torch.inf, 0.0, 0.0, 0.0]] * 2))


class FirstSeen(NamedTuple):
    """The stream of each row at the start."""

    stream: Tensor


class Watching:
    """A constraint of a user that raises the logit of what it allows, and reads streams and limits."""

    role = lk.Role.CONSTRAINT

    def __init__(self) -> None:
        self.streams: list[list[int]] = []
        self.limits: list[int] = []

    def init_state(self, context: lk.Context) -> FirstSeen:
        return FirstSeen(context.streams.clone())

    def advance(self, state: FirstSeen, tokens: Tensor) -> FirstSeen:
        return state

    def process_logits(self, state: FirstSeen, logits: Tensor, context: lk.Context) -> tuple[FirstSeen, Tensor]:
        self.streams.append(context.streams.tolist())
        assert context.limits is not None
        self.limits += context.limits.tolist()
        logits[:, 1] = -torch.inf
        logits[:, 0] = 0.0
        return state, logits


def test_a_constraint_of_a_user_only_masks_and_copies_have_streams_of_their_own() -> None:
    watching = Watching()
    found = finished(made(watching, particles=8, resample=1.0, seed=2), 6, prompt=[1, 1])
    assert found is not None
    assert found.resampled
    assert all(streams == [*range(8)] for streams in watching.streams)
    assert {*watching.limits} == {8}
    assert 1 not in found.tokens.flatten().tolist()
    assert found.log_probability < 0


def test_the_same_seed_gives_the_same_particles() -> None:
    regex = lk.Regex("[ab]+", VOCABULARY)
    first, again, other = (finished(made(regex, seed=seed, resample=1.0), 6) for seed in (1, 1, 2))
    assert first is not None
    assert again is not None
    assert other is not None
    assert torch.equal(first.tokens, again.tokens)
    assert torch.equal(first.log_weights, again.log_weights)
    assert not torch.equal(first.tokens, other.tokens)


def test_steps_do_not_change_the_population_that_they_are_given() -> None:
    particles = made(lk.Regex("[ab]+", VOCABULARY), resample=1.0)
    start = particles.start([], 4, 6)
    logits = torch.randn(16, 4, generator=torch.Generator().manual_seed(1))
    after = particles.step(start, logits.clone())
    kept = after.tokens.clone(), after.log_weights.clone(), after.ended.clone()
    first, second = (particles.step(after, logits.clone()) for _ in range(2))
    assert torch.equal(first.tokens, second.tokens)
    assert all(map(torch.equal, kept, (after.tokens, after.log_weights, after.ended)))
    assert start.tokens.shape == (16, 0)


@pytest.mark.parametrize(
    "constraint",
    [
        lk.Regex("(ab?){1,3}b", VOCABULARY),
        lk.Choice(["a", "abab", "bbbb"], VOCABULARY),
        lk.Grammar('root ::= "a" root "b" | "b"', VOCABULARY, closing=True),
    ],
    ids=["regex", "choice", "grammar"],
)
def test_the_tokens_needed_are_those_of_a_shortest_completion(constraint: Any) -> None:
    language = lk.chain(constraint)
    needed = TokensNeeded(language)
    rows: list[list[int]] = [[]]
    while rows:
        row = rows.pop()
        state = language.advance(language.init_state(lk.Context.of([[]], 4)), torch.tensor([row], dtype=torch.int64))
        found = needed(state, 4)[0].tolist()
        legal = constraint.allowed_tokens(state[0])[0].tolist()
        for token in range(len(TOKENS)):
            if legal[token]:
                wanted = completion_of(constraint, [*row, token])
                assert wanted is not None
                assert found[token] == len(wanted), (row, token)
                rows += [[*row, token]] if len(row) < 3 else []


def test_results_read_as_a_distribution() -> None:
    population = finished(made(lk.Regex("a|b|ab", VOCABULARY), particles=40, seed=3), 3)
    assert population is not None
    texts = [b"".join(TOKENS[token] for token in row if 0 <= token < EOS) for row in population.tokens.tolist()]
    found = Particles.of(population, [text.decode() for text in texts])
    assert sum(found.weights) == pytest.approx(1)
    assert sum(found.distribution().values()) == pytest.approx(1)
    assert [*found.distribution().values()] == sorted(found.distribution().values(), reverse=True)
    assert {*found.distribution()} <= {"a", "b", "ab"}
    assert found.best == max(found.distribution(), key=lambda text: found.distribution()[text])
    drawn = [found.texts[found.draw(seed)] for seed in range(400)]
    for text, weight in found.distribution().items():
        assert drawn.count(text) / 400 == pytest.approx(weight, abs=0.1)
    with pytest.raises(ConfigurationError, match="token ids only"):
        Particles.of(population).distribution()
