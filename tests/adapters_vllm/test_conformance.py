"""Every decode mode of vLLM gives what plain greedy decoding gives in transformers, or does in each call what the core does."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import logitkit as lk
from logitkit.batching import steps_of
from logitkit.errors import ConfigurationError
from logitkit_adapters.vllm import internals
from tests.adapters_vllm.engine import ROOT, environment_with
from tests.adapters_vllm.test_v2 import DRAFTS, V2
from tests.conformance import matrix
from tests.conformance.families import FAMILIES
from tests.conformance.modes_vllm import MODES

# V1 takes no plugins with speculation.
OF_V2 = ("speculative",)

# Many requests a step, and yet a cache that is too small for all of them.
LARGE = {"max_num_seqs": 64, "num_gpu_blocks_override": 120, "max_num_batched_tokens": 256}


def prompts() -> list[list[int]]:
    from tests.conformance.cases import prompts as chosen

    return chosen("record, told not to repeat itself")[0][:3]


@cache
def names() -> list[str]:
    """Processors of the registry that a request can ask for; of those that draw random numbers, each row has its own."""
    from tests.adapters.demo import vocabulary
    from tests.conformance.cases import processors

    found = []
    for name, processor in processors().items():
        try:
            steps_of(lk.from_config(lk.to_config(processor), vocabulary()))
        except ConfigurationError:
            continue
        if "Xtc" not in repr(processor):
            found.append(name)
    return found


def run(
    modes: list[str], settings: dict[str, Any], environment: dict[str, str], folder: Path, registry: Sequence[str] = ()
) -> Any:
    task, result = folder / f"{modes[0]}.json", folder / f"{modes[0]}.out.json"
    cases = [(name, prompt) for name in FAMILIES for prompt in prompts()]
    task.write_text(json.dumps({"modes": modes, "cases": cases, "settings": settings, "registry": [*registry]}))
    command = [sys.executable, "-m", "tests.conformance.modes_vllm", str(task), str(result)]
    found = environment_with(environment)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=found)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(result.read_text())


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("modes")
    of_v1 = run([mode for mode in MODES if mode not in OF_V2], LARGE, {}, folder, names())
    return {**of_v1, **run([*OF_V2], DRAFTS, V2, folder)}


@pytest.mark.parametrize("kind", FAMILIES)
@pytest.mark.parametrize("mode", MODES)
def test_a_mode_changes_nothing(found: Any, mode: str, kind: str, record_property: Any) -> None:
    matrix.claim(record_property, "vLLM", mode, kind)
    from tests.adapters.demo import tokenizer
    from tests.conformance import modes_transformers

    first = FAMILIES.index(kind) * len(prompts())
    for prompt, said in zip(prompts(), found[mode][first : first + len(prompts())], strict=True):
        wanted = modes_transformers.expected(tuple(prompt), kind)
        if isinstance(said, str):
            assert said == tokenizer().decode(wanted, skip_special_tokens=True)
        elif said is not None:  # else compared call by call
            assert said == wanted


def test_the_registry_has_most_of_its_rows_in_it() -> None:
    from tests.conformance.cases import processors

    assert len(names()) > 0.8 * len(processors())


def test_the_documentation_says_what_is_tested() -> None:
    """Of one of the releases with which the tests run; each has the same table."""
    assert set(MODES) == set(matrix.MODES)
    shown, here = (
        {mode: row for (_, mode), row in cells(["vLLM"]).items()} for cells in (matrix.published, matrix.expected)
    )
    assert shown == here, "write it anew: python -m tests.conformance.matrix"
    (release,) = {name.removeprefix("vLLM ") for name, _ in matrix.published(["vLLM"])}
    assert release.rpartition(".")[0] in internals.TESTED


@pytest.mark.parametrize("number", range(8))
def test_greedy_tokens_are_those_of_transformers(found: Any, number: int) -> None:
    from tests.conformance.agreement import assert_greedy, assert_whole
    from tests.conformance.cases import STEPS, processors
    from tests.conformance.cases import prompts as chosen
    from tests.conformance.engines import Transformers

    for name in names()[number::8]:
        processor, texts = processors()[name], chosen(name)[0]
        wanted = Transformers().generate(texts, processor, STEPS)
        for prompt, a, b in zip(texts, wanted, found["registry"][name], strict=True):
            if a != b:
                assert_whole(b, STEPS)
                assert_greedy(b, Transformers().forced(prompt, b, processor))
