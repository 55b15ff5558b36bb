"""Features that only the server of mlx-lm has: prompt caches, drafts, requests that are generated alone, and other models."""

from __future__ import annotations

import json
import math
import re
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import mlx.core as mx
import openai
import pytest
from transformers import AutoTokenizer

from logitkit_adapters.demo import model_dir
from logitkit_adapters.serving.guarded_hook import GuardedHook
from logitkit_adapters.serving.mlx_lm_server import ConstrainedRequest
from tests.serving.conftest import ENGINES
from tests.serving.servers import Server

pytestmark = pytest.mark.xdist_group("serve mlx-lm")
only_mlx_lm = pytest.mark.parametrize("server", [each for each in ENGINES if "mlx-lm" in each.values], indirect=True)

DATE = r" [0-9]{4}-[0-9]{2}-[0-9]{2}"
# A penalty counts the prompt too, of which a cache and drafts hide a part.
CONFIG = {"regex": DATE, "repetition_penalty": 1.3}


@only_mlx_lm
def test_a_cached_prompt_changes_nothing(server: Server) -> None:
    prompt = "Anna was born on the 3rd of March 1999, and Ben was born on"
    for more in ({}, {"seed": 1}):
        asked: Any = {"max_tokens": 24, "extra_body": {"logitkit": CONFIG, **more}}
        answers = [server.chat(prompt, **asked) for _ in range(2)]
        texts = [answer.choices[0].message.content for answer in answers]
        assert re.fullmatch(DATE, texts[0])
        assert texts[0] == texts[1]
        assert answers[1].usage.prompt_tokens_details.cached_tokens > 3


@only_mlx_lm
def test_drafts_change_nothing(server: Server) -> None:
    plain = server.chat("Born on", max_tokens=24, extra_body={"logitkit": CONFIG})
    drafted: Any = {"logitkit": CONFIG, "draft_model": str(model_dir())}
    with ThreadPoolExecutor(4) as pool:  # requests with and without drafts take turns, and the model is loaded again
        answers = pool.map(
            lambda body: server.chat("Born on", max_tokens=24, extra_body=body), [drafted, {"logitkit": CONFIG}] * 2
        )
        texts = {answer.choices[0].message.content for answer in answers}
    assert texts == {plain.choices[0].message.content}
    assert re.fullmatch(DATE, texts.pop())


@only_mlx_lm
def test_probabilities_of_tokens(server: Server) -> None:
    answer = server.chat("A:", max_tokens=4, logprobs=True, top_logprobs=2, extra_body={"logitkit": {"choice": ["ab"]}})
    found = answer.choices[0].logprobs.content
    assert len(found) == answer.usage.completion_tokens
    assert found[-1].logprob == pytest.approx(0, abs=1e-5)  # nothing but EOS is possible


@only_mlx_lm
@pytest.mark.parametrize("top", [0, 2])
def test_a_stop_has_no_probabilities(server: Server, top: int) -> None:
    asked: Any = {"max_tokens": 24, "logprobs": True, "top_logprobs": top, "temperature": 0}
    whole = server.chat("The price of", **asked, extra_body={"logitkit": {"top_k": 1}}).choices[0]
    text = whole.message.content
    stop = text[6:11]
    short = server.chat("The price of", **asked, stop=stop).choices[0]
    assert short.message.content == text[: text.index(stop)]
    ids = [[each.id] for each in whole.logprobs.content]
    spelled = AutoTokenizer.from_pretrained(model_dir()).batch_decode(ids, skip_special_tokens=True)
    assert "".join(spelled) == text
    begins = [len("".join(spelled[:i])) for i in range(len(spelled))]
    kept = [each for each, begin in zip(whole.logprobs.content, begins, strict=True) if begin < text.index(stop)]
    assert [each.id for each in short.logprobs.content] == [each.id for each in kept]


@only_mlx_lm
def test_a_model_that_is_not_there(server: Server) -> None:
    with pytest.raises(openai.BadRequestError, match=r"the tokens of the model 'nobody/nothing' cannot be read"):
        server.client.chat.completions.create(
            model="nobody/nothing", messages=[{"role": "user", "content": "x"}], response_format={"type": "json_object"}
        )


@only_mlx_lm
@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"prompt": ["a", "b"]}, "prompt is ['a', 'b']; give one text"),
        ({"prompt": [5, 6]}, "prompt is [5, 6]; give one text"),
        ({"prompt": ""}, "the prompt is empty"),
        ({"logit_bias": {"1280": 1}}, "logit_bias has the token id 1280; allowed are ids from 0 to 1279"),
        ({"extra_body": {"top_k": 1280}}, "top_k is 1280; allowed are numbers below 1280"),
        ({"seed": -1}, "seed is -1"),
        (
            {"extra_body": {"repetition_penalty": 1.1, "repetition_context_size": 2**40}},
            "repetition_context_size is 10995",
        ),
        ({"extra_body": {"xtc_probability": 0.5, "xtc_threshold": 0.7}}, "xtc_threshold is 0.7; allowed are"),
        ({"extra_body": {"top_k": True}}, "top_k is true; give an integer"),
        ({"temperature": 2**70}, "temperature is an integer of 71 bits"),
        ({"frequency_penalty": 2**70}, "frequency_penalty is an integer of 71 bits"),
        ({"extra_body": {"repetition_penalty": 10**400}}, "repetition_penalty is an integer of 1329 bits"),
    ],
)
def test_a_request_that_would_end_the_server_is_refused(server: Server, asked: dict[str, Any], message: str) -> None:
    """Each of them ends the engine's thread, or its process; requests without fields of ours get the engine's own status."""
    own = asked.get("extra_body", {})
    for ours, status in (({"logitkit": {"regex": "a{9}"}}, 400), ({}, 404)):
        body = {"prompt": "x", "temperature": 1.0, "max_tokens": 2, **asked, "extra_body": {**own, **ours}}
        with pytest.raises(openai.APIStatusError) as caught:
            server.client.completions.create(model=server.model, **body)
        assert caught.value.status_code == status
        assert message in str(caught.value.body)
    assert server.chat(max_tokens=2).choices


@only_mlx_lm
@pytest.mark.parametrize("name", ["temperature", "min_p", "xtc_threshold"])
def test_an_option_that_is_not_a_number_does_not_end_the_server(server: Server, name: str) -> None:
    """Python's JSON has `NaN`, which passes the engine's own checks."""
    body = {"prompt": "x", "max_tokens": 2, "temperature": 1, "top_k": 5000, "xtc_probability": 0.5}
    if name != "temperature":
        del body["top_k"]
    given = urllib.request.Request(
        f"{server.url}/v1/completions",
        json.dumps({**body, name: math.nan}).encode(),
        {"Content-Type": "application/json"},
    )
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(given, timeout=60)
    caught.value.close()
    assert caught.value.code == 404
    assert server.chat(max_tokens=2).choices


@only_mlx_lm
@pytest.mark.parametrize(("ours", "status"), [({}, 404), ({"logitkit": {"regex": "a{9}"}}, 400)])
def test_a_chat_template_that_returns_a_tensor_does_not_end_the_server(
    server: Server, ours: dict[str, Any], status: int
) -> None:
    with pytest.raises(openai.APIStatusError) as caught:
        server.chat(extra_body={"chat_template_kwargs": {"return_tensors": "np"}, **ours})
    assert caught.value.status_code == status
    assert "the prompt is not a list of token ids; leave return_tensors" in str(caught.value.body)
    assert server.chat(max_tokens=2).choices


@only_mlx_lm
def test_options_that_the_engine_does_not_use_are_not_refused(server: Server) -> None:
    unused = {"repetition_context_size": 2**40, "top_k": 5000, "xtc_threshold": 0.7, "min_p": 1.0}
    assert server.chat(max_tokens=2, extra_body=unused).choices
    used = {
        "repetition_penalty": 1.1,
        "repetition_context_size": 0,
        "top_k": 1279,
        "xtc_probability": 0.5,
        "min_p": 0.1,
    }
    assert server.chat(max_tokens=2, temperature=1.0, seed=0, logit_bias={"-1": 1}, extra_body=used).choices


def test_a_processor_that_fails_ends_its_own_row() -> None:
    class Broken:
        def __call__(self, tokens: mx.array, logits: mx.array) -> mx.array:
            raise RuntimeError("it broke")

    request = ConstrainedRequest(None)
    request.make_hook([1, 2], 8, [3])
    assert request.hook is None  # without a processor

    hook = GuardedHook(Broken(), ConstrainedRequest.only_ends([3]))
    for _ in range(2):
        logits = hook(mx.array([1, 2]), mx.zeros((1, 5), dtype=mx.float16))
        assert logits.dtype == mx.float16
        assert logits.tolist() == [[-mx.inf, -mx.inf, -mx.inf, 0, -mx.inf]]
    assert str(hook.error) == "it broke"
