"""Every way in which llama-cpp-python generates: what comes out is of the language, and what transformers writes."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from llama_cpp import LogitsProcessorList
from llama_cpp.llama_cache import LlamaRAMCache
from llama_cpp.llama_grammar import LlamaGrammar

import logitkit as lk
from logitkit_adapters.llama_cpp import logits_processor
from logitkit_adapters.transformers import logits_processor as transformers_hook
from tests.adapters.demo import model, prompts, vocabulary
from tests.adapters.demo_llama_cpp import llama, loaded

DATE = r" [0-9]{4}-(0[1-9]|1[0-2])-([0-2][0-9]|3[01])"
COLOURS = r"(red|green|blue|grey)(, (red|green|blue|grey)){3,5}!?"
RECORD = (
    r'\{"name": "[A-Z][a-z]{1,7}( [A-Z][a-z]{1,7})?", "age": ([1-9][0-9]?)'
    r'(, "tags": \[("[a-zäöü€]{1,5}"(, "[a-z]{1,5}"){0,2})?\])?\}'
)
PATTERNS = [DATE, COLOURS, RECORD]
PROMPTS = ["The price of the lamp is ", "Please write to Emma Brown", "Ünï: "]
LIMIT = 90


@cache
def regex(pattern: str) -> lk.Regex:
    return lk.Regex(pattern, vocabulary())


def complete(prompt: str | list[int], processors: Any, **options: Any) -> tuple[str, str]:
    answer = llama().create_completion(
        prompt, logits_processor=processors, **{"temperature": 0, "max_tokens": LIMIT, **options}
    )
    return answer["choices"][0]["text"], answer["choices"][0]["finish_reason"]


def new_ids(prompt: list[int], processors: Any, limit: int, engine: Any = None, **options: Any) -> list[int]:
    """The tokens of `generate`, which by itself stops at nothing, up to EOS or a limit."""
    found: list[int] = []
    tokens = (engine or llama()).generate(prompt, logits_processor=processors, **{"temp": 0, **options})
    for token in tokens:
        found.append(token)
        if token in vocabulary().eos_ids or len(found) == limit:
            break
    tokens.close()
    return found


def state_of(processors: Any) -> Any:
    return processors[0].state


def written_by_transformers(prompt: list[int], processor: Any, limit: int) -> list[int]:
    ids = torch.tensor([prompt])
    options = {"attention_mask": torch.ones_like(ids), "max_new_tokens": limit, "do_sample": False}
    written: list[int] = model().generate(ids, logits_processor=[transformers_hook(processor)], **options)[0].tolist()
    return written[len(prompt) :]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="greedy"),
        pytest.param({"temperature": 1.5, "seed": 1}, id="sampled"),
        pytest.param({"temperature": 3.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "seed": 2}, id="hot"),
        pytest.param({"temperature": 1.0, "typical_p": 0.3}, id="typical"),
        pytest.param({"temperature": 1.0, "mirostat_mode": 1}, id="mirostat"),
        pytest.param({"temperature": 1.0, "mirostat_mode": 2}, id="mirostat 2"),
        pytest.param({"repeat_penalty": 1.3, "presence_penalty": 1.0}, id="penalties"),
        pytest.param({"grammar": "root ::= [^€]*"}, id="grammar"),
        pytest.param({"logit_bias": {"2": 50.0, 40: -100.0}}, id="logit_bias"),
        pytest.param({"logit_bias": {}}, id="empty logit_bias"),
    ],
)
def test_completions_are_of_the_language(pattern: str, options: dict[str, Any]) -> None:
    if "grammar" in options:
        options = {**options, "grammar": LlamaGrammar.from_string(options["grammar"], verbose=False)}
    processors = logits_processor(regex(pattern))
    for prompt in PROMPTS:
        text, reason = complete(prompt, processors, **options)
        assert re.fullmatch(pattern, text), text
        assert reason == "stop"


@pytest.mark.parametrize("pattern", PATTERNS)
def test_streamed_and_chat_completions_are_of_the_language(pattern: str) -> None:
    processors = logits_processor(regex(pattern))
    for prompt in PROMPTS:
        asked = {"temperature": 0, "max_tokens": LIMIT, "logits_processor": processors}
        streamed = [chunk["choices"][0]["text"] for chunk in llama().create_completion(prompt, stream=True, **asked)]
        assert len(streamed) > 3
        assert "".join(streamed) == complete(prompt, processors)[0]
        messages = [{"role": "user", "content": prompt}]
        chat = llama().create_chat_completion(messages, **asked)["choices"][0]["message"]["content"]
        assert re.fullmatch(pattern, chat), chat
        chunks = llama().create_chat_completion(messages, stream=True, **asked)
        assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == chat


CHAINS: dict[str, Callable[[], Any]] = {
    "date": lambda: regex(DATE),
    "colours": lambda: regex(COLOURS),
    "record": lambda: regex(RECORD),
    "penalty": lambda: lk.RepetitionPenalty(1.3),
    "penalty of a window": lambda: lk.RepetitionPenalty(1.5, window=5, include_prompt=False),
    "chain": lambda: lk.chain(lk.RepetitionPenalty(1.2), regex(RECORD)),
}


@pytest.mark.parametrize("name", CHAINS)
def test_greedy_tokens_are_those_of_transformers(name: str) -> None:
    processor = CHAINS[name]()
    for row in prompts(DATE).tolist():
        assert new_ids(row, logits_processor(processor), 64) == written_by_transformers(row, processor, 64)


def test_one_list_serves_generations_of_any_prompts() -> None:
    processors = logits_processor(regex(COLOURS))
    row = prompts(COLOURS, count=1)[0].tolist()
    expected = new_ids(row, logits_processor(regex(COLOURS)), LIMIT)
    # The same prompt, a beginning of it, and prompts that are the text written before, and that and one token.
    assert new_ids(row, processors, LIMIT) == expected
    for prompt in (row[:4], row, row + expected[:3], row + expected[:4], row + expected):
        written = new_ids(prompt, processors, LIMIT)
        assert written == new_ids(prompt, logits_processor(regex(COLOURS)), LIMIT)
        assert re.fullmatch(COLOURS.encode(), vocabulary().decode(written))


def test_a_given_prompt_lets_a_text_continue() -> None:
    row = prompts(RECORD, count=1)[0].tolist()
    whole = new_ids(row, logits_processor(regex(RECORD)), LIMIT)
    for told in (row, [row], torch.tensor(row), torch.tensor([row])):
        processors = logits_processor(regex(RECORD), prompt=told)
        assert new_ids(row + whole[:5], processors, LIMIT) == whole[5:]


def test_padding_is_not_part_of_a_prompt() -> None:
    row = prompts(RECORD, count=1)[0].tolist()
    mask = torch.tensor([[0, 0] + [1] * len(row)])
    for told, length in (({}, len(row) + 2), ({"pad_id": 0}, len(row)), ({"attention_mask": mask}, len(row))):
        hooks = logits_processor(lk.FrequencyPenalty(1.5, include_prompt=True), **told)
        new_ids([0, 0, *row], hooks, 1)
        assert state_of(hooks).occurred.counts.sum() == length


def test_a_prompt_that_is_in_the_cache_changes_nothing() -> None:
    engine = loaded()
    engine.set_cache(LlamaRAMCache())
    for prompt in (PROMPTS[0], PROMPTS[1], PROMPTS[0]):
        asked = {"temperature": 0, "max_tokens": LIMIT, "logits_processor": logits_processor(regex(RECORD))}
        text = engine.create_completion(prompt, **asked)["choices"][0]["text"]
        assert text == complete(prompt, logits_processor(regex(RECORD)))[0]
        assert re.fullmatch(RECORD, text)


def test_sample_alone_is_constrained() -> None:
    engine = loaded()
    for _ in engine.generate([5, 6], temp=0):
        break  # llama-cpp-python keeps this generation's sampler, and by itself would use it below
    processors = logits_processor(regex(COLOURS))
    ids = engine.tokenize(PROMPTS[0].encode())
    engine.reset()
    found: list[int] = []
    while not found or found[-1] not in vocabulary().eos_ids:
        engine.eval([found[-1]] if found else ids)
        found.append(engine.sample(temp=0, logits_processor=processors))
    assert found == new_ids(ids, logits_processor(regex(COLOURS)), LIMIT)


def test_logit_bias_comes_before_the_processors() -> None:
    bias = {7: 40.0, 8: -40.0, **dict.fromkeys(llama().tokenize(PROMPTS[0].encode()), 5.0)}
    penalty = lk.RepetitionPenalty(1.7)
    seen: list[Any] = []

    def look(ids: Any, scores: Any) -> Any:
        seen.append(scores.copy())
        return scores

    complete(PROMPTS[0], LogitsProcessorList([*logits_processor(penalty), look]), logit_bias=bias, max_tokens=3)
    whole = logits_processor(lk.chain(lk.LogitBias(bias), penalty))
    complete(PROMPTS[0], LogitsProcessorList([*whole, look]), max_tokens=3)
    assert [one.tolist() for one in seen[:3]] == [one.tolist() for one in seen[3:]]


def test_other_processors_may_stand_in_the_list() -> None:
    seven = llama().tokenize(b"7")[0]

    def in_place(ids: Any, scores: Any) -> Any:
        scores[seven] += 100
        return scores

    def as_a_copy(ids: Any, scores: Any) -> Any:
        return in_place(ids, scores.copy())

    ours = logits_processor(regex(DATE))
    orders: list[list[Any]] = [
        [in_place, *ours],
        [*ours, in_place],
        [in_place, ours],
        [as_a_copy, *ours],
        [*ours, as_a_copy],
    ]
    for together in orders:
        text, _ = complete(PROMPTS[0], LogitsProcessorList(together), logit_bias={1: 0.0})
        assert text == " 7777-07-27"


@pytest.mark.parametrize("stops", [["ue, "], [", grey", "blue, b", "d, "], ["never"], ["reen, red, g", "n, r"]])
def test_a_text_stream_trims_at_stops(stops: list[str]) -> None:
    for prompt in PROMPTS:
        ids = llama().tokenize(prompt.encode())
        whole = vocabulary().decode(new_ids(ids, logits_processor(regex(COLOURS)), LIMIT)).decode()
        # The stop that is complete first.
        places = [(whole.find(stop) + len(stop), whole.find(stop)) for stop in stops if stop in whole]
        expected = whole[: min(places)[1]] if places else whole
        stream, shown = lk.TextStream(vocabulary(), stops), ""
        held = lk.chain(regex(COLOURS), lk.StopStrings(stops, vocabulary()))
        for token in llama().generate(ids, temp=0, logits_processor=logits_processor(held)):
            shown += stream.feed(token)
            if stream.ended:
                break
        assert shown == expected
        # The stop is the last of the text, by which the engine then ends it.
        ended, reason = complete(prompt, logits_processor(held))
        assert (reason, ended.startswith(expected)) == ("stop", True)
        assert stream.stop is None or expected + str(stream.stop) in ended


def test_the_state_of_the_last_call_can_be_asked() -> None:
    hooks = logits_processor(regex(DATE))
    assert state_of(hooks) is None
    new_ids(llama().tokenize(b"The"), hooks, LIMIT)
    assert not regex(DATE).is_finished(state_of(hooks)).item()  # EOS was chosen after it
    assert not regex(DATE).is_dead(state_of(hooks)).item()


def test_scores_are_changed_where_they_are() -> None:
    seen: list[tuple[int, torch.Size, tuple[int, ...]]] = []

    def look(logits: torch.Tensor, context: lk.Context) -> torch.Tensor:
        seen.append((logits.data_ptr(), logits.shape, logits.stride()))
        return logits

    addresses: list[int] = []

    def engine_s(ids: Any, scores: Any) -> Any:
        addresses.append(scores.ctypes.data)
        return scores

    hooks = LogitsProcessorList([engine_s, *logits_processor(lk.Stateless(look))])
    new_ids(llama().tokenize(b"The"), hooks, 3)
    size = vocabulary().size
    # The candidates are structures of an id, a logit and a probability, 4 bytes each.
    assert [(shape, strides[1]) for _, shape, strides in seen] == [((1, size), 3)] * 3
    assert [address for address, _, _ in seen] == addresses
