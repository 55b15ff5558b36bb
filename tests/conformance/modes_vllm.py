"""The decode modes of vLLM; run as a script, in a process of its own, since an engine changes the one that it is in."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from torch import Tensor

import logitkit as lk
from tests.adapters_vllm import engine
from tests.conformance.replay import Replay

STEPS = 32

# One request: the name of a family, and its prompt.
Case = tuple[str, list[int]]

# Tokens of each request, a text, or None where each call was compared.
Found = list[list[int] | str | None]


def _config(name: str) -> dict[str, Any]:
    from tests.conformance.families import family

    return lk.to_config(family(name))


def _params(name: str, **more: Any) -> dict[str, Any]:
    return {"max_tokens": STEPS, "temperature": 0.0, "extra_args": {"logitkit": _config(name)}, **more}


def _tokens(llm: Any, cases: Sequence[Case], **more: Any) -> Any:
    from vllm import SamplingParams

    params = [SamplingParams(**_params(name, **more)) for name, _ in cases]
    outputs = llm.generate([{"prompt_token_ids": prompt} for _, prompt in cases], params, use_tqdm=False)
    return [list(output.outputs[0].token_ids) for output in outputs]


@contextmanager
def _watched(name: str, prompt: list[int]) -> Iterator[Replay]:
    """Compare each call of the plugin with what the core makes of the same logits."""
    from logitkit_adapters.vllm.v1 import V1Rows
    from tests.conformance.families import family

    replay, original = Replay(family(name), prompt), V1Rows.process

    def process(self: V1Rows, logits: Tensor) -> Tensor:
        places = list(self.rows.outputs())
        replay.before(logits[places])
        made = original(self, logits)
        replay.behind([[*prompt, *output] for output in self.rows.outputs().values()], made[places])
        return made

    with mock.patch.object(V1Rows, "process", process):
        yield replay
    assert replay.calls


def greedy(llm: Any, cases: Sequence[Case]) -> Found:
    return [_tokens(llm, [case])[0] for case in cases]


def sampled(llm: Any, cases: Sequence[Case]) -> Found:
    for name, prompt in cases:
        with _watched(name, prompt):
            _tokens(llm, [(name, prompt)], temperature=1.0, n=3)
    return [None] * len(cases)


def batched(llm: Any, cases: Sequence[Case]) -> Found:
    return [_tokens(llm, [(name, prompt[1:]), (name, prompt), (name, [*prompt, *prompt])])[1] for name, prompt in cases]


def beams(llm: Any, cases: Sequence[Case]) -> Found:
    from logitkit_adapters.vllm import beam_search

    for name, prompt in cases:
        with _watched(name, prompt):
            assert beam_search(llm, [prompt], beam_width=4, max_tokens=9, config=_config(name))[0]
    return [None] * len(cases)


def streamed(llm: Any, cases: Sequence[Case]) -> Found:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    found: Found = []
    for name, prompt in cases:
        params = SamplingParams(**_params(name), output_kind=RequestOutputKind.DELTA)
        llm.llm_engine.add_request(str(len(found)), {"prompt_token_ids": prompt}, params)
        # Not its text, in which vLLM repeats a prompt that ends or goes on with half a character.
        tokens: list[int] = []
        while llm.llm_engine.has_unfinished_requests():
            for output in llm.llm_engine.step():
                tokens += output.outputs[0].token_ids
        found.append(tokens)
    return found


def resumed(llm: Any, cases: Sequence[Case]) -> Found:
    from vllm import SamplingParams

    # With longer ones, which came first, they are more than the cache holds, so that some must wait in their midst.
    before = engine.counted(llm, "num_preemptions")
    longer = [{"prompt_token_ids": (prompt * 99)[:92]} for _, prompt in cases]
    free = [SamplingParams(max_tokens=64, temperature=0.0, ignore_eos=True)] * len(cases)
    prompts = [{"prompt_token_ids": prompt} for _, prompt in cases]
    params = [SamplingParams(**_params(name)) for name, _ in cases]
    outputs = llm.generate([*longer, *prompts], [*free, *params], use_tqdm=False)[len(cases) :]
    assert engine.counted(llm, "num_preemptions") > before + 8
    return [list(output.outputs[0].token_ids) for output in outputs]


def speculative(llm: Any, cases: Sequence[Case]) -> Found:
    found = _tokens(llm, cases)
    assert engine.counted(llm, "spec_decode_num_accepted_tokens") > 0
    return list(found)


def registry(llm: Any, names: Sequence[str]) -> dict[str, list[list[int]]]:
    """Return what processors of the registry make of their prompts, all at once."""
    from vllm import SamplingParams

    from tests.conformance.cases import STEPS as LONGER
    from tests.conformance.cases import processors, prompts

    asked = [(name, prompt) for name in names for prompt in prompts(name)[0]]
    extra = {name: {"logitkit": lk.to_config(processors()[name])} for name in names}
    params = [SamplingParams(max_tokens=LONGER, temperature=0.0, extra_args=extra[name]) for name, _ in asked]
    outputs = llm.generate([{"prompt_token_ids": prompt} for _, prompt in asked], params, use_tqdm=False)
    found: dict[str, list[list[int]]] = {name: [] for name in names}
    for (name, _), output in zip(asked, outputs, strict=True):
        found[name].append(list(output.outputs[0].token_ids))
    return found


MODES: dict[str, Callable[[Any, Sequence[Case]], Found]] = {
    "greedy": greedy,
    "sampled": sampled,
    "batched": batched,
    "beams": beams,
    "speculative": speculative,
    "streamed": streamed,
    "resumed": resumed,
}


def main() -> None:
    """Take the modes and cases of a file, and write what came out into another."""
    task = json.loads(Path(sys.argv[1]).read_text())
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    llm = engine.start(logits_processors=[engine.PLUGIN], logprobs_mode="processed_logprobs", **task["settings"])
    cases = [(name, prompt) for name, prompt in task["cases"]]
    result: dict[str, Any] = {mode: MODES[mode](llm, cases) for mode in task["modes"]}
    if task["registry"]:
        result["registry"] = registry(llm, task["registry"])
    Path(sys.argv[2]).write_text(json.dumps(result))


if __name__ == "__main__":
    main()
