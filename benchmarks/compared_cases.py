"""The cases that `benchmarks.before_and_after` times in one checkout: prints the CPU seconds of each as JSON.

It uses public names only, so that it runs in checkouts of different age. Each case is repeated within the process, and its median
counts; a first mask is compiled once per process, since a second one would be found in a cache.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import logitkit as lk
from tests import vocabularies

# Calls of a case by rows.
CALLS = {1: 300, 4: 200, 32: 40}
TOKENS = 64
PROMPT = "The price of"


def median(call: Callable[[], object], calls: int) -> float:
    """Return the median of the processor seconds of some calls, after a few that do not count."""
    took = []
    for n in range(calls + 5):
        begin = time.thread_time()
        call()
        if n >= 5:
            took.append(time.thread_time() - begin)
    return statistics.median(took)


def first_masks(vocabulary: lk.Vocabulary, patterns: list[str]) -> float:
    """Return the seconds in which all patterns are compiled, and masked once."""
    # Newer checkouts import most modules when they are first used, older ones before that.
    lk.Regex("a", vocabulary)
    context, logits = lk.Context.of([[]], vocabulary.size), torch.zeros(1, vocabulary.size)
    begin = time.thread_time()
    for pattern in patterns:
        regex = lk.Regex(pattern, vocabulary)
        regex.process_logits(regex.init_state(context), logits.clone(), context)
    return time.thread_time() - begin


def processors(vocabulary: lk.Vocabulary) -> dict[str, Any]:
    """Return the processors whose steps are timed."""
    regex = lk.Regex("[a-z ]*", vocabulary)
    return {
        "Regex": regex,
        "JsonSchema": lk.JsonSchema({"type": "string"}, vocabulary),
        "StopStrings": lk.StopStrings(["\n\n", "stop"], vocabulary),
        "RepetitionPenalty": lk.RepetitionPenalty(1.2),
        "FrequencyPenalty": lk.FrequencyPenalty(0.5),
        "FrequencyPenalty of a window": lk.FrequencyPenalty(0.5, window=64, include_prompt=True),
        "NoRepeatNGram": lk.NoRepeatNGram(3),
        "Dry": lk.Dry(0.8, vocabulary=vocabulary),
        "TopK": lk.TopK(50),
        "TopP": lk.TopP(0.9),
        "MinP": lk.MinP(0.05),
        "Temperature": lk.Temperature(0.7),
        "BanTokens": lk.BanTokens([5, 6, 7]),
        "LogitBias": lk.LogitBias({5: 1.0, 6: -1.0}),
        "chain of four": lk.chain(lk.RepetitionPenalty(1.1), regex, lk.Temperature(0.8), lk.TopP(0.9)),
    }


def steps(vocabulary: lk.Vocabulary, rows: int) -> Iterator[tuple[str, float]]:
    """Time `advance` and `process_logits` of each processor."""
    letters = [i for i, text in enumerate(vocabulary.tokens) if text is not None and len(text) == 1 and text.isalpha()]
    prompt = [letters[n % len(letters)] for n in range(64)]
    context = lk.Context.of([prompt] * rows, vocabulary.size, max_length=4096)
    tokens = torch.tensor([letters[0]] * rows)
    given = torch.randn(rows, vocabulary.size, generator=torch.Generator().manual_seed(0))
    logits = given.clone()
    for name, processor in processors(vocabulary).items():
        state = processor.init_state(context)
        if name == "JsonSchema":
            state = processor.advance(state, torch.tensor([vocabulary.tokens.index(b'"')] * rows))

        def step(processor: Any = processor, state: Any = state) -> None:
            logits.copy_(given)
            processor.process_logits(processor.advance(state, tokens), logits, context)

        yield f"step of {name}, {rows} rows", median(step, CALLS[rows])


def transformers_calls(vocabulary: lk.Vocabulary, rows: int) -> Iterator[tuple[str, float]]:
    """Time the hook of transformers, as `generate` calls it."""
    from logitkit_adapters.transformers import logits_processor

    letter = vocabulary.tokens.index(b"a")
    scores = torch.randn(rows, vocabulary.size, generator=torch.Generator().manual_seed(0))
    own = {"a function of the user": lk.Stateless(lambda logits, _: logits)}
    for name in ("Regex", "chain of four", "a function of the user"):
        hook = logits_processor((processors(vocabulary) | own)[name])
        ids = torch.full((rows, 8), letter)

        def call(hook: Any = hook) -> None:
            nonlocal ids
            hook(ids, scores)
            ids = torch.cat((ids, torch.full((rows, 1), letter)), 1)

        yield f"transformers' hook with {name}, {rows} rows", median(call, CALLS[rows])


def generations() -> Iterator[tuple[str, float]]:
    """Time generations by the demo model in mlx-lm and llama.cpp, and sessions."""
    import llama_cpp
    import mlx.core as mx
    from mlx_lm import load
    from mlx_lm.generate import generate_step
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from logitkit_adapters import llama_cpp as llama_adapter
    from logitkit_adapters import mlx_lm as mlx_adapter
    from logitkit_adapters import transformers as transformers_adapter
    from logitkit_adapters.demo import gguf_path, model_dir

    tokenizer = AutoTokenizer.from_pretrained(model_dir())
    vocabulary = transformers_adapter.vocabulary(tokenizer)
    ids = tokenizer.encode(PROMPT)
    model, *_ = load(str(model_dir()))
    llama = llama_cpp.Llama(str(gguf_path()), n_ctx=512, verbose=False, n_threads=1, n_threads_batch=1)
    for name in ("Regex", "chain of four"):
        processor = processors(vocabulary)[name]

        def in_mlx(processor: Any = processor) -> None:
            hooks: list[Any] = [mlx_adapter.logits_processor(processor)]
            for _ in generate_step(mx.array(ids), model, max_tokens=TOKENS, logits_processors=hooks):
                pass

        def in_llama(processor: Any = processor) -> None:
            hooks = llama_cpp.LogitsProcessorList(list(llama_adapter.logits_processor(processor)))
            tokens = llama.generate(ids, temp=0, logits_processor=hooks)
            for _ in range(TOKENS):
                next(tokens)
            tokens.close()

        yield f"{TOKENS} tokens in mlx-lm with {name}", median(in_mlx, 10)
        yield f"{TOKENS} tokens in llama.cpp with {name}", median(in_llama, 10)
    writer = AutoModelForCausalLM.from_pretrained(model_dir())
    price = lk.Regex(r" [0-9]\.[0-9]{2}", vocabulary)
    go_on = transformers_adapter.continuous(writer, tokenizer, price)

    def session() -> None:
        state = go_on("The price of tea is")
        go_on(state + " euros. The price of milk is")

    yield "a session of two turns", median(session, 10)


def main() -> None:
    """Time everything, and print it as one line of JSON."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    np.seterr(all="ignore")
    tekken = vocabularies.tekken()
    patterns: list[str] = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    found = {f"first masks of {len(patterns)} patterns": first_masks(tekken, patterns)}
    for rows in (1, 32):
        found.update(steps(tekken, rows))
    for rows in (1, 4, 32):
        found.update(transformers_calls(tekken, rows))
    with torch.no_grad():
        found.update(generations())
    print(json.dumps(found))


if __name__ == "__main__":
    main()
