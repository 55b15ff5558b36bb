"""`continuous` with states that were saved, loaded or replaced: a cache is used if it fits, and recomputed otherwise."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import logitkit as lk
import logitkit_adapters.llama_cpp
import logitkit_adapters.mlx_lm
import logitkit_adapters.onnxruntime_genai
import logitkit_adapters.transformers
from logitkit import SequenceState
from logitkit.sessions.sequence_parts import CacheDropped
from logitkit_adapters.sessions import continuous
from tests.sessions.continuation import PROMPTS
from tests.sessions.engines import COPYING, ENGINES, loaded, watched
from tests.sessions.one_layer import fresh_llama, random_llama

MODULES = {
    "transformers": logitkit_adapters.transformers,
    "mlx-lm": logitkit_adapters.mlx_lm,
    "llama.cpp": logitkit_adapters.llama_cpp,
    "onnxruntime-genai": logitkit_adapters.onnxruntime_genai,
}


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def generator(engine: str, processor: Any = None, **options: Any) -> Any:
    return continuous(*loaded(engine), processor, **options)


def test_saved_states_go_on(engine: str, tmp_path: Path) -> None:
    text = generator(engine, lk.FrequencyPenalty(0.4))
    s = text(PROMPTS, max_new_tokens=3)
    s.save(tmp_path)
    loaded_state = text.load(tmp_path)
    assert torch.equal(loaded_state.open_weights, s.open_weights)
    assert text(loaded_state, max_new_tokens=5).rows == text(s, max_new_tokens=5).rows
    assert text(loaded_state, max_new_tokens=5, carry_state=True).rows == text(s, max_new_tokens=5).rows


@pytest.mark.parametrize("engine", COPYING)
def test_a_cache_that_another_state_has_replaced_is_recomputed(engine: str, tmp_path: Path) -> None:
    text = generator(engine)
    first, second = (text(prompt, max_new_tokens=2) for prompt in PROMPTS[:2])
    # Of equal lengths, and all of it cached: the tokens alone tell them apart.
    size = min(first.cached, second.cached)
    first, second = first.tokens[:size], second.tokens[:size]
    assert engine != "transformers" or first.cached == second.cached == size
    wanted = text(first, max_new_tokens=4).rows
    first.save(tmp_path / "here")
    found = SequenceState.load(tmp_path / "here", loaded(engine)[1])
    # A state that has not been opened yet is saved with its cache.
    found.save(tmp_path / "there")
    second.save(tmp_path / "here")
    assert text(found, max_new_tokens=4).rows == wanted
    with watched(loaded(engine)[0]) as fed:
        assert text(text.load(tmp_path / "there"), max_new_tokens=4).rows == wanted
    assert max(fed) == 1


@pytest.mark.parametrize("engine", COPYING)
@pytest.mark.parametrize("samples", [1, 2])
def test_what_is_made_of_a_loaded_state_keeps_the_cache(engine: str, samples: int, tmp_path: Path) -> None:
    model = loaded(engine)[0]
    s = generator(engine, num_samples=samples, seed=1)(PROMPTS, max_new_tokens=4)
    s.save(tmp_path)
    greedy = generator(engine, num_samples=samples, do_sample=False)
    other = generator(engine, num_samples=samples, seed=4)(PROMPTS[::-1], max_new_tokens=2)
    keys = (slice(None),) * (1 if samples == 1 else 2)
    parts: dict[str, Callable[[Any], Any]] = {
        "text": lambda one: one[(*keys, slice(9))],
        "tokens": lambda one: one.tokens[(*keys, slice(-2))],
        "twice": lambda one: one.tokens[(*keys, slice(12))][(*keys, slice(7))],
        "rows": lambda one: one[(slice(1, None), *keys)],
        "sum": lambda one: one + other,
        "append": lambda one: one[(*keys, slice(8))] + " and",
        "one row, many times": lambda one: (one[1, :] if samples == 1 else one[1, 1, :]).fan_out(3).tokens[:, :6],
    }
    for name, make in parts.items():
        lazy, whole = make(SequenceState.load(tmp_path, s.tokenizer)), make(s)
        assert lazy.rows == whole.rows, name
        assert lazy.cached == whole.cached > 0, name
        going_on = greedy if lazy.num_samples == samples else generator(engine, num_samples=3, do_sample=False)
        fed = []
        for state in (lazy, whole):
            with watched(model) as positions:
                found = going_on(state, max_new_tokens=3)
            fed.append((found.rows, positions))
        assert fed[0] == fed[1], name
        fresh = going_on(replace(whole, kv_cache=None, cached=0), max_new_tokens=3)
        assert fed[0][0] == fresh.rows, name
    with pytest.warns(CacheDropped):
        late = SequenceState.load(tmp_path, s.tokenizer)[(*keys, slice(2, None))]
    assert late.kv_cache is None
    # A part is saved without its cache, and is right all the same.
    part = SequenceState.load(tmp_path, s.tokenizer).tokens[(*keys, slice(6))]
    part.save(tmp_path / "part")
    assert greedy(greedy.load(tmp_path / "part"), max_new_tokens=3).rows == greedy(part, max_new_tokens=3).rows


CONTINUE = """
import sys
from logitkit_adapters.sessions import continuous
from tests.sessions.engines import loaded, watched
import logitkit as lk
for engine in sys.argv[2:]:
    text = continuous(*loaded(engine), lk.FrequencyPenalty(0.4), num_samples=2, do_sample=False)
    for _ in range(2):
        state = text.load(f"{sys.argv[1]}/{engine}")
        with watched(loaded(engine)[0]) as fed:
            found = text(state, max_new_tokens=4)
        print([found.rows, sum(fed)])
        with watched(loaded(engine)[0]) as fed:
            found = text(state.tokens[:, :, :5] + " and", max_new_tokens=2)
        print([found.rows, sum(fed)])
        text("Something else takes the place.", max_new_tokens=3)
"""


def test_a_state_that_was_saved_in_one_process_feeds_only_what_is_new_in_another(tmp_path: Path) -> None:
    wanted = [line for engine in COPYING for line in saved_and_continued(engine, tmp_path / engine) * 2]
    run = subprocess.run(
        [sys.executable, "-c", CONTINUE, str(tmp_path), *COPYING],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(["", *sys.path])},
    )
    assert run.stdout.splitlines() == wanted


def saved_and_continued(engine: str, folder: Path) -> list[str]:
    """Save a state, and return what is written and how much is fed where it is continued in two ways."""
    text = generator(engine, lk.FrequencyPenalty(0.4), num_samples=2, do_sample=False)
    s = generator(engine, num_samples=2, seed=0)(PROMPTS, max_new_tokens=3)
    s.save(folder)
    text("Something else takes the place.", max_new_tokens=1)
    wanted = []
    for state in (s, s.tokens[:, :, :5] + " and"):
        count = 4 if state is s else 2
        with watched(loaded(engine)[0]) as fed:
            rows = text(state, max_new_tokens=count).rows
        wanted.append(str([rows, sum(fed)]))
        assert rows == text(replace(state, kv_cache=None, cached=0), max_new_tokens=count).rows
    # One token of each of six rows in four passes. Transformers counts columns, as mlx-lm does after the first pass of each row.
    assert wanted[0].endswith(f", {({'transformers': 4, 'mlx-lm': 6 + 3}).get(engine, 6 * 4)}]")
    return wanted


@pytest.mark.parametrize("engine", COPYING)
def test_a_cache_of_another_model_or_a_broken_one_is_recomputed(engine: str, tmp_path: Path) -> None:
    text = generator(engine)
    s = text(PROMPTS[:2], max_new_tokens=3)
    wanted = text(s, max_new_tokens=4).rows
    s.save(tmp_path)
    files = sorted((tmp_path / "cache").iterdir())
    assert len(files) == (1 if engine == "transformers" else 2)
    whole = [file.read_bytes() for file in files]
    for broken in (b"", whole[0][:200], whole[0][:-8], b"\xff" * 64):
        files[0].write_bytes(broken)
        with watched(loaded(engine)[0]) as fed:
            assert text(text.load(tmp_path), max_new_tokens=4).rows == wanted
        assert max(fed) > 1
    files[0].write_bytes(whole[0])
    with watched(loaded(engine)[0]) as fed:
        assert text(text.load(tmp_path), max_new_tokens=4).rows == wanted
    assert max(fed) == 1
    other = continuous(random_llama(engine, 3), loaded(engine)[1])
    assert other(other.load(tmp_path), max_new_tokens=4).rows == other(s, max_new_tokens=4).rows
    # A state without a cache removes the other state's files.
    replace(s, kv_cache=None, cached=0).save(tmp_path)
    assert text(text.load(tmp_path), max_new_tokens=4).rows == wanted


@pytest.mark.parametrize("engine", ["transformers", "mlx-lm"])
def test_models_that_differ_little_have_caches_of_different_kinds(engine: str) -> None:
    model, tokenizer = fresh_llama(engine, 3), loaded(engine)[1]
    kinds = [continuous(model, tokenizer).engine.kind]
    assert kinds == [continuous(random_llama(engine, 3), tokenizer).engine.kind]
    if engine == "transformers":
        with torch.no_grad():
            model.model.norm.weight[9] += 0.5
        kinds.append(continuous(model, tokenizer).engine.kind)
        model.config.rms_norm_eps *= 2
    else:
        model.model.norm.weight[9] += 0.5
        kinds.append(continuous(model, tokenizer).engine.kind)
        model.args.rms_norm_eps *= 2
    kinds.append(continuous(model, tokenizer).engine.kind)
    assert len({*kinds}) == 3


def test_rows_that_ended_at_different_steps_go_on_from_their_caches(engine: str) -> None:
    vocabulary = MODULES[engine].vocabulary(loaded(engine)[1] or loaded(engine)[0])
    # All beginnings that a model prefers are there, so that some rows end long before others.
    answers = lk.Choice([" no", " the café au lait is good", " of the lamp and of the camera"], vocabulary)
    s = generator(engine, answers)([*PROMPTS, "Question: Is Rome in Spain?\nAnswer:"], max_new_tokens=12)
    lengths = {len(row) - int(first) for row, first in zip(s.rows, s.prompt_lengths.tolist(), strict=True)}
    assert len(lengths) > 1
    text = generator(engine)
    for more in ("", " and the", " or"):
        s = s + more if more else s
        wanted = text([list(row) for row in s.rows], max_new_tokens=4).rows
        with watched(loaded(engine)[0]) as fed:
            s = text(s, max_new_tokens=4)
        assert s.rows == wanted
        # Transformers counts the columns of the longest row.
        assert engine == "transformers" or max(fed) <= 4
