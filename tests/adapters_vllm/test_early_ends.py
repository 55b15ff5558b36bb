"""Texts that several masks together end early become errors of their requests; where one automaton has it all, none does."""

from __future__ import annotations

import gc
import json
import logging
import urllib.request
import weakref
from types import SimpleNamespace
from typing import Any

import openai
import pytest

import logitkit as lk
from logitkit.errors import BankFull
from logitkit_adapters.admission.configurations import Configurations
from logitkit_adapters.vllm import watching
from logitkit_adapters.vllm.early_ends import ends_early, leaves_language
from logitkit_adapters.vllm.parameters import asked
from tests.adapters_vllm import engine

EOS = 256
VOCABULARY = lk.Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_ids=[EOS])
TREE = {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"], "additionalProperties": False}
NESTED = {"$defs": {"node": {"type": ["integer", "array"], "items": {"$ref": "#/$defs/node"}}}, "$ref": "#/$defs/node"}
# Ten digits are needed, and no two neighbours may come twice: "1" can only be written twice.
STUCK = {"regex": "1{10}", "no_repeat_ngram": 2}


def verdict(config: Any, **own: Any) -> Any:
    what = asked(SimpleNamespace(extra_args={"logitkit": config}, max_tokens=30, **own))
    assert what is not None
    return Configurations(VOCABULARY).judge(what)


@pytest.mark.parametrize(
    ("config", "may_end"),
    [
        ({"regex": "a+"}, False),
        ({"regex": "a+", "ban_tokens": [5], "allow_tokens": [97], "min_new_tokens": 3, "forced_eos": 9}, False),
        ({"regex": "a+", "stop_strings": ["aa"]}, False),
        ({"regex": "a+", "loop_stop": 3}, False),
        ({"regex": "a+", "loop_stop": {"then": "b"}}, True),
        ({"regex": "[ab]+", "banned_strings": ["aa"], "choice": ["b", "ab"]}, False),
        ({"json_schema": {"schema": {"enum": [1, 2]}, "closing": True}, "banned_strings": ["1"]}, False),
        ({"repetition_penalty": 1.2, "no_repeat_ngram": 2}, False),
        ({"regex": "a+", "no_repeat_ngram": 2}, True),
        ({"regex": "a+", "forced_tokens": [97]}, True),
        ({"json_schema": NESTED, "banned_strings": ["1"]}, True),
        ({"regex": "a+", "thinking_budget": {"max_tokens": 3, "end": "x"}}, True),
    ],
    ids=str,
)
def test_only_masks_that_stay_apart_may_end_a_text_early(config: Any, may_end: bool) -> None:
    found = verdict(config)
    assert found.refusal is None
    assert found.may_end_early == may_end


def test_bad_words_of_several_tokens_may_end_only_what_nests() -> None:
    words = {"bad_words_token_ids": [[97, 98]]}
    assert not verdict({"regex": "[abc]{3}"}, **words).may_end_early
    assert verdict({"json_schema": NESTED}, **words).may_end_early
    assert not verdict({"json_schema": NESTED}, bad_words_token_ids=[[97]]).may_end_early


@pytest.mark.parametrize(
    ("config", "text", "early"),
    [
        ({"regex": "[0-9]{4}"}, b"12", True),
        ({"regex": "[0-9]{4}"}, b"1234", False),
        ({"regex": "[0-9]{4}"}, b"x", True),
        ({"regex": "[0-9]{4}"}, b"", True),
        ({"regex": "[0-9]*"}, b"", False),
        ({"regex": "[0-9]{4}", "stop_strings": ["2"]}, b"12", False),
        ({"regex": "[0-9]{4}", "stop_strings": ["3"]}, b"12", True),
        ({"regex": "[0-9]{4}", "stop_strings": [{"pattern": "[02]"}]}, b"12", False),
        ({"regex": "[0-9]{4}", "loop_stop": 3}, b"111", False),
        ({"regex": "[0-9]{4}", "loop_stop": 3}, b"112", True),
        ({"regex": "[0-9]{4}", "forced_eos": 3}, b"12", False),
        ({"regex": "[0-9]{4}", "forced_eos": 4}, b"12", True),
        ({"json_schema": NESTED, "banned_strings": ["7"]}, b"[1,[", True),
        ({"json_schema": NESTED, "banned_strings": ["7"]}, b"[1,[]]", False),
        (STUCK, b"11", True),
        ({**STUCK, "regex": "1{2}"}, b"11", False),
    ],
    ids=str,
)
def test_ends_are_judged_by_the_constraint(config: Any, text: bytes, early: bool) -> None:
    made = lk.from_config(config, VOCABULARY)
    assert ends_early(made, [*text, EOS], [EOS]) == early
    assert leaves_language(made, [*text], [EOS]) == (text == b"x")


def stuck(**more: Any) -> dict[str, Any]:
    return {"max_tokens": 20, "temperature": 0.0, "extra_args": {"logitkit": STUCK}, **more}


def test_an_early_end_is_an_error_offline(llm: Any, caplog: pytest.LogCaptureFixture) -> None:
    whole = {"max_tokens": 20, "temperature": 0.0, "extra_args": {"logitkit": {"regex": "[0-9]{4}"}}}
    with caplog.at_level(logging.ERROR):
        one, two, other = engine.answers(llm, [("a", stuck()), ("b", stuck(n=2, temperature=1.0)), ("c", whole)])
    for sample in (*one.outputs, *two.outputs):
        assert sample.finish_reason == "error"
        assert "before the constraint of `logitkit` allows its end" in sample.stop_reason
        assert len(sample.text) < 10
    assert other.outputs[0].finish_reason == "stop"
    assert len(other.outputs[0].text) == 4
    assert caplog.text.count("before the constraint of `logitkit` allows its end") == 3


class Engine:
    """An engine of which only the identity matters."""


def judged(
    made: Engine, text: bytes, config: Any = '{"regex": "[0-9]{20}"}', may_end: bool = False, end: str = "length"
) -> dict[int, str]:
    """Return the judgement on a text of an engine."""
    params = SimpleNamespace(extra_args={"logitkit": config}, max_tokens=20, output_kind=SimpleNamespace(name="DELTA"))
    what = asked(params)
    assert what is not None
    watch = watching.Watch(made, Configurations(VOCABULARY), what, params, [], may_end)
    for byte in text:
        sample = SimpleNamespace(index=0, token_ids=[byte], finish_reason=None, stop_reason=None)
        watch.see(SimpleNamespace(outputs=[sample]))
    watch.see(SimpleNamespace(outputs=[SimpleNamespace(index=0, token_ids=[], finish_reason=end, stop_reason=None)]))
    return watch.early_ends()


def test_an_engine_that_ignores_masks_is_found_out() -> None:
    ignoring, following = Engine(), Engine()
    assert "this engine ignores the masks of plugins" in judged(ignoring, b"12 May")[0]
    assert ignoring not in watching._proven
    assert judged(following, b"") == judged(following, b"abc", '{"top_k": 4}') == {}
    # Tokens that were forced may leave the language of a constraint.
    assert judged(following, b"abc", may_end=True) == {}
    assert following not in watching._proven
    assert judged(following, b"12") == {}
    assert following in watching._proven


def test_a_text_without_tokens_is_judged_always() -> None:
    """As that of a request whose worker has no room for an automaton."""
    made = Engine()
    assert judged(made, b"12") == {}
    assert "ended after 0 tokens" in judged(made, b"", end="stop")[0]
    assert judged(made, b"", '{"regex": "[0-9]*"}', end="stop") == {}
    # Long ones of an engine that was seen to follow a constraint are not.
    assert judged(made, b"12", end="stop") == {}
    assert "ended after 2 tokens" in judged(made, b"12", may_end=True, end="stop")[0]


def test_a_text_that_cannot_be_judged_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: Any) -> Any:
        raise BankFull("no room")

    monkeypatch.setattr(Configurations, "processor", full)
    assert judged(Engine(), b"12", may_end=True, end="stop") == {}
    assert "a text was not checked for an early end: no room" in caplog.text


def test_samples_are_judged_when_they_end_and_once() -> None:
    params = SimpleNamespace(extra_args={"logitkit": STUCK}, max_tokens=20, output_kind=SimpleNamespace(name="DELTA"))
    what = asked(params)
    assert what is not None
    watch = watching.Watch(Engine(), Configurations(VOCABULARY), what, params, [], True)

    def see(index: int, text: bytes, end: str | None) -> bool:
        sample = SimpleNamespace(index=index, token_ids=[*text], finish_reason=end, stop_reason=None)
        return watch.see(SimpleNamespace(outputs=[sample]))

    assert not see(0, b"1", None)
    assert not see(1, b"11", None)
    assert see(0, b"1", "stop")
    assert [*watch.early_ends()] == [0]
    assert see(1, b"", "stop")
    assert [*watch.early_ends()] == [1]
    assert watch.early_ends() == {}


def test_requests_that_are_aborted_do_not_keep_their_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, the memory of its model would not be free again."""

    class Offline(Engine):
        @watching._following_requests
        def add_request(self, request_id: str, prompt: Any, params: Any) -> None: ...

    def watch_of(made: Any, params: Any, prompt: Any) -> watching.Watch:
        what = asked(params)
        assert what is not None
        return watching.Watch(made, Configurations(VOCABULARY), what, params, [], True)

    monkeypatch.setattr(watching, "check_request", lambda *_: None)
    monkeypatch.setattr(watching, "watch_of", watch_of)
    made = Offline()
    params = SimpleNamespace(extra_args={"logitkit": STUCK}, max_tokens=20, output_kind=SimpleNamespace(name="DELTA"))
    made.add_request("a", "prompt", params)
    assert [*watching._offline[made]] == ["a"]
    gone = weakref.ref(made)
    del made
    gc.collect()
    assert gone() is None


def test_requests_without_a_constraint_are_not_followed(llm: Any) -> None:
    from vllm import SamplingParams

    for config, follows in (({"top_k": 4}, False), ({"banned_strings": ["a"]}, False), ({"regex": "a"}, True)):
        params = SamplingParams(extra_args={"logitkit": config})
        engine.answers(llm, [("a", {"extra_args": params.extra_args, "max_tokens": 2})])
        watch = watching.watch_of(llm.llm_engine, params, None)
        assert (watch is not None) == follows


def test_beams_that_are_stuck_are_dropped(llm: Any) -> None:
    from logitkit_adapters.vllm import beam_search

    config = {"choice": ["11", "23"], "no_repeat_ngram": 1}
    (beams,) = beam_search(llm, ["A number: "], beam_width=4, max_tokens=4, config=config)
    assert {beam.text for beam in beams if beam.finished} == {"23"}


def arguments(config: Any) -> dict[str, Any]:
    return {"vllm_xargs": {"logitkit": json.dumps(config)}}


def test_a_server_answers_an_early_end_with_an_error(client: openai.OpenAI) -> None:
    with pytest.raises(openai.UnprocessableEntityError, match="before the constraint of `logitkit` allows its end"):
        client.completions.create(model="demo", prompt="a", max_tokens=20, extra_body=arguments(STUCK))
    messages: Any = [{"role": "user", "content": "a"}]
    with pytest.raises(openai.UnprocessableEntityError, match="before the constraint"):
        client.chat.completions.create(model="demo", messages=messages, max_tokens=20, n=2, extra_body=arguments(STUCK))


def test_a_stream_ends_with_the_error(client: openai.OpenAI) -> None:
    stream = client.completions.create(
        model="demo", prompt="a", max_tokens=20, stream=True, extra_body=arguments(STUCK)
    )
    seen: list[str | None] = []
    with pytest.raises(openai.APIError, match="before the constraint of `logitkit` allows its end"):
        seen.extend(chunk.choices[0].finish_reason for chunk in stream)
    assert set(seen) == {None}


def test_no_sample_of_a_stream_looks_complete(client: openai.OpenAI) -> None:
    """Each is judged when it ends, not when the last one does."""
    # Each digit comes once at most, so texts of many lengths get stuck, and some are complete.
    body = arguments({"regex": "[0-3]{1,2}x|[0-3]{9}", "no_repeat_ngram": 1})
    stream = client.completions.create(
        model="demo", prompt="a", max_tokens=20, n=8, seed=1, temperature=2.0, stream=True, extra_body=body
    )
    texts = dict.fromkeys(range(8), "")

    def read() -> None:
        for chunk in stream:
            (choice,) = chunk.choices
            texts[choice.index] += choice.text
            assert choice.finish_reason is None or texts[choice.index].endswith("x")

    with pytest.raises(openai.APIError, match="before the constraint of `logitkit` allows its end"):
        read()
    assert len(set(texts.values())) > 1


def test_a_stream_of_a_response_ends_with_an_event_of_the_error(client: openai.OpenAI) -> None:
    """vLLM's own server would break the connection off."""
    stream = client.responses.create(
        model="demo", input="a", max_output_tokens=20, stream=True, extra_body=arguments(STUCK)
    )
    *others, last = stream
    assert last.type == "error"
    assert last.code == "422"
    assert "before the constraint of `logitkit` allows its end" in last.message
    assert last.sequence_number == len(others)
    assert "response.completed" not in {event.type for event in others}


def test_a_server_counts_early_ends(client: openai.OpenAI) -> None:
    def counted() -> float:
        with urllib.request.urlopen(f"{client.base_url}".replace("/v1/", "/metrics"), timeout=60) as answer:
            text = answer.read().decode()
        lines = [line for line in text.splitlines() if line.startswith("logitkit_early_ends_total ")]
        return float(lines[0].split()[1]) if lines else 0.0

    before = counted()
    with pytest.raises(openai.UnprocessableEntityError):
        client.completions.create(model="demo", prompt="a", max_tokens=20, extra_body=arguments(STUCK))
    assert counted() == before + 1
