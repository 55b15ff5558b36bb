"""`StopStrings` compared with `StopStringCriteria` of transformers, in turns within one run.

Both get 2,000 tokens of context from Tekken (131,072 ids), on the CPU, with one thread. transformers' looks at the end of the
context in every step, and sees a stop only in the step that completes it. Ours advances its state by the last token, and also
processes the logits of the step. Construction is timed without the caches of either. Run `pytest
benchmarks/bench_stop_strings.py --benchmark-json=FILE`, or `python -m benchmarks.bench_stop_strings`.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from typing import Any

import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture
from torch import Tensor

import logitkit as lk
from benchmarks.side_by_side import medians
from benchmarks.tables import Tables
from logitkit.limits import DEFAULT_LIMITS
from logitkit.stopping.stop_automaton import StopAutomaton
from tests import vocabularies

CONTEXT = 2_000
STOPS = ("\n\nObservation:", "</answer>", "\nUser:", "\n### Instruction")


@pytest.mark.parametrize("rows", [1, 32])
def test_step(rows: int, benchmark: BenchmarkFixture, tables: Tables) -> None:
    # Imported here: run as a program, this file is read before pytest, which must see plugins first.
    from transformers import StopStringCriteria

    vocabulary = vocabularies.tekken()
    assert vocabulary.trie.depth > 1
    tokenizer = _tokenizer(vocabulary)
    begin = time.perf_counter()
    theirs = StopStringCriteria(tokenizer, list(STOPS))
    their_construction = time.perf_counter() - begin
    begin = time.perf_counter()
    ours = lk.StopStrings(STOPS, vocabulary)
    our_construction = time.perf_counter() - begin

    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(1_000, 30_000, (rows, CONTEXT), generator=generator)
    spelled = {t: i for i, t in enumerate(vocabulary.tokens) if t}
    ends = [spelled[t] for t in (b"</", b"answer", b">")]
    stopped = ids.clone()
    stopped[0, -3:] = torch.tensor(ends)
    logits = torch.randn(rows, vocabulary.size, generator=generator)
    context = lk.Context.of([[]] * rows, vocabulary.size)
    before = ours.advance(ours.init_state(context), ids[:, :-1])
    token = ids[:, -1].contiguous()

    def step() -> Tensor:
        return ours.process_logits(ours.advance(before, token), logits, context)[1]

    def fired(tokens: Tensor) -> list[bool]:
        found: list[bool] = ours.fired(ours.advance(ours.init_state(context), tokens)).tolist()
        return found

    nothing = torch.zeros(())
    assert theirs(ids, nothing).tolist() == fired(ids) == [False] * rows
    assert theirs(stopped, nothing).tolist() == fired(stopped) == [True, *[False] * (rows - 1)]
    found = medians({"theirs": lambda: theirs(ids, nothing), "ours": step}, rounds=200)
    benchmark.pedantic(step, rounds=50, warmup_rounds=3)
    us = {name: seconds * 1e6 for name, seconds in found.items()}
    benchmark.extra_info.update({f"{name}_us": value for name, value in us.items()})
    table = tables.table(
        f"StopStrings, {len(STOPS)} stops, {CONTEXT:,} tokens, {vocabulary.size:,} columns, us a step (medians)",
        *("rows", "transformers", "ours", "ours / theirs"),
    )
    table.add(str(rows), us["theirs"], us["ours"], us["ours"] / us["theirs"])
    if rows == 1:
        table = tables.table(
            f"StopStrings, {len(STOPS)} stops, construction, ms (once)",
            *("", "transformers", "ours", "ours / theirs"),
        )
        table.add("cold", their_construction * 1e3, our_construction * 1e3, our_construction / their_construction)


def _tokenizer(vocabulary: lk.Vocabulary) -> Any:
    """Return a tokenizer of transformers with the same tokens; it decodes as they are spelled, and encodes by single bytes."""
    from tokenizers import Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    letter = bytes_to_unicode()
    ids = {"".join(letter[b] for b in t): i for i, t in enumerate(vocabulary.tokens) if t}
    backend = Tokenizer(models.BPE(ids, merges=[]))
    backend.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=backend)


@pytest.mark.parametrize("count", [1, 4, 1_000])
def test_construction(count: int, benchmark: BenchmarkFixture, tables: Tables) -> None:
    vocabulary = vocabularies.tekken()
    assert vocabulary.trie.depth > 1
    words = [t for t in vocabulary.tokens if t and len(t) > 4]
    order = torch.randperm(len(words), generator=torch.Generator().manual_seed(0))[: 2 * count].tolist()
    stops = tuple(words[a] + words[b] for a, b in zip(order[::2], order[1::2], strict=True))

    def make() -> StopAutomaton:
        return StopAutomaton(stops, vocabulary, DEFAULT_LIMITS)

    made = make()
    some = {made.next(made.start, token) for token in range(0, vocabulary.size, 97)}
    assert some == {made.table.next(made.start, token) for token in range(0, vocabulary.size, 97)}
    benchmark.pedantic(make, rounds=5)
    seconds = medians({"make": make, "table": lambda: make().table}, rounds=5, warmup=1)
    tracemalloc.start()
    fresh = make()
    _, host = tracemalloc.get_traced_memory()
    assert fresh.table.states == fresh.states
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    table = tables.table(
        f"StopStrings over {vocabulary.size:,} ids: construction",
        *("stops", "host, ms", "and table, ms", "host peak, MB", "table peak, MB"),
    )
    table.add(str(count), seconds["make"] * 1e3, seconds["table"] * 1e3, host / 1e6, peak / 1e6)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, *sys.argv[1:]]))
