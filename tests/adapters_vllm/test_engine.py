"""A real engine of vLLM, with many requests that ask for different things at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.adapters_vllm import engine, mixed, together

REQUESTS = mixed.requests(64)

ALONE = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    alone = [[request] for number, request in enumerate(REQUESTS) if not mixed.is_drawn(number)]
    out = tmp_path_factory.mktemp("v1") / "out.json"
    batches = [REQUESTS, together.REQUESTS, *alone]
    return engine.run_apart(batches, out, plugin=True, settings=together.SETTINGS, environment=ALONE)


@pytest.mark.parametrize("number", range(64))
def test_each_output_is_the_one_that_was_asked_for(found: Any, number: int) -> None:
    mixed.check(number, found["batches"][0][number])


def test_most_texts_come_to_their_end(found: Any) -> None:
    assert sum(one["reason"] == "stop" for one in found["batches"][0]) > 32


def test_requests_came_back_with_what_they_had_said(found: Any) -> None:
    assert not found["v2"]
    assert found["preemptions"] > 4
    assert len(found["resumptions"]) > 4


def test_each_request_is_as_it_is_alone(found: Any) -> None:
    together_, _, *alone = found["batches"]
    same = [one for number, one in enumerate(together_) if not mixed.is_drawn(number)]
    for one, (other,) in zip(same, alone, strict=True):
        assert one == other


def test_what_vllm_has_of_its_own_composes(found: Any) -> None:
    together.check(found["batches"][1])


def test_requests_that_ask_for_nothing_are_as_without_the_plugin(tmp_path: Path) -> None:
    """With the same neighbours, of which vLLM's own numbers depend, down to the last bit of each logprob."""
    with_plugin, without = (
        engine.run_apart(
            [together.plain(24, 40, plugin)],
            tmp_path / f"{plugin}.json",
            plugin=plugin,
            settings={"logprobs_mode": "processed_logprobs"},
            environment=ALONE,
        )
        for plugin in (True, False)
    )
    together.check_plain(with_plugin["batches"][0], without["batches"][0])
    assert with_plugin["preemptions"] == without["preemptions"] > 0


def test_a_refused_request_harms_no_other(llm: Any) -> None:
    from vllm.exceptions import VLLMValidationError

    with pytest.raises(VLLMValidationError, match=r"missing \), unterminated subpattern.*\n    \(a\n    \^"):
        engine.generate(llm, [("a", {"extra_args": {"logitkit": {"regex": "(a"}}})])
    size = llm.llm_engine.model_config.get_vocab_size()
    with pytest.raises(VLLMValidationError, match=rf"config\['ban_tokens'\]\[0\] is {size}"):
        engine.generate(llm, [("a", {"extra_args": {"logitkit": {"ban_tokens": [size]}}})])
    with pytest.raises(
        VLLMValidationError, match="Guidance reads the logits of a second pass, which a server does not have"
    ):
        engine.generate(llm, [("a", {"extra_args": {"logitkit": {"guidance": 1.5}}})])
    assert engine.generate(llm, [REQUESTS[2]])[0].text in {"yes", "no", "perhaps not"}


def test_bans_that_leave_nothing_of_a_grammar_end_one_request_and_no_other(llm: Any) -> None:
    """When a grammar of vLLM allows no token, not even EOS, vLLM reports an error of the request."""
    apart = {"structured_outputs": {"regex": "[a-f]{4,9}"}, "extra_args": {"logitkit": {"banned_strings": [*"abcdef"]}}}
    asked = [("a", {"temperature": 0.0, **apart}), REQUESTS[2]]
    ended, other = engine.generate(llm, asked)
    assert ended.text == ""
    assert other.text in {"yes", "no", "perhaps not"}


def test_a_grammar_of_the_engine_and_a_language_of_the_plugin_are_refused_together(llm: Any) -> None:
    from vllm.exceptions import VLLMValidationError

    both = {"structured_outputs": {"regex": "[a-f]{4,9}"}, "extra_args": {"logitkit": {"regex": "[x-z]+"}}}
    with pytest.raises(VLLMValidationError, match="Give one of them"):
        engine.generate(llm, [("a", both)])
