"""The cost of patterns before their first mask: at the admission of requests, and in the worker, which is another process.

Everything is measured in forks of this process, which has read the vocabulary and compiles nothing itself.
"""

from __future__ import annotations

import copy
import gc
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from benchmarks.forks import in_fork
from benchmarks.vllm_config import SIZE, engine_config
from benchmarks.vllm_subjects import BACKENDS, Plugin, Running, StructuredOutput, Subject

Times = dict[str, Any]
PATIENCE = 300.0

# Counts the libraries' threads, but not other programs.
CLOCK = time.process_time


def admission(config: Any, patterns: list[str]) -> dict[str, Times]:
    """Time requests with patterns that nobody has seen from their parameters to their first masked logits."""
    makers: list[Callable[[], Subject]] = [
        lambda: Plugin(config),
        *(lambda name=name: StructuredOutput(config, name) for name in BACKENDS),
    ]
    found = {}
    for make in makers:
        # vLLM gives up on some patterns, but XGrammar continues with them in a thread until its fork ends.
        times, why = in_fork(lambda done, make=make: _admission(make().touch(), patterns, done), PATIENCE, PATIENCE)  # type: ignore[misc]
        assert times, why
        found[times.pop("name")] = times
    return found


def _admission(subject: Subject, patterns: list[str], done: Callable[[Times], None]) -> None:
    logits = torch.zeros(len(patterns), SIZE)
    gc.collect()
    gc.freeze()
    each, batch = [], []
    begin = CLOCK()
    try:
        for pattern in patterns:
            begin = CLOCK()
            batch.append(subject.admit(pattern))
            each.append(CLOCK() - begin)
    except ValueError as error:
        done({"name": subject.name, "refused": str(error)[:120], "after_s": CLOCK() - begin})
        return
    begin = CLOCK()
    subject.mask(dict(enumerate(batch)), batch, logits)
    first = CLOCK() - begin
    total = sum(each) + first
    times = {"total_s": total, "median_s": statistics.median(each), "worst_s": max(each), "first_masks_s": first}
    done({"name": subject.name, **times})


def worker(patterns: Mapping[str, str]) -> dict[str, Times]:
    """Time the front end's part and the worker's, with and without what the front end has left.

    Args:
        patterns: By name.
    """
    from logitkit_adapters.vllm.configurations import configurations_of

    with tempfile.TemporaryDirectory() as folder:
        config = engine_config(Path(folder), 4)
        other = copy.copy(config)
        other.instance_id = f"{config.instance_id} alone"
        for one in (other, config):
            # This process removes the files of both when it ends.
            assert configurations_of(one).vocabulary.trie.depth
        compiled, _ = in_fork(lambda done: _run(other, patterns, done), PATIENCE, PATIENCE)
        admitted, _ = in_fork(lambda done: _admit(config, patterns, done), PATIENCE, PATIENCE)
        found, _ = in_fork(lambda done: _run(config, patterns, done), PATIENCE, PATIENCE)
    assert compiled
    assert admitted
    assert found
    return {
        name: {"admitted_s": admitted[name], "found_s": found[name], "compiled_s": compiled[name]} for name in patterns
    }


def _admit(config: Any, patterns: Mapping[str, str], done: Callable[[Times], None]) -> None:
    subject = Plugin(config)
    subject.admit("[ab]+")
    times = {}
    for name, pattern in patterns.items():
        begin = CLOCK()
        subject.admit(pattern)
        times[name] = CLOCK() - begin
    done(times)


def _run(config: Any, patterns: Mapping[str, str], done: Callable[[Times], None]) -> None:
    subject = Plugin(config)
    logits = torch.zeros(1, SIZE)
    times = {}
    for name, pattern in {"": "[ab]+", **patterns}.items():
        request = Running(pattern, subject.params(pattern))
        begin = CLOCK()
        subject.mask({0: request}, [request], logits)
        times[name] = CLOCK() - begin
        subject.leave(1)
    done(times)
