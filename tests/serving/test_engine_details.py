"""Details of the engines' servers, checked against the engines' own code without starting a server."""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from email.message import Message
from functools import partial
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import logitkit as lk
from logitkit_adapters.serving import served_model
from logitkit_adapters.serving.admission import Admission
from logitkit_adapters.serving.middleware import AdmittedRequest, _admitted
from logitkit_adapters.serving.refusals import RefusedRequest
from logitkit_adapters.serving.requests import ServedRequest
from logitkit_adapters.serving.served_model import Options, ServedModel

VOCABULARY = lk.Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_ids=[256])


@pytest.mark.parametrize(
    "values",
    [[], ["Bearer key"], ["bearer key"], ["Bearer  key "], ["Bearer other"], ["key"], ["Bearer key", "Bearer other"]],
)
def test_llama_cpp_allows_the_keys_that_its_server_allows(values: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    engine = pytest.importorskip("llama_cpp.server.app")
    from fastapi import HTTPException, Request

    from logitkit_adapters.serving.llama_cpp_server import _is_allowed
    from logitkit_adapters.serving.middleware import _headers

    monkeypatch.setattr(engine, "_server_settings", SimpleNamespace(api_key="key"))
    scope = {"type": "http", "headers": [(b"authorization", value.encode()) for value in values]}

    async def allowed() -> bool:
        found = await engine.bearer_scheme(Request(scope))
        try:
            await engine.authenticate(SimpleNamespace(api_key="key"), found)
        except HTTPException:
            return False
        return True

    assert _is_allowed(_headers(scope)) == asyncio.run(allowed())


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"response_format": {}}', "response_format is {}"),
        (b'{"logitkit": ""}', "logitkit is a text that is not JSON"),
        (b'{"logitkit": {"choice": ["a"]}, "logitkit": null}', "the key 'logitkit' twice"),
    ],
)
def test_mlx_lm_refuses_what_could_hide_a_constraint(
    body: bytes, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mlx_lm")
    from logitkit_adapters.serving.mlx_lm_server import Handler

    monkeypatch.setattr(served_model, "Admission", partial(Admission, forks=False))
    model = ServedModel(VOCABULARY, None, Options("hermes"))
    answers: list[Any] = []
    handler: Any = Handler.__new__(Handler)
    handler.path, handler.headers, handler.rfile = "/v1/chat/completions", Message(), BytesIO(body)
    handler.headers["Content-Length"] = str(len(body))
    handler.response_generator = SimpleNamespace(
        models=SimpleNamespace(of=lambda _: model), cli_args=SimpleNamespace(max_tokens=8)
    )
    handler.client_address = ("127.0.0.1", 1)
    handler._answer_json = lambda status, answer, retry_after=None: answers.append((status, answer["error"]["message"]))
    handler.do_POST()
    ((status, said),) = answers
    assert status == 400
    assert message in said


@pytest.fixture
def llama_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    """Change the methods of `Llama` as the server does, for one test."""
    llama_cpp = pytest.importorskip("llama_cpp")
    pytest.importorskip("llama_cpp.server.app")
    from logitkit_adapters.serving.llama_cpp_server import install

    for name in ("generate", "create_completion", "create_chat_completion", "__call__"):
        monkeypatch.setattr(llama_cpp.Llama, name, getattr(llama_cpp.Llama, name))
    install.__wrapped__()


@pytest.fixture(scope="module")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> str:
    from logitkit_adapters.demo import model_dir
    from logitkit_adapters.demo.gguf_model import convert

    file = tmp_path_factory.mktemp("gguf") / "demo.gguf"
    file.write_bytes(convert(model_dir()))
    return str(file)


def completed(llama: Any, asked: ServedRequest, **more: Any) -> Any:
    """Return the choice of a completion for an admitted request."""
    from logitkit_adapters.llama_cpp import vocabulary

    token = _admitted.set(AdmittedRequest(asked, SimpleNamespace(vocabulary=vocabulary(llama)), None))  # type: ignore[arg-type]
    try:
        return llama(prompt="The price of", max_tokens=20, temperature=0, **more)["choices"][0]
    finally:
        _admitted.reset(token)


@pytest.mark.parametrize("name", ["llama2", "chatml", "alpaca", "zephyr", "mistrallite", "gemma"])
def test_chat_formats_of_llama_cpp_read_a_call_without_text(name: str) -> None:
    """Many read the content of each message, which a client leaves out or sends as null."""
    chat_format = pytest.importorskip("llama_cpp.llama_chat_format", reason="llama-cpp-python is not installed")
    from logitkit_adapters.serving.llama_cpp_server import _adapted

    said: list[dict[str, Any]] = [{"role": "user", "content": "Weather?"}, {"role": "assistant", "tool_calls": []}]
    said += [{**said[1], "content": None}, {"role": "tool", "tool_call_id": "1", "content": "sunny"}]
    text = getattr(chat_format, f"format_{name}")(messages=_adapted({"messages": said})["messages"]).prompt
    assert "Weather?" in text


@pytest.mark.usefixtures("llama_methods")
def test_llama_cpp_gives_no_probabilities_for_a_stop(gguf: str) -> None:
    import llama_cpp

    llama: Any = llama_cpp.Llama(gguf, n_ctx=256, logits_all=True, verbose=False)
    whole = llama("The price of", max_tokens=20, temperature=0, logprobs=1)["choices"][0]
    text, names = whole["text"], ("tokens", "token_logprobs", "top_logprobs", "text_offset")
    for begin, length in ((3, 1), (6, 5), (9, 3)):
        stop = text[begin : begin + length]
        found = completed(llama, ServedRequest(stops=(stop,)), logprobs=1)
        assert found["text"] == text[: text.index(stop)]
        end = len("The price of") + text.index(stop)
        count = sum(offset < end for offset in whole["logprobs"]["text_offset"])
        assert {name: found["logprobs"][name] for name in names[::3]} == {
            name: whole["logprobs"][name][:count] for name in names[::3]
        }
        assert {len(found["logprobs"][name]) for name in names} == {count}
    assert (
        completed(llama, ServedRequest(stops=("§",)), logprobs=1)["logprobs"]["tokens"] == whole["logprobs"]["tokens"]
    )


@pytest.mark.usefixtures("llama_methods")
def test_llama_cpp_echoes_the_prompt(gguf: str) -> None:
    import llama_cpp

    llama: Any = llama_cpp.Llama(gguf, n_ctx=256, verbose=False)
    whole = llama("The price of", max_tokens=20, temperature=0, echo=True)["choices"][0]["text"]
    assert whole.startswith("The price of ")
    assert completed(llama, ServedRequest(stops=("§",)), echo=True)["text"] == whole
    stop = whole[15:18]
    assert completed(llama, ServedRequest(stops=(stop,)), echo=True)["text"] == whole[: whole.index(stop, 12)]


@pytest.mark.usefixtures("llama_methods")
def test_llama_cpp_answers_with_reasoning(gguf: str) -> None:
    """The server would drop it from an answer that is not streamed, since its own answers have none."""
    import llama_cpp
    from fastapi import Response

    from logitkit_adapters.llama_cpp import vocabulary

    schema = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"]}
    save = {"type": "function", "function": {"name": "save", "parameters": schema}}
    tools = lk.Tools([save], "hermes", choice="required", reasoning=True)
    llama: Any = llama_cpp.Llama(gguf, n_ctx=256, logits_all=True, verbose=False)
    tokens = vocabulary(llama)
    request = AdmittedRequest(
        ServedRequest(tools=tools),
        SimpleNamespace(vocabulary=tokens),  # type: ignore[arg-type]
        lk.chain(lk.ThinkingBudget(5, "</think>", tokens), tools.constraint(tokens)),
    )
    token = _admitted.set(request)
    try:
        asked: Any = {"max_tokens": 90, "temperature": 0, "logprobs": True, "top_logprobs": 2}
        answer = llama.create_chat_completion([{"role": "user", "content": "The price of"}], **asked)
    finally:
        _admitted.reset(token)
    assert isinstance(answer, Response)
    (choice,) = json.loads(bytes(answer.body))["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["reasoning_content"].strip()
    assert [call["function"]["name"] for call in choice["message"]["tool_calls"]]


@pytest.mark.usefixtures("llama_methods")
def test_llama_cpp_with_drafts_has_stops_only(gguf: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import llama_cpp
    from llama_cpp.llama_speculative import LlamaPromptLookupDecoding
    from llama_cpp.server.settings import ModelSettings

    from logitkit_adapters.serving.llama_cpp_server import LlamaCppModels

    monkeypatch.setattr(served_model, "Admission", partial(Admission, forks=False))
    chosen = {
        "plain": ModelSettings(model=gguf),
        "drafting": ModelSettings(model=gguf, draft_model="prompt-lookup-decoding"),
    }
    models = LlamaCppModels(
        SimpleNamespace(_model_settings_dict=chosen, _default_model_alias="plain"), Options("hermes")
    )
    asked = {"response_format": {"type": "json_object"}}
    assert models.of({}).read(asked) is not None
    drafting = models.of({"model": "drafting"})
    with pytest.raises(RefusedRequest, match=r"runs with --draft_model, .* start the server without --draft_model"):
        drafting.read(asked)
    stopped = drafting.read({"stop": "e"})
    assert stopped is not None

    plain: Any = llama_cpp.Llama(gguf, n_ctx=256, verbose=False)
    text = plain("The price of", max_tokens=20, temperature=0)["choices"][0]["text"]
    draft = LlamaPromptLookupDecoding(num_pred_tokens=2)
    llama = llama_cpp.Llama(gguf, n_ctx=256, draft_model=draft, verbose=False)
    assert completed(llama, stopped)["text"] == text.partition("e")[0] != text


def test_mlx_lm_keeps_a_model_that_a_request_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlx_lm")
    from logitkit_adapters.serving.mlx_lm_models import MlxLmModels

    monkeypatch.setattr(served_model, "Admission", partial(Admission, forks=False))
    monkeypatch.setattr(MlxLmModels, "_read", lambda _, __: ServedModel(VOCABULARY, None, Options("hermes")))
    models = MlxLmModels(SimpleNamespace(_model_map={}), Options())
    used = models.of("one")
    for other in ("two", "three", "four"):
        models.of(other)
    assert isinstance(used.processor(ServedRequest(({"regex": "a{3}"},))), lk.Regex)


def test_mlx_lm_does_not_wait_for_a_model_that_takes_long_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlx_lm")
    from logitkit_adapters.serving.mlx_lm_models import MlxLmModels

    free, read = threading.Event(), list[str]()

    def slow(_: Any, path: str) -> Any:
        read.append(path)
        assert path != "slow" or free.wait(30)
        return SimpleNamespace(path=path)

    monkeypatch.setattr(MlxLmModels, "_read", slow)
    models: Any = MlxLmModels(SimpleNamespace(_model_map={}), Options())
    with ThreadPoolExecutor(3) as pool:
        try:
            waiting = [pool.submit(models.of, "slow") for _ in range(2)]
            assert pool.submit(models.of, "other").result(10).path == "other"
        finally:
            free.set()
        assert [each.result(10).path for each in waiting] == ["slow"] * 2
    assert sorted(read) == ["other", "slow"]
    assert not models._reading


def test_a_closed_admission_refuses() -> None:
    admission = Admission(VOCABULARY, forks=False)
    admission.close()
    for ask in (admission.processor, lambda asked: asyncio.run(admission.processor_async(asked))):
        with pytest.raises(RefusedRequest) as caught:
            ask(ServedRequest(({"regex": "a{3}"},)))
        assert caught.value.status == 503


class OneThread:
    """The generation thread of the server, as far as `ServedGeneration` uses it."""

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(1)

    def submit(self, work: Any) -> None:
        self.pool.submit(work)


@pytest.fixture(scope="module")
def small_model() -> tuple[Any, Any]:
    pytest.importorskip("fastapi")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from logitkit_adapters.demo import model_dir

    return AutoModelForCausalLM.from_pretrained(model_dir()), AutoTokenizer.from_pretrained(model_dir())


def generated(small_model: tuple[Any, Any], **settings: Any) -> tuple[str, str]:
    """Return the text and the finish reason of a generation with a `generation_config` of the request's own."""
    from transformers import GenerationConfig

    from logitkit_adapters.serving.transformers_generation import ServedGeneration
    from logitkit_adapters.transformers import vocabulary

    model, tokenizer = small_model
    tokens = vocabulary(tokenizer, model)
    served: Any = SimpleNamespace(vocabulary=tokens)
    request = AdmittedRequest(ServedRequest(), served, lk.Regex("[a-z]{12}", tokens))
    config = GenerationConfig(eos_token_id=model.generation_config.eos_token_id, **settings)

    async def run() -> tuple[str, str]:
        manager = OneThread()
        generation = ServedGeneration(request, model, tokenizer, tokenizer("A", return_tensors="pt"), config, manager)
        try:
            text = "".join([delta["content"] async for delta in generation.deltas()])
        finally:
            manager.pool.shutdown()
        return text, generation.finish_reason

    return asyncio.run(run())


def test_transformers_does_not_mix_the_texts_of_two_sequences(small_model: tuple[Any, Any]) -> None:
    with pytest.raises(ValueError, match=r"has one answer, but .* num_return_sequences=2"):
        generated(small_model, num_return_sequences=2, do_sample=True, max_new_tokens=20)


def test_transformers_says_that_an_answer_was_cut_off(small_model: tuple[Any, Any]) -> None:
    text, reason = generated(small_model, max_new_tokens=30)
    assert (len(text), reason) == (12, "stop")
    text, reason = generated(small_model, max_length=4)
    assert (len(text) < 12, reason) == (True, "length")


def test_transformers_generates_nothing_for_a_client_that_left_before_its_answer_began() -> None:
    from logitkit_adapters.serving.transformers_generation import ServedGeneration

    submitted: list[Any] = []
    manager = SimpleNamespace(submit=submitted.append)
    request = AdmittedRequest(ServedRequest(), SimpleNamespace(vocabulary=VOCABULARY), None)  # type: ignore[arg-type]
    inputs = {"input_ids": torch.tensor([[1]])}

    async def leave() -> None:
        generation = ServedGeneration(request, SimpleNamespace(), None, inputs, SimpleNamespace(), manager)
        assert generation.prompt_tokens == 1
        assert not submitted
        waiting = asyncio.ensure_future(anext(generation.deltas()))
        await asyncio.sleep(0)
        assert len(submitted) == 1
        waiting.cancel()

    asyncio.run(leave())
