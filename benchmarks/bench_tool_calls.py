"""Free text with tool calls in it: the time to the first mask, and a step, beside XGrammar's structural tags and LLGuidance's.

    python -m benchmarks.bench_tool_calls [--tools 1,20,500] [--rounds 7] [--out benchmarks/results/tool_calls.json]

Tools are made by a rule: one to five arguments of eight common types. logitkit is measured three times: with schemas that it has
never met, with known ones in another list of tools, and as an A/A control. All libraries take turns within each round, on one
thread, with the vocabulary Tekken (131,072 ids). A step is one row and one token: mask and advance, in the text before a call and
inside of the arguments. "No constraint" is the same loop without a library.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import logitkit as lk
from benchmarks.circumstances import commit, processor
from benchmarks.peers import LLGuidance, LLGuidanceRows, XGrammar, XGrammarRows, bits_of
from logitkit.languages import Language, dispatch, either, json_schema, sequence, tag
from tests import vocabularies

TYPES: list[dict[str, Any]] = [
    {"type": "string"},
    {"type": "integer"},
    {"type": "number"},
    {"type": "boolean"},
    {"type": "string", "enum": ["celsius", "fahrenheit"]},
    {"type": "array", "items": {"type": "string"}},
    {"type": "string", "maxLength": 64},
    {
        "type": "object",
        "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}},
        "required": ["lat", "lon"],
        "additionalProperties": False,
    },
]
VERBS = ["get", "set", "list", "search", "create", "delete"]
NAMES = [
    *("city", "unit", "query", "limit", "offset", "user", "path", "content", "when", "date", "id", "name", "title"),
    *("email", "phone", "url", "language", "model", "size", "color", "price", "count", "width", "start", "end"),
]
BEGIN, END = "<tool_call>", "</tool_call>"
LIMITS = lk.Limits(states=1_000_000, work=200_000_000)

Tool = tuple[str, dict[str, Any]]


def tools_of(count: int, seed: int) -> list[Tool]:
    """Return tools with their schemas of arguments."""
    rng = random.Random(seed)
    found = []
    for number in range(count):
        names = rng.sample(NAMES, rng.randrange(1, 6))
        schema = {
            "type": "object",
            # The number makes each schema one that no other seed has.
            "properties": {
                **{name: rng.choice(TYPES) for name in names},
                f"option_{seed}_{number}": {"type": "boolean"},
            },
            "required": names[: rng.randrange(len(names) + 1)],
            "additionalProperties": False,
        }
        found.append((f"{rng.choice(VERBS)}_{rng.choice(NAMES)}_{number}", schema))
    return found


def language_of(tools: list[Tool]) -> Language:
    """Return free text with calls of the tools."""
    calls = (sequence(f'{{"name":"{name}","arguments":', json_schema(schema), "}") for name, schema in tools)
    return dispatch({BEGIN: tag(BEGIN, either(*calls), END)})


class Logitkit:
    """A language, compiled to a constraint."""

    def __init__(self, vocabulary: lk.Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.context = lk.Context.of([[]], vocabulary_size=vocabulary.size)
        # Tables that are made once for each vocabulary.
        language_of(tools_of(3, -1)).constraint(vocabulary)

    def start(self, tools: list[Tool]) -> LogitkitRow:
        return LogitkitRow(language_of(tools).constraint(self.vocabulary, limits=LIMITS), self.context)


class LogitkitRow:
    def __init__(self, constraint: Any, context: lk.Context) -> None:
        self.constraint, self.context = constraint, context
        self.state = constraint.init_state(context)

    def mask(self, logits: torch.Tensor) -> None:
        self.constraint.process_logits(self.state, logits, self.context)

    def advance(self, tokens: torch.Tensor) -> None:
        self.state = self.constraint.advance(self.state, tokens)


class WithLLGuidance(LLGuidance):
    """The grammar that its `StructTag` writes."""

    def start_tools(self, tools: list[Tool]) -> LLGuidanceRows:
        from llguidance import StructTag

        tags = [
            StructTag(
                trigger=BEGIN, begin=f'{BEGIN}{{"name":"{name}","arguments":', grammar=compact(schema), end="}" + END
            )
            for name, schema in tools
        ]
        grammar = StructTag.to_grammar(tags, assume_special=False)
        matcher = self.matcher(self.tokenizer, grammar, log_level=0)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return LLGuidanceRows([matcher], bits_of(1, self.size))


def compact(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "x-guidance": {"whitespace_flexible": False, "item_separator": ",", "key_separator": ":"}}


class WithXGrammar(XGrammar):
    """A structural tag of triggered tags."""

    def start_tools(self, tools: list[Tool]) -> XGrammarRows:
        tags = [
            {
                "type": "tag",
                "begin": f'{BEGIN}{{"name":"{name}","arguments":',
                "content": {"type": "json_schema", "json_schema": schema},
                "end": "}" + END,
            }
            for name, schema in tools
        ]
        document = {"type": "structural_tag", "format": {"type": "triggered_tags", "triggers": [BEGIN], "tags": tags}}
        compiled = self.compiler.compile_structural_tag(json.dumps(document))
        return XGrammarRows([self.library.GrammarMatcher(compiled)], bits_of(1, self.size), self.backend)


def first_mask(start: Callable[[list[Tool]], Any], tools: list[Tool], logits: torch.Tensor) -> tuple[float, Any]:
    """Return the milliseconds from tools to the first mask, and the row."""
    gc.collect()
    begin = time.perf_counter()
    row = start(tools)
    row.mask(logits)
    return (time.perf_counter() - begin) * 1e3, row


def steps(row: Any, tokens: list[int], logits: torch.Tensor) -> list[float]:
    """Return the microseconds of each step."""
    found = []
    for token in tokens:
        ids = torch.tensor([token])
        begin = time.perf_counter()
        if row is not None:
            row.mask(logits)
            row.advance(ids)
        found.append((time.perf_counter() - begin) * 1e6)
    return found


def spelled(text: str, vocabulary: lk.Vocabulary) -> list[int]:
    """Return tokens of a text, the longest at each place."""
    known = {token: number for number, token in enumerate(vocabulary.tokens) if token}
    data, found, at = text.encode(), [], 0
    while at < len(data):
        width = next(n for n in range(min(24, len(data) - at), 0, -1) if data[at : at + n] in known)
        found.append(known[data[at : at + width]])
        at += width
    return found


def measure(counts: list[int], rounds: int) -> dict[str, Any]:
    """Return all results."""
    torch.set_num_threads(1)
    vocabulary = vocabularies.tekken()
    ours, guidance, xgrammar = Logitkit(vocabulary), WithLLGuidance(vocabulary), WithXGrammar(vocabulary)
    logits = torch.zeros(1, vocabulary.size)
    found: dict[str, Any] = {"first mask, ms": {}, "step, us": {}}
    for count in counts:
        times: dict[str, list[float]] = {}
        for seed in range(rounds):
            tools = tools_of(count, count * 1000 + seed)
            shuffled = random.Random(seed).sample(tools, count)
            others = [*shuffled[1:], *tools_of(1, count * 1000 + seed + 500)]
            turns: list[tuple[str, Callable[[list[Tool]], Any], list[Tool]]] = [
                ("logitkit, new tools", ours.start, tools),
                *([("logitkit, known tools", ours.start, others)] if count > 1 else []),
                *([("logitkit, known tools, again", ours.start, others[::-1])] if count > 1 else []),
                ("LLGuidance", guidance.start_tools, tools),
                ("XGrammar", xgrammar.start_tools, tools),
            ]
            # XGrammar takes long for hundreds of tools, so it is measured once.
            for name, start, given in turns[: -1 if seed and count > 100 else None]:
                times.setdefault(name, []).append(first_mask(start, given, logits)[0])
        found["first mask, ms"][count] = {name: [round(t, 3) for t in values] for name, values in times.items()}
        print(count, {name: round(statistics.median(values), 2) for name, values in times.items()}, flush=True)
    tools = tools_of(20, 5)
    # One of the tools has a text as its first argument.
    name, schema = next(
        (n, s) for n, s in tools if [s["properties"][r] for r in s["required"][:1]] == [{"type": "string"}]
    )
    key = schema["required"][0]
    word = "A sentence of ordinary words, which goes on for a while. "
    rest = ",".join(f'"{other}":{value(schema["properties"][other])}' for other in schema["required"][1:])
    arguments = f'{{"{key}":"{word * 3}"' + ("," + rest if rest else "") + "}"
    call = f'{BEGIN}{{"name":"{name}","arguments":'
    text = {"text": spelled(word * 8, vocabulary), "arguments": spelled(arguments, vocabulary)}
    starts: dict[str, Callable[[list[Tool]], Any]] = {
        "logitkit": ours.start,
        "LLGuidance": guidance.start_tools,
        "XGrammar": xgrammar.start_tools,
    }
    samples: dict[str, dict[str, list[float]]] = {place: {} for place in text}
    for _ in range(rounds):
        for subject in ("no constraint", "logitkit", "logitkit, again", "LLGuidance", "XGrammar"):
            library = starts.get(subject.partition(",")[0])
            row = None if library is None else library(tools)
            samples["text"].setdefault(subject, []).extend(steps(row, text["text"], logits))
            steps(row, spelled(call, vocabulary), logits)
            samples["arguments"].setdefault(subject, []).extend(steps(row, text["arguments"], logits))
    for place, subjects in samples.items():
        found["step, us"][place] = {n: {"median": q(v, 0.5), "p99": q(v, 0.99)} for n, v in subjects.items()}
        print(place, {n: (q(v, 0.5), q(v, 0.99)) for n, v in subjects.items()}, flush=True)
    return found


def value(schema: dict[str, Any]) -> str:
    """Return a JSON text that satisfies one of `TYPES`."""
    samples = {
        "string": '"a"',
        "integer": "1",
        "number": "1.5",
        "boolean": "true",
        "array": "[]",
        "object": '{"lat":1,"lon":2}',
    }
    return '"celsius"' if "enum" in schema else samples[schema["type"]]


def q(values: list[float], share: float) -> float:
    """Return a quantile."""
    return round(sorted(values)[int(share * (len(values) - 1))], 1)


def main() -> None:
    """Measure, print, and write the results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tools", default="1,20,500")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = measure([int(n) for n in options.tools.split(",")], options.rounds)
    found |= {
        "commit": commit(),
        "processor": processor(),
        "python": platform.python_version(),
        "versions": {peer.name: peer.version() for peer in (WithLLGuidance, WithXGrammar)},
    }
    if options.out is not None:
        options.out.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
