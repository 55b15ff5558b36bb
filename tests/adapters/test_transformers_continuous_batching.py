"""Continuous batching: requests that come and go are constrained each by its own tokens, or refused."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from transformers import CompileConfig, ContinuousBatchingConfig, GenerationConfig
from transformers.generation.continuous_batching.requests import RequestState

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit_adapters.transformers import continuous_batching, logits_processor
from tests.adapters.demo import model, prompts, reference, text_of, tokenizer, vocabulary

EMAIL = r"[a-z]{2,8}\.[a-z]{2,8}@(mail\.)?example\.(com|org|net)"
LIMIT = 40


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """The engine logs that it cannot measure memory without psutil, and the errors that tests provoke."""
    logger = logging.getLogger("ContinuousBatchingLogger")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)


def requests() -> list[list[int]]:
    """Prompts of several lengths, one of them longer than a batch: it is prefilled in pieces."""
    rows = prompts(EMAIL).tolist()
    return [rows[0], rows[1] * 6, rows[2] + rows[0], rows[1]]


def config(**options: Any) -> ContinuousBatchingConfig:
    return ContinuousBatchingConfig(**{"num_blocks": 24, "page_size": 16, "max_batch_tokens": 32, **options})


def generation(**options: Any) -> GenerationConfig:
    special = {"eos_token_id": tokenizer().eos_token_id, "pad_token_id": tokenizer().pad_token_id}
    return GenerationConfig(**{"max_new_tokens": LIMIT, "do_sample": False, **special, **options})


def batch(cb: ContinuousBatchingConfig | None = None, times: int = 1, **options: Any) -> dict[str, Any]:
    torch.manual_seed(0)
    done: dict[str, Any] = model().generate_batch(
        requests() * times, generation_config=generation(**options), continuous_batching_config=cb or config()
    )
    return done


def texts(done: dict[str, Any]) -> list[str]:
    assert [result.error for result in done.values() if result.error] == []
    return [text_of(torch.tensor(result.generated_tokens)) for result in done.values()]


@pytest.fixture(scope="module")
def email() -> lk.Regex:
    return lk.Regex(EMAIL, vocabulary())


def test_greedy_output_is_that_of_the_reference_decoder(email: lk.Regex) -> None:
    with continuous_batching(model(), email):
        done = batch()
    assert [result.generated_tokens for result in done.values()] == [
        reference(EMAIL).greedy(torch.tensor([prompt]), LIMIT) for prompt in requests()
    ]
    assert [text for text in texts(done) if not re.fullmatch(EMAIL, text)] == []


@pytest.mark.parametrize("samples", [1, 3])
def test_every_sample_is_of_the_language(email: lk.Regex, samples: int) -> None:
    with continuous_batching(model(), email):
        done = batch(do_sample=True, top_k=50, temperature=1.5, num_return_sequences=samples)
    found = texts(done)
    assert len(found) == len(requests()) * samples
    assert [text for text in found if not re.fullmatch(EMAIL, text)] == []


def test_requests_that_are_evicted_go_on_where_they_were(email: lk.Regex, monkeypatch: pytest.MonkeyPatch) -> None:
    evicted = []
    begin_again = RequestState.create_equivalent_initial_request

    def noted(state: RequestState) -> RequestState:
        evicted.append(state.generated_len())
        return begin_again(state)

    monkeypatch.setattr(RequestState, "create_equivalent_initial_request", noted)
    tight = config(num_blocks=24, page_size=4, max_batch_tokens=16, allow_block_sharing=False)
    with continuous_batching(model(), email):
        done = batch(tight, times=3)
    assert any(evicted)
    # The output of a request was fed again as its prompt; it continues as if nothing had happened.
    outputs = [result.generated_tokens for result in done.values()]
    assert outputs == [reference(EMAIL).greedy(torch.tensor([prompt]), LIMIT) for prompt in requests()] * 3


def test_a_penalty_counts_the_prompt_and_the_output_of_its_own_request() -> None:
    with continuous_batching(model(), lk.RepetitionPenalty(1.4)):
        done = batch()
    for prompt, result in zip(requests(), done.values(), strict=True):
        ids = torch.tensor([prompt])
        mask = torch.ones_like(ids)
        alone = model().generate(
            ids, attention_mask=mask, max_new_tokens=LIMIT, do_sample=False, repetition_penalty=1.4
        )
        assert result.generated_tokens == alone[0, len(prompt) :].tolist()


def test_paged_generate_is_constrained_in_the_block_alone(email: lk.Regex) -> None:
    ids = prompts(EMAIL, count=1)

    def generate() -> str:
        # The engine takes the manager's sizes from the generation configuration.
        settings = generation(cache_implementation="paged")
        settings.continuous_batching_config = config()
        written = model().generate(ids, generation_config=settings, cache_implementation="paged")
        return str(tokenizer().decode(written[0, 0, ids.shape[1] :], skip_special_tokens=True))

    with continuous_batching(model(), email):
        assert re.fullmatch(EMAIL, generate())
    assert not re.fullmatch(EMAIL, generate())


def test_a_manager_that_persists_does_not_outlive_the_block(email: lk.Regex) -> None:
    def persistent() -> dict[str, Any]:
        done: dict[str, Any] = model().generate_batch(
            requests(),
            generation_config=generation(),
            continuous_batching_config=config(),
            persistent_manager=True,
        )
        return done

    with continuous_batching(model(), email):
        for _ in range(2):
            assert [text for text in texts(persistent()) if not re.fullmatch(EMAIL, text)] == []
    try:
        free = persistent()
        assert not any(
            re.fullmatch(EMAIL, tokenizer().decode(result.generated_tokens, skip_special_tokens=True))
            for result in free.values()
        )
        with pytest.raises(ConfigurationError, match="destroy_cached"), continuous_batching(model(), email):
            pass
    finally:
        model().destroy_cached_continuous_batching_manager()


@dataclass(frozen=True)
class Fails:
    """A processor that fails at the third token."""

    def init_state(self, context: lk.Context) -> tuple[torch.Tensor]:
        return (torch.zeros(context.batch_size),)

    def advance(self, state: tuple[torch.Tensor], tokens: torch.Tensor) -> tuple[torch.Tensor]:
        return (state[0] + 1,)

    def process_logits(self, state: Any, logits: torch.Tensor, context: lk.Context) -> Any:
        if state[0].max() > 1:
            raise OSError("too much")
        return state, logits


def test_an_error_of_a_processor_is_raised_at_the_end_of_the_block(email: lk.Regex) -> None:
    done: dict[str, Any] = {}
    with pytest.raises(OSError, match="too much"), continuous_batching(model(), Fails()):
        done = batch()
    assert all(result.error for result in done.values())
    with continuous_batching(model(), email):
        assert [text for text in texts(batch()) if not re.fullmatch(EMAIL, text)] == []


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"varlen_compile_config": CompileConfig()}, "varlen_compile_config"),
        ({"decode_compile_config": CompileConfig()}, "decode_compile_config"),
        ({"default_compile_level": 1}, "default_compile_level"),
    ],
)
def test_compiled_steps_are_refused(email: lk.Regex, options: dict[str, Any], name: str) -> None:
    with continuous_batching(model(), email), pytest.raises(ConfigurationError, match=name):
        batch(config(**options))
    assert "init_continuous_batching" not in vars(model())
    assert "_get_logits_processor" not in vars(model())


def test_a_hook_in_continuous_batching_is_refused(email: lk.Regex, monkeypatch: pytest.MonkeyPatch) -> None:
    # The way in that guides describe, where the engine would leave the hook out or give it one token per row.
    hook, own = logits_processor(email), model()._get_logits_processor
    monkeypatch.setattr(
        model(),
        "_get_logits_processor",
        lambda generation: own(generation, logits_processor=[hook]),
        raising=False,
    )
    for kept in (True, False):
        with pytest.raises(ConfigurationError, match=r"with continuous_batching\(model, processor\)"):
            batch(config(drop_unsupported_processors=kept))


@pytest.mark.parametrize("given", [None, torch.nn.Linear(1, 1), torch.nn.Sequential()])
def test_a_value_that_is_not_a_transformers_model_is_refused(email: lk.Regex, given: Any) -> None:
    with (
        pytest.raises(ConfigurationError, match="give a transformers model"),
        continuous_batching(given, email),
    ):
        pass


def test_blocks_do_not_nest(email: lk.Regex) -> None:
    with (
        continuous_batching(model(), email),
        pytest.raises(ConfigurationError, match="already"),
        continuous_batching(model(), email),
    ):
        pass
    with continuous_batching(model(), email):
        pass
