"""A processor of an installed package, served by a real vLLM: offline with both model runners, and by a server."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest

from tests.adapters_vllm import engine, package
from tests.adapters_vllm.test_v2 import DRAFTS, SHIM

RUNNERS: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "v1": ({}, {}),
    "v2": ({"VLLM_USE_V2_MODEL_RUNNER": "1"}, {"async_scheduling": True}),
    "v2 with drafts": ({"VLLM_USE_V2_MODEL_RUNNER": "1"}, DRAFTS),
}

# Two that share a call, others that do not, one that fails, and one that asks for nothing of ours.
CONFIGS: list[dict[str, Any]] = [
    {"every_nth": {"n": 2, "token": 70}},
    {"every_nth": {"n": 3, "token": 71}, "repetition_penalty": 1.3},
    {"every_nth": {"n": 2, "token": 70}},
    {"every_nth": {"n": 2, "token": 72}, "banned_strings": ["a"]},
    {"every_nth": {"n": 40, "token": 70, "fails_at": 3}},
    {"every_nth": {"n": 40, "token": 70, "fails_at": -2}},
    {"regex": "[a-f]{4}"},
]


def requests(numbers: range) -> list[Any]:
    given = {"temperature": 0.0, "max_tokens": 10}
    return [(engine.prompt(i), {**given, "extra_args": {"logitkit": CONFIGS[i]}}) for i in numbers]


def environment(folder: Path, more: dict[str, str]) -> dict[str, str]:
    paths = [str(SHIM)] if more else []
    found = [*paths, str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "PYTHONPATH": os.pathsep.join(found), **more}


@pytest.mark.parametrize("runner", RUNNERS)
def test_requests_with_different_parameters_share_a_batch(runner: str, tmp_path: Path) -> None:
    folder = package.install(tmp_path / "installed", every_nth="EveryNth")
    more, settings = RUNNERS[runner]
    everything = range(len(CONFIGS))
    batches = [requests(everything), *(requests(range(i, i + 1)) for i in everything)]
    result = engine.run_apart(
        batches, tmp_path / "out.json", plugin=True, settings=settings, environment=environment(folder, more)
    )
    assert result["v2"] == ("v2" in runner)
    together, *alone = result["batches"]
    assert together == [one for (one,) in alone]
    for config, found in zip(CONFIGS, together, strict=True):
        given = config.get("every_nth")
        if given is None:
            continue
        due = found["tokens"][given["n"] - 1 :: given["n"]]
        assert set(due) <= {given["token"]}
        if given["n"] < 10:
            assert len(due) > 1
    assert len(together[4]["tokens"]) == 4
    assert together[4]["reason"] == "stop"


def test_a_processor_that_breaks_the_protocol_stops_the_start(tmp_path: Path) -> None:
    folder = package.install(tmp_path / "installed", every_nth="EveryNth", forgets_rows="ForgetsRows")
    with pytest.raises(AssertionError) as caught:
        engine.run_apart([], tmp_path / "out.json", plugin=True, settings={}, environment=environment(folder, {}))
    said = str(caught.value)
    assert "the registered processor 'forgets_rows' cannot be served" in said
    assert "ForgetsRows breaks the law" in said


def test_a_package_that_cannot_be_imported_stops_the_start(tmp_path: Path) -> None:
    folder = package.install(tmp_path / "installed", lost="Nothing")
    with pytest.raises(
        AssertionError, match=r"lost = our_processors:Nothing of the package our-processors cannot be used"
    ):
        engine.run_apart([], tmp_path / "out.json", plugin=True, settings={}, environment=environment(folder, {}))


def complete(client: Any, config: Any, number: int = 0) -> Any:
    return client.completions.create(
        model="demo",
        prompt=engine.prompt(number),
        temperature=0.0,
        max_tokens=12,
        extra_body={"vllm_xargs": {"logitkit": json.dumps(config)}, "return_token_ids": True},
    ).choices[0]


def test_a_server_answers_requests_with_different_parameters(switched: Any) -> None:
    configs = [{"every_nth": {"n": 2 + i % 3, "token": 70 + i % 5}, "top_k": 20} for i in range(16)]
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda i: complete(switched, configs[i], i), range(16)))
    long_enough = 0
    for config, answer in zip(configs, answers, strict=True):
        given: Any = config["every_nth"]
        due = answer.token_ids[given["n"] - 1 :: given["n"]]
        assert set(due) <= {given["token"]}
        long_enough += len(due) > 1
    assert long_enough > 8


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"every_mth": {"n": 2, "token": 70}}, "did you mean 'every_nth'?"),
        ({"our_processors:ForgetsRows": {}}, "unknown key 'our_processors:ForgetsRows'"),
        ({"every_nth": {"n": 2}}, "config['every_nth'] lacks 'token'"),
        ({"every_nth": {"n": 0, "token": 70}}, "config['every_nth']['n'] is 0; allowed is a value of"),
        ({"every_nth": {"n": 13, "token": 70}}, "config['every_nth']: n is 13; give another number"),
        ({"chain": [{"every_nth": {"n": 2, "token": 70}}] * 2}, "'every_nth' is given twice"),
    ],
)
def test_a_server_refuses_wrong_parameters(switched: Any, config: Any, message: str) -> None:
    import openai

    with pytest.raises(openai.BadRequestError) as caught:
        complete(switched, config)
    assert message in cast("dict[str, Any]", caught.value.body)["message"]


def test_a_failure_ends_one_request_of_a_server(switched: Any) -> None:
    configs = [{"every_nth": {"n": 40, "token": 70, "fails_at": 3 if i == 2 else -2}} for i in range(6)]
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda i: complete(switched, configs[i], i), range(6)))
    assert answers[2].finish_reason == "stop"
    assert len(answers[2].token_ids) == 4
    for i, answer in enumerate(answers):
        # The others are as if nothing were asked for.
        assert i == 2 or answer.token_ids == complete(switched, {"frequency_penalty": 0}, i).token_ids
