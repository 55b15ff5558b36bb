"""A processor for each request in continuous batching: each request gets the tokens that it gets alone, in every mode."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import torch
from transformers import ContinuousBatchingConfig, GenerationConfig
from transformers.generation.continuous_batching.requests import RequestState

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit_adapters.transformers import continuous_batching, logits_processor
from tests.adapters.demo import model, prompts, tokenizer, vocabulary
from tests.adapters.engine_ahead import asynchronous, graphs
from tests.conformance.engines import until_eos
from tests.conformance.families import family

NEW = 14
MODES = ("synchronous", "asynchronous", "graphs", "asynchronous, graphs")
EOS = 2


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """The engine logs that it cannot measure memory without psutil, and the errors that tests provoke."""
    logger = logging.getLogger("ContinuousBatchingLogger")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)


@pytest.fixture
def mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The options of a mode, which is then available on a CPU."""
    name = request.param
    options = {"use_async_batching": "asynchronous" in name, "use_cuda_graph": ("graphs" in name, False)}
    if options["use_async_batching"]:
        asynchronous(monkeypatch)
    if "graphs" in name:
        with graphs(monkeypatch) as tape:
            yield options
        assert tape.made
        assert tape.replays > tape.made, "most steps must be replayed"
    else:
        yield options


@cache
def rows() -> list[list[int]]:
    return [[*row] for row in prompts("[0-9]+", count=3).tolist()] * 2


@cache
def processors() -> list[Any]:
    v = vocabulary()
    return [
        lk.Regex("[a-z ]{4,12}\\.", v),
        lk.chain(lk.RepetitionPenalty(1.3), lk.JsonSchema({"type": "array", "items": {"type": "integer"}}, v)),
        None,
        lk.chain(lk.Temperature(0.7), lk.BannedStrings(["e", "a"], v)),  # in another order than configurations
        lk.Stateless(lambda logits, context: logits - context.lengths[:, None] % 2 * logits.new_ones(1)),
        family("stops"),
    ]


def alone(prompt: list[int], processor: Any, new: int = NEW) -> list[int]:
    hooks = [] if processor is None else [logits_processor(processor)]
    ids = torch.tensor([prompt])
    settings = {"max_new_tokens": new, "do_sample": False, "attention_mask": torch.ones_like(ids)}
    return until_eos(model().generate(ids, logits_processor=hooks, **settings)[0, len(prompt) :].tolist())


@cache
def all_alone() -> list[list[int]]:
    return [alone(prompt, processor) for prompt, processor in zip(rows(), processors(), strict=True)]


def config(**options: Any) -> ContinuousBatchingConfig:
    small = {"num_blocks": 24, "page_size": 16, "max_batch_tokens": 32, "q_padding_interval_size": 16}
    return ContinuousBatchingConfig(**{**small, "kv_padding_interval_size": 64, "max_requests_per_batch": 8, **options})


def generation(**options: Any) -> GenerationConfig:
    special = {"eos_token_id": EOS, "pad_token_id": tokenizer().pad_token_id}
    return GenerationConfig(**{"max_new_tokens": NEW, "do_sample": False, **special, **options})


def batch(inputs: list[list[int]], options: dict[str, Any], **settings: Any) -> list[list[int]]:
    torch.manual_seed(0)
    done = model().generate_batch(
        inputs, generation_config=generation(**settings), continuous_batching_config=config(**options)
    )
    assert [result.error for result in done.values() if result.error] == []
    by_name = {name: result.generated_tokens for name, result in done.items()}
    return [by_name[name] for name in sorted(by_name, key=lambda name: [*map(int, name[4:].split("__child#"))])]


def named(given: list[Any]) -> dict[str, Any]:
    return {f"req_{number}": processor for number, processor in enumerate(given)}


@pytest.mark.parametrize("mode", MODES, indirect=True)
def test_each_request_gets_what_it_gets_alone(mode: dict[str, Any]) -> None:
    with continuous_batching(model(), named(processors())):
        assert batch(rows(), mode) == all_alone()


@pytest.mark.parametrize("mode", MODES, indirect=True)
def test_a_function_of_the_request(mode: dict[str, Any]) -> None:
    """More requests than run at a time: they take the rows of those that have ended, with processors that are made late."""
    asked = []
    inputs, patterns = rows() * 2, ["[a-z]{2,5}", "[0-9]{2,4}", "[A-Z][a-z]{1,3}", "(ab|cd){2}"] * 3

    def processor_of(request_id: str) -> lk.Processor[Any]:
        asked.append(request_id)
        return lk.Regex(patterns[int(request_id[4:])], vocabulary())

    wanted = [alone(row, lk.Regex(pattern, vocabulary())) for row, pattern in zip(inputs, patterns, strict=True)]
    with continuous_batching(model(), processor_of):
        assert batch(inputs, {**mode, "max_requests_per_batch": 4}) == wanted
    assert sorted(asked) == sorted(f"req_{number}" for number in range(12))


# In asynchronous batching, transformers 5.24 fails to fork samples, with or without processors.
@pytest.mark.parametrize("mode", ["synchronous", "graphs"], indirect=True)
def test_samples_of_a_request_have_its_processor(mode: dict[str, Any]) -> None:
    letters, digits = lk.Regex("[a-z]{3,6}", vocabulary()), lk.Regex("[0-9]{3,6}", vocabulary())
    with continuous_batching(model(), named([letters, digits])):
        found = batch(rows()[:2], mode, do_sample=True, num_return_sequences=3, top_k=50)
    texts = [tokenizer().decode(row, skip_special_tokens=True) for row in found]
    assert len(texts) == 6
    assert all(letters.matches(text) for text in texts[:3])
    assert all(digits.matches(text) for text in texts[3:])
    assert len({*texts}) > 3


@pytest.mark.parametrize("mode", [MODES[1], MODES[3]], indirect=True)
def test_requests_that_are_evicted_while_a_token_is_in_flight(
    mode: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    evicted = []
    begin_again = RequestState.create_equivalent_initial_request

    def noted(state: RequestState) -> RequestState:
        evicted.append(state.generated_len())
        return begin_again(state)

    monkeypatch.setattr(RequestState, "create_equivalent_initial_request", noted)
    tight = {"num_blocks": 14, "page_size": 4, "max_batch_tokens": 16, "allow_block_sharing": False}
    given = [*processors(), *processors()]
    with continuous_batching(model(), named(given)):
        assert batch(rows() * 2, {**mode, **tight}) == all_alone() * 2
    assert any(evicted)


class Fails(lk.Regex):
    """A language that cannot be started."""

    def init_state(self, context: lk.Context) -> Any:
        raise OSError("cannot begin")


@pytest.mark.parametrize("wrong", ["absent", "starts", "class", "raises"])
def test_a_wrong_request_ends_and_disturbs_no_other(wrong: str) -> None:
    good = lk.Regex("[a-z]{2,5}", vocabulary())

    def processor_of(request_id: str) -> Any:
        if request_id == "req_1":
            if wrong == "raises":
                raise OSError("no such thing")
            return {"starts": Fails("[0-9]+", vocabulary()), "class": lk.Regex}[wrong]
        return good

    given = {"req_0": good, "req_2": good} if wrong == "absent" else processor_of
    message = {"absent": "'req_1' is not in the mapping", "starts": "cannot begin", "class": "class Regex"}
    expected = ConfigurationError if wrong in ("absent", "class") else OSError
    found: list[list[int]] = []
    with pytest.raises(expected, match=message.get(wrong, "no such")), continuous_batching(model(), given):
        found = batch(rows()[:3], {})
    assert found == [alone(rows()[0], good), [EOS], alone(rows()[2], good)]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"req_0": lk.TopK}, "request 'req_0' is the class TopK"),
        (lk.TopK, "processor is the class TopK"),
        ([lk.TopK(1)], "processor is a list of 1"),
        (None, "a mapping from request ids"),
    ],
    ids=str,
)
def test_wrong_processors_are_refused_at_once(given: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message), continuous_batching(model(), given):
        pass


@pytest.mark.parametrize("mode", ["graphs"], indirect=True)
def test_what_a_graph_cannot_run_is_refused_by_name(mode: dict[str, Any]) -> None:
    unique = {"type": "array", "uniqueItems": True, "minItems": 2, "items": {"type": "integer"}}
    remembers, other = lk.JsonSchema(unique, vocabulary()), lk.Regex("[a-z]{9}", vocabulary())
    found: list[list[int]] = []
    with (
        pytest.raises(ConfigurationError, match=r"uniqueItems.*use_cuda_graph=False"),
        continuous_batching(model(), named([remembers, other])),
    ):
        found = batch(rows()[:2], mode)
    assert found == [[EOS], alone(rows()[1], other)]


def test_asynchronous_batching_of_a_model_on_a_cpu_is_refused() -> None:
    with (
        continuous_batching(model(), lk.TopK(5)),
        pytest.raises(ConfigurationError, match="needs a model on cuda or xpu, but it is on cpu"),
    ):
        batch(rows()[:1], {"use_async_batching": True})


def test_graphs_without_an_eos_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model().generation_config, "eos_token_id", None)
    monkeypatch.setattr(model().config, "eos_token_id", None)
    with (
        continuous_batching(model(), lk.TopK(5)),
        pytest.raises(ConfigurationError, match=r"use_cuda_graph .* needs an EOS id"),
    ):
        batch(rows()[:1], {"use_cuda_graph": True})
