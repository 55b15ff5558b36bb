"""Particles against the truth, on languages whose texts can be enumerated: bias, error, and the cost of a step.

For each number of particles, thousands of runs with different seeds are averaged. The average of the weighted texts is the
distribution of one text drawn from a run, whose total variation to the truth falls like 1 / N. The estimate of the language's
probability has the right mean for every N, and an error that falls like 1 / sqrt(N). Plain masking is a single particle.

Run `python -m benchmarks.bench_particles`, which writes `results/particles.json`; then `--table` prints the tables.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from pathlib import Path
from typing import Any

import torch

import logitkit as lk
from benchmarks.enumerated_texts import EnumeratedTexts, total_variation
from logitkit.particles import ParticleFilter

RESULT = Path(__file__).parent / "results" / "particles.json"
NUMBERS = (2, 4, 8, 16, 32)
TWISTS = (0.0, 0.5, 1.0, 2.0)
LIMIT = 24

FRUITS = ("apple", "pear", "plum")
LANGUAGES: dict[str, tuple[str, list[str]]] = {
    "colours": (
        "Question: Which colour is the lamp?\nAnswer:",
        [" red", " brown", " blueberry", " green lamp", " greenhouse"],
    ),
    "times": (
        "Question: When does the concert start?\nAnswer:",
        [f" at {hour}:{minute}" for hour in (7, 8, 18, 20) for minute in ("00", "15", "30")],
    ),
    "lists": (
        "Fruits:",
        [*(f" {a}." for a in FRUITS), *(f" {a}, {b}." for a in FRUITS for b in FRUITS if a != b)],
    ),
}


def enumerated(name: str) -> EnumeratedTexts:
    """Return a language after its prompt, with the shipped model."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from logitkit_adapters.demo import model_dir
    from logitkit_adapters.transformers import vocabulary

    tokenizer = AutoTokenizer.from_pretrained(model_dir())
    model = AutoModelForCausalLM.from_pretrained(model_dir()).eval()
    return EnumeratedTexts(model, tokenizer, vocabulary(tokenizer), *LANGUAGES[name])


def measured(language: EnumeratedTexts, runs: int, particles: int, **options: Any) -> dict[str, float]:
    """Return what many runs make of a language; its results are checked, since no text may be outside of it."""
    choice = lk.Choice(language.texts, language.vocabulary)
    squares, sums = dict.fromkeys(language.texts, 0.0), dict.fromkeys(language.texts, 0.0)
    estimates, sizes = list[float](), list[float]()
    for seed in range(runs):
        one = ParticleFilter(processor=choice, eos_ids=[language.eos], particles=particles, seed=seed, **options)
        found = language.run(one, LIMIT)
        # A run without a particle left estimates 0, and gives no text.
        estimates.append(0.0 if found is None else found.probability / language.probability)
        for text, weight in ({} if found is None else found.distribution()).items():
            sums[text] += weight
            squares[text] += weight * weight
        sizes.append(0.0 if found is None else found.effective_sample_size)
    total = sum(sums.values())
    mean = {text: value / total for text, value in sums.items()}
    noise = sum(math.sqrt(max(squares[t] / runs - (sums[t] / runs) ** 2, 0) / runs) for t in language.texts)
    return {
        "runs": runs,
        "total_variation": total_variation(mean, language.truth),
        # The expected absolute error of each mean, summed: what a distribution without any bias would show.
        "noise": noise / 2 * math.sqrt(2 / math.pi),
        "estimate": statistics.fmean(estimates),
        "standard_error": statistics.stdev(estimates) / math.sqrt(runs),
        "relative_error": statistics.stdev(estimates),
        "effective_sample_size": statistics.fmean(sizes),
    }


def measure(runs: int) -> dict[str, Any]:
    """Measure all languages."""
    torch.set_num_threads(1)
    result: dict[str, Any] = {"languages": {}, "twists": {}}
    for name in LANGUAGES:
        whole = enumerated(name)
        language = whole.reduced()
        assert math.isclose(sum(language.masked.values()), 1, rel_tol=1e-4)
        if name != "lists":
            result["languages"][name] = {
                "prompt": LANGUAGES[name][0],
                "probability": language.probability,
                "truth": language.truth,
                "masked": language.masked,
                "masked_total_variation": total_variation(language.masked, language.truth),
                "particles": {n: measured(language, runs, n) for n in NUMBERS},
            }
            save(result)
        result["twists"][name] = {twist: measured(language, runs // 2, 16, twist=twist) for twist in TWISTS}
        save(result)
    result["milliseconds"] = milliseconds()
    save(result)
    return result


def milliseconds(rows: int = 16, columns: int = 131_072, steps: int = 20) -> dict[str, float]:
    """Return the median time of a step of 16 particles at 131,072 columns, and of one without weights, on one thread."""
    torch.set_num_threads(1)
    vocabulary = lk.Vocabulary([*(b"%06d" % i for i in range(columns - 1)), None], eos_ids=[columns - 1])
    regex = lk.Regex(r"(\d{6})*", vocabulary)
    logits = torch.randn(rows, columns, generator=torch.Generator().manual_seed(0))
    logits[:, -1] = -20
    one = ParticleFilter(processor=regex, eos_ids=[columns - 1], particles=rows, seed=0)
    population, taken = one.start([], columns, steps + 1), list[float]()
    state, context = regex.init_state(population.context), population.context
    plain = list[float]()
    for _ in range(steps):
        copy, begin = logits.clone(), time.perf_counter()
        population = one.step(population, copy)
        taken.append(time.perf_counter() - begin)
        copy, begin = logits.clone(), time.perf_counter()
        masked = regex.process_logits(state, copy, context)[1]
        state = regex.advance(state, torch.multinomial(masked.softmax(1), 1)[:, 0])
        plain.append(time.perf_counter() - begin)
    return {"particles": statistics.median(taken) * 1e3, "masking": statistics.median(plain) * 1e3}


def save(result: dict[str, Any]) -> None:
    """Write the results."""
    RESULT.write_text(json.dumps(result, indent=1) + "\n", "utf-8")


def table(result: dict[str, Any]) -> str:
    """Return the tables of the page, in Markdown."""
    names = [*result["languages"]]
    lines = [
        f"| particles | {' | '.join(f'{n}: total variation | its noise | error of the estimate' for n in names)} |",
        "|---:|" + "---:|---:|---:|" * len(names),
        "| plain masking | "
        + " | ".join(f"{result['languages'][n]['masked_total_variation']:.3f} | 0 |" for n in names)
        + " |",
    ]
    for number in map(str, NUMBERS):
        cells = []
        for name in names:
            one = result["languages"][name]["particles"][number]
            cells += [f"{one['total_variation']:.4f}", f"{one['noise']:.4f}", f"{one['relative_error']:.1%}"]
        lines.append(f"| {number} | {' | '.join(cells)} |")
    lines += ["", f"| `twist` | {' | '.join(result['twists'])} |", "|---:|" + "---:|" * len(result["twists"])]
    for twist in map(str, TWISTS):
        errors = " | ".join(f"{result['twists'][name][twist]['relative_error']:.1%}" for name in result["twists"])
        lines.append(f"| {float(twist):g} | {errors} |")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1200, help="runs for each number of particles")
    parser.add_argument("--table", action="store_true", help="print the tables of the last results")
    arguments = parser.parse_args()
    if not arguments.table:
        measure(arguments.runs)
    print(table(json.loads(RESULT.read_text("utf-8"))))
