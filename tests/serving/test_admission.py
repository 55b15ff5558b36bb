"""Configurations are compiled elsewhere, within limits; threads and processes give the same verdicts."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import Any

import pytest

import logitkit as lk
from logitkit_adapters.serving.admission import Admission
from logitkit_adapters.serving.refusals import RefusedRequest
from logitkit_adapters.serving.requests import ServedRequest

VOCABULARY = lk.Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_ids=[256])
SCHEMA = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"]}
SAVE = {
    "type": "function",
    "function": {
        "name": "save",
        "parameters": {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}},
    },
}


@pytest.fixture(scope="module", params=[True, False], ids=["processes", "thread"])
def admission(request: pytest.FixtureRequest) -> Any:
    made = Admission(VOCABULARY, forks=request.param)
    yield made
    made.close()


@pytest.mark.xdist_group("serve admission")
def test_verdicts(admission: Admission) -> None:
    assert admission.processor(ServedRequest()) is None
    made = admission.processor(ServedRequest(({"regex": "a{3}"},)))
    assert isinstance(made, lk.Regex)
    assert admission.processor(ServedRequest(({"regex": "a{3}"},))) is made
    assert asyncio.run(admission.processor_async(ServedRequest(({"regex": "a{3}"},)))) is made
    closed, plain = {"json_schema": {"schema": SCHEMA, "closing": True}}, {"json_schema": {"schema": SCHEMA}}
    for tokens, closing in ((40, 39), (3, False)):
        found: Any = admission.processor(ServedRequest((closed, plain), max_tokens=tokens))
        assert found.closing == closing


@pytest.mark.xdist_group("serve admission")
@pytest.mark.parametrize(
    ("config", "names", "message", "parameter"),
    [
        ({"regex": "("}, {}, "missing )", "logitkit"),
        ({"regex": "(a|b)*a(a|b){40}"}, {}, "LOGITKIT_SERVER_MAX_", "logitkit"),
        ({"choice": 5}, {}, "logitkit['choice'] is 5", "logitkit"),
        (
            {"guidance": 1.5, "regex": "a"},
            {},
            "Guidance reads the logits of a second pass, which a server does not have. It works in `generate` of",
            "logitkit",
        ),
        ({"reg": 5}, {}, "logitkit has the unknown key 'reg'", "logitkit"),
        ({"regex": "a", "choice": ["b"]}, {}, "logitkit: no text is allowed by all constraints", "logitkit"),
        (
            {"json_schema": {"schema": {"type": 5}}},
            {"json_schema": "response_format"},
            "response_format: 'type'",
            "response_format",
        ),
        # Nothing in this error says which key of the configuration it is about.
        (
            {"json_schema": {"schema": {"type": "string", "pattern": "("}}},
            {"json_schema": "response_format"},
            "response_format: 'pattern' at #: missing )",
            "response_format",
        ),
        (
            {"json_schema": {"schema": {"$ref": "http://x/y"}}, "top_k": 5},
            {"json_schema": "response_format"},
            'nothing is fetched; give "resources": {"http://x/y": ...} beside the schema, or put the schema',
            "response_format",
        ),
        (
            {"tools": {"tools": [SAVE], "format": "hermes"}, "top_k": 5},
            {"tools": "tools"},
            "tools: 'pattern' at tools['save']#/properties/a: missing )",
            "tools",
        ),
        (
            {"json_schema": {"schema": SCHEMA}, "regex": "("},
            {"json_schema": "response_format"},
            "missing )",
            "logitkit",
        ),
    ],
)
def test_refusals(admission: Admission, config: Any, names: Any, message: str, parameter: str) -> None:
    with pytest.raises(RefusedRequest) as caught:
        admission.processor(ServedRequest((config,), names=names))
    assert message in caught.value.message
    with pytest.raises(RefusedRequest) as again:
        asyncio.run(admission.processor_async(ServedRequest((config,), names=names)))
    assert again.value.message == caught.value.message
    assert (caught.value.parameter, caught.value.status) == (parameter, 400)


def test_too_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGITKIT_SERVER_MAX_WAITING", "1")
    admission, busy = Admission(VOCABULARY, forks=False), threading.Event()
    thread: Any = admission._thread
    thread.submit(busy.wait)
    try:
        with ThreadPoolExecutor(2) as pool:
            asked = [pool.submit(admission.processor, ServedRequest(({"regex": text},))) for text in ("b{5}", "c{5}")]
            refused, waiting = wait(asked, 30, FIRST_COMPLETED)
            busy.set()
            errors = [each.exception() for each in refused]
            assert [each.exception() for each in waiting] == [None]
    finally:
        busy.set()
        admission.close()
    (error,) = errors
    assert isinstance(error, RefusedRequest)
    assert (error.status, error.retry_after) == (503, 10)
