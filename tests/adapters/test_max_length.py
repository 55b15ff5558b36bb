"""The maximum length of a row, as every engine and front end passes it to a processor, and its use."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from torch import Tensor

import logitkit as lk
from logitkit.errors import ConfigurationError
from tests.adapters.demo import vocabulary
from tests.sessions.engines import ENGINES, loaded

PROMPTS = ["The price of", "A list of many numbers, as long as can be, in JSON:"]
NEW = 12


def ids(prompt: str) -> list[int]:
    tokens: list[int] = loaded("transformers")[1](prompt).input_ids
    return tokens


@dataclass(frozen=True)
class Watcher:
    """Notes what the context says of each row."""

    seen: list[tuple[int | None, list[int] | None]] = field(default_factory=list)

    def init_state(self, context: lk.Context) -> tuple[()]:
        self._note(context)
        return ()

    def advance(self, state: tuple[()], tokens: Tensor) -> tuple[()]:
        return state

    def process_logits(self, state: tuple[()], logits: Tensor, context: lk.Context) -> tuple[tuple[()], Tensor]:
        self._note(context)
        return state, logits

    def _note(self, context: lk.Context) -> None:
        self.seen.append((context.max_length, None if context.limits is None else context.limits.tolist()))


Run = Callable[[Sequence[str], Any], list[list[int]]]


def transformers_hook(prompts: Sequence[str], processor: Any, **told: Any) -> list[list[int]]:
    from logitkit_adapters.transformers import logits_processor

    model, tokenizer = loaded("transformers")
    inputs = tokenizer(list(prompts), return_tensors="pt", padding=True, padding_side="left")
    hook = logits_processor(processor, attention_mask=inputs["attention_mask"], **{"max_new_tokens": NEW, **told})
    found = model.generate(**inputs, max_new_tokens=NEW, do_sample=False, logits_processor=[hook])
    return [row[inputs["input_ids"].shape[1] :] for row in found.tolist()]


def continuous_batching(prompts: Sequence[str], processor: Any) -> list[list[int]]:
    from transformers import ContinuousBatchingConfig

    from logitkit_adapters.transformers import continuous_batching

    model = loaded("transformers")[0]
    config = ContinuousBatchingConfig(num_blocks=24, page_size=16, max_batch_tokens=64)
    with continuous_batching(model, processor):
        done = model.generate_batch(
            [ids(p) for p in prompts], continuous_batching_config=config, max_new_tokens=NEW, do_sample=False
        )
    return [done[name].generated_tokens for name in sorted(done)]


def mlx_lm_hook(prompts: Sequence[str], processor: Any, **told: Any) -> list[list[int]]:
    from logitkit_adapters.mlx_lm import logits_processor
    from tests.adapters.demo_mlx_lm import plain

    given = {"max_new_tokens": NEW, **told}
    return [plain(ids(p), [logits_processor(processor, **given)], max_tokens=NEW) for p in prompts]


def mlx_lm_batch(prompts: Sequence[str], processor: Any) -> list[list[int]]:
    from logitkit_adapters.mlx_lm import logits_processor
    from tests.adapters.demo_mlx_lm import batch

    rows = [ids(p) for p in prompts]
    hook = logits_processor(processor, prompt=rows, max_new_tokens=NEW)
    return batch(rows, [[hook] for _ in rows], max_tokens=NEW)


def llama_cpp_completion(prompts: Sequence[str], processor: Any) -> list[list[int]]:
    from logitkit_adapters.llama_cpp import logits_processor

    llama = loaded("llama.cpp")[0]
    found = []
    for prompt in prompts:
        answer = llama.create_completion(
            ids(prompt), max_tokens=NEW, temperature=0, logits_processor=logits_processor(processor)
        )
        found.append(llama.tokenize(answer["choices"][0]["text"].encode(), add_bos=False))
    return found


def session(engine: str) -> Run:
    def run(prompts: Sequence[str], processor: Any) -> list[list[int]]:
        from logitkit_adapters.sessions import Session

        with Session(*loaded(engine), processor) as session:
            return [row.token_ids for row in session.generate([ids(p) for p in prompts], max_new_tokens=NEW).rows]

    return run


def continuous(engine: str) -> Run:
    def run(prompts: Sequence[str], processor: Any) -> list[list[int]]:
        from logitkit_adapters.sessions import continuous

        state = continuous(*loaded(engine), processor)(list(prompts), max_new_tokens=NEW)
        return [list(row[len(ids(p)) :]) for row, p in zip(state.rows, prompts, strict=True)]

    return run


FRONT_ENDS: dict[str, Run] = {
    "transformers": transformers_hook,
    "continuous batching": continuous_batching,
    "mlx-lm": mlx_lm_hook,
    "mlx-lm, batch": mlx_lm_batch,
    "llama.cpp": llama_cpp_completion,
    **{f"Session, {engine}": session(engine) for engine in ENGINES},
    **{f"continuous, {engine}": continuous(engine) for engine in ENGINES},
}

every_front_end = pytest.mark.parametrize("front_end", FRONT_ENDS)


@every_front_end
def test_the_maximum_length_of_each_row_is_passed(front_end: str) -> None:
    watcher = Watcher()
    FRONT_ENDS[front_end](PROMPTS, watcher)
    first, second = (len(ids(p)) + NEW for p in PROMPTS)
    for longest, each in watcher.seen:
        assert longest is not None
        assert each is not None
        assert longest >= max(each)
        assert set(each) <= {first, second}
    assert {limit for _, each in watcher.seen for limit in each or ()} == {first, second}


@every_front_end
def test_a_text_that_must_be_closed_is_complete(front_end: str) -> None:
    """However long a model would go on, and whatever the lengths of the prompts in a batch."""
    schema = {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}
    bias = lk.LogitBias({i: 60.0 for i, t in enumerate(vocabulary().tokens) if t and set(t) <= set(b"[1,")})
    written = FRONT_ENDS[front_end](PROMPTS, lk.chain(bias, lk.JsonSchema(schema, vocabulary(), closing=True)))
    assert len(written) == 2
    for row in written:
        text = b"".join(vocabulary().tokens[i] or b"" for i in row if i not in vocabulary().eos_ids)
        assert len(json.loads(text)) >= 1
        assert len(row) >= NEW - 2


def test_llama_cpp_tells_what_its_context_has_room_for() -> None:
    from logitkit_adapters.llama_cpp import logits_processor

    llama = loaded("llama.cpp")[0]
    prompt = ids(PROMPTS[0])

    def seen(run: Callable[[Any], object], **told: Any) -> set[int | None]:
        watcher = Watcher()
        run(logits_processor(watcher, **told))
        return {longest for longest, _ in watcher.seen}

    def first(hooks: Any) -> None:
        tokens = llama.generate(prompt, temp=0, logits_processor=hooks)
        next(tokens)
        tokens.close()

    def completed(**options: Any) -> Callable[[Any], object]:
        stream = options.get("stream", False)

        def run(hooks: Any) -> object:
            answer = llama.create_completion(prompt, temperature=0, logits_processor=hooks, **options)
            return list(answer) if stream else answer

        return run

    assert seen(first) == {llama.n_ctx()}
    assert seen(first, max_new_tokens=5) == {len(prompt) + 5}
    assert seen(completed(max_tokens=3, stream=True)) == {len(prompt) + 3}
    assert seen(completed(max_tokens=3, logit_bias={5: 1.0})) == {len(prompt) + 3}
    assert seen(completed()) == {len(prompt) + 16}
    assert seen(completed(max_tokens=2**20, stop=["e", "a", " "])) == {llama.n_ctx()}
    assert seen(completed(max_tokens=-1, stop=["e", "a", " "])) == {llama.n_ctx()}
    assert seen(completed(max_tokens=3), max_new_tokens=2) == {len(prompt) + 2}
    # The prompt of an earlier generation, which is shorter than what this one begins with.
    assert seen(completed(max_tokens=3), prompt=prompt[:2]) == {len(prompt) + 3}


@pytest.mark.parametrize("engine", ["transformers", "mlx-lm"])
def test_where_an_engine_tells_nothing_it_is_not_known(engine: str) -> None:
    watcher = Watcher()
    (transformers_hook if engine == "transformers" else mlx_lm_hook)(PROMPTS[:1], watcher, max_new_tokens=None)
    assert set(map(str, watcher.seen)) == {"(None, None)"}


def maker(engine: str) -> Callable[..., Any]:
    if engine == "transformers":
        from logitkit_adapters.transformers import logits_processor

        return logits_processor
    if engine == "mlx-lm":
        from logitkit_adapters.mlx_lm import logits_processor as mlx_processor

        return mlx_processor
    from logitkit_adapters.llama_cpp import logits_processor as llama_processor

    return llama_processor


# ONNX Runtime GenAI calls no hooks.
@pytest.mark.parametrize("engine", [engine for engine in ENGINES if engine != "onnxruntime-genai"])
def test_a_processor_that_needs_it_warns_where_the_engine_tells_nothing(engine: str) -> None:
    make = maker(engine)
    closing = lk.JsonSchema({"type": "array"}, vocabulary(), closing=True)
    for processor in (closing, lk.chain(lk.TopK(5), lk.Temperature(1.0))):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            make(processor)
            make(processor, max_new_tokens=5)
        needed = processor is closing and engine != "llama.cpp"
        assert len(caught) == needed
        if needed:
            assert "max_new_tokens=..." in str(caught[0].message)
            assert caught[0].filename == __file__
    for wrong in (0, -1, True, 2.5, "8"):
        with pytest.raises(ConfigurationError, match="max_new_tokens is"):
            make(closing, max_new_tokens=wrong)
