"""False alarms and power of the detectors of watermarks, on free and on constrained texts of the shipped model.

It writes 2,000 texts of 200 tokens without a watermark, and 100 with each watermark and a key of its own, by sampling at
temperature 1: free sentences, and JSON arrays of persons under a schema. A text is called marked if its p-value is below 0.01, so
one of 100 texts without a watermark should be. False alarms are measured with a key of its own for each text, and with 10 keys
of which each judges 400 of the texts: constrained texts resemble each other, so for one key they may all be lucky. Power is
measured on the first 25 to 200 tokens, with and without the constraint, which says which tokens were forced.

Run `python -m benchmarks.bench_watermark_detection`, which writes `results/watermarks.json`; then `--table` prints the tables.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import logitkit as lk
from logitkit.watermarks.detection import text_score
from logitkit.watermarks.scored_tokens import forced_tokens

RESULT = Path(__file__).parent / "results" / "watermarks.json"

TEXTS, MARKED, TOKENS, BATCH = 2000, 100, 200, 100
LENGTHS = (25, 50, 100, 150, 200)
KEYS, JUDGED = 10, 400
ALARM = 0.01

PROMPTS = (
    "The boy",
    "The old man",
    "My sister",
    "The farmer",
    "The doctor",
    "Ana",
    "The teacher",
    "A cat",
    "The girl",
    "We",
)
JSON_PROMPT = "As JSON: "

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[A-Z][a-z]+ [A-Z][a-z]+$", "maxLength": 30},
        "age": {"type": "integer", "minimum": 18, "maximum": 99},
        "active": {"type": "boolean"},
        "email": {"type": "string", "pattern": r"^[a-z]+(\.[a-z]+)*@[a-z]+(\.[a-z]+)+$", "maxLength": 40},
    },
    "required": ["name", "age", "active", "email"],
    "additionalProperties": False,
}
PERSONS = {"type": "array", "items": PERSON, "minItems": 20, "maxItems": 30}

Text = NDArray[np.int64]

WATERMARKS: dict[str, Callable[[int], Any]] = {
    "KgwWatermark": lk.KgwWatermark,
    "SynthIdWatermark": lambda key: lk.SynthIdWatermark(np.random.default_rng(key).integers(0, 2**40, 30).tolist()),
    "GumbelWatermark": lk.GumbelWatermark,
}


class Writer:
    """Samples texts of the shipped model.

    Args:
        kind: "free" or "constrained".
    """

    def __init__(self, kind: str) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        from logitkit_adapters.demo import model_dir
        from logitkit_adapters.transformers import vocabulary

        self.model = AutoModelForCausalLM.from_pretrained(model_dir()).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(model_dir())
        known = vocabulary(self.tokenizer)
        self.columns = known.size
        # Free texts go on after what would be their end, so that all have the same length.
        schema = lk.JsonSchema(PERSONS, known)
        self.constraint: lk.Processor[Any] = schema if kind == "constrained" else lk.BanTokens(known.eos_ids)
        self.prompts = [JSON_PROMPT] if kind == "constrained" else list(PROMPTS)

    @torch.no_grad()
    def write(self, count: int, seed: int, watermarks: Sequence[lk.Processor[Any]] = ()) -> list[Text]:
        """Return some texts, each with a watermark of its own, or without."""
        rng = torch.Generator().manual_seed(seed)
        found: list[Text] = []
        while len(found) < count:
            rows = min(BATCH, count - len(found))
            prompt = self.tokenizer(self.prompts[len(found) // BATCH % len(self.prompts)]).input_ids
            own = watermarks[len(found) : len(found) + rows] or [lk.KgwWatermark(0, bias=0)] * rows
            chain = lk.chain(self.constraint, own[0])
            one = lk.Context.of([prompt], self.columns)
            state = lk.concatenate([lk.chain(self.constraint, mark).init_state(one) for mark in own])
            context = lk.Context.of([prompt] * rows, self.columns)
            ids, cache, taken = torch.tensor([prompt] * rows), None, []
            for _ in range(TOKENS):
                out = self.model(ids, past_key_values=cache, use_cache=True)
                cache = out.past_key_values
                logits = chain.process_logits(state, out.logits[:, -1, : self.columns].float().clone(), context)[1]
                ids = torch.multinomial(logits.softmax(1), 1, generator=rng)
                state = chain.advance(state, ids[:, 0])
                taken.append(ids)
            found += [*torch.cat(taken, 1).numpy()]
        return found


def forced_of(writer: Writer, texts: Sequence[Text]) -> list[NDArray[np.bool_]]:
    """Return which tokens of each text were forced."""
    marks: list[NDArray[np.bool_]] = []
    for begin in range(0, len(texts), BATCH):
        marks += forced_tokens(writer.constraint, texts[begin : begin + BATCH])
    return marks


def measure(kind: str, save: Callable[[dict[str, Any]], None]) -> None:
    """Measure one kind of texts, and save what is known after each watermark."""
    writer, begin = Writer(kind), time.time()
    plain = writer.write(TEXTS, 1)
    nothing = [np.zeros(TOKENS, np.bool_)] * TEXTS
    skipped = {"all tokens": nothing}
    if kind == "constrained":
        skipped["without forced tokens"] = forced_of(writer, plain)
    print(kind, "plain", round(time.time() - begin), "s", repr(writer.tokenizer.decode(plain[0])[:200]), flush=True)
    results: dict[str, Any] = {}
    for name, make in WATERMARKS.items():
        found: dict[str, Any] = {"false_alarms": {}, "false_alarms_by_key": {}, "repeats": None, "power": {}}
        fresh = [make(10_000 + i) for i in range(TEXTS)]
        for which, marks in skipped.items():
            p = [text_score(w, t, m)[1].p_value for w, t, m in zip(fresh, plain, marks, strict=True)]
            found["false_alarms"][which] = mean(x < ALARM for x in p)
            found["false_alarms_by_key"][which] = [
                mean(
                    text_score(make(key), t, m)[1].p_value < ALARM for t, m in zip(plain[:JUDGED], marks, strict=False)
                )
                for key in range(KEYS)
            ]
        again = [text_score(w, t, m, None, True)[1].p_value for w, t, m in zip(fresh, plain, nothing, strict=True)]
        found["repeats"] = mean(x < ALARM for x in again)
        marked = [make(20_000 + i) for i in range(MARKED)]
        texts = writer.write(MARKED, 2, marked)
        forced = forced_of(writer, texts) if kind == "constrained" else nothing[:MARKED]
        for which in skipped:
            rows = [
                (
                    length,
                    [
                        text_score(w, t[:length], (m if "without" in which else nothing[0])[:length])
                        for w, t, m in zip(marked, texts, forced, strict=True)
                    ],
                )
                for length in LENGTHS
            ]
            found["power"][which] = {
                str(length): {
                    "power": mean(s.p_value < ALARM for _, s in scored),
                    "scored": mean(n for n, _ in scored),
                    "z": mean(s.z for _, s in scored),
                }
                for length, scored in rows
            }
        found["forced"] = float(np.mean([m.mean() for m in forced]))
        results[name] = found
        save(results)
        print(kind, name, round(time.time() - begin), "s", json.dumps(found), flush=True)


def table(result: dict[str, Any]) -> str:
    """Return the tables of the page."""
    percent = "{:.1%}".format
    lines = [
        "| texts | watermark | scored | a key for each text | 10 keys: mean | 10 keys: worst | every repeat counted |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind, by_name in result.items():
        for name, found in by_name.items():
            for which, rate in found["false_alarms"].items():
                by_key = found["false_alarms_by_key"][which]
                again = percent(found["repeats"]) if which == "all tokens" else ""
                rates = f"{percent(rate)} | {percent(mean(by_key))} | {percent(max(by_key))} | {again}"
                lines.append(f"| {kind} | `{name}` | {which} | {rates} |")
    lines += [
        "",
        f"| texts | watermark | scored | {' | '.join(f'{n} tokens' for n in LENGTHS)} | scored of {LENGTHS[-1]} |",
        f"|---|---|---|{'---|' * len(LENGTHS)}---|",
    ]
    for kind, by_name in result.items():
        for name, found in by_name.items():
            for which, rows in found["power"].items():
                powers = " | ".join(f"{rows[str(n)]['power']:.0%}" for n in LENGTHS)
                scored = rows[str(LENGTHS[-1])]["scored"]
                lines.append(f"| {kind} | `{name}` | {which} | {powers} | {scored:.0f} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, or print the tables of the last measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", action="store_true", help="print the tables of the results")
    if parser.parse_args().table:
        print(table(json.loads(RESULT.read_text("utf-8"))))
        return
    torch.set_num_threads(1)
    result: dict[str, Any] = {}

    for kind in ("free", "constrained"):

        def save(found: dict[str, Any], kind: str = kind) -> None:
            result[kind] = found
            RESULT.write_text(json.dumps(result, indent=1) + "\n", "utf-8")

        measure(kind, save)


if __name__ == "__main__":
    main()
