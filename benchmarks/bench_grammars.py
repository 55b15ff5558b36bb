"""The grammars of `benchmarks/grammars`: first mask, first visits and steps, beside XGrammar and LLGuidance.

    python -m benchmarks.bench_grammars [--rounds 3] [--tokens 64] [--out FILE]

All three libraries read both syntaxes; LLGuidance reads GBNF through the converter in its package. They take turns within each
round, on one thread, with the vocabulary Tekken (131,072 ids). All times are CPU times. logitkit is measured twice, as an A/A
control. To the first mask, nothing is known of the grammar. First visits are the next steps along the first valid texts of the
grammar. Later each library follows these texts again, so that it meets only places that it has visited. `Regex` follows them
under a pattern that allows any text, and under one for ASCII. A step is one row and one token, mask and advance.

Each library must first follow the texts in a process of its own within `BOUND` CPU seconds, with each token allowed. LLGuidance
builds its mask kernel with `torch.compile` on the first call, which may take a minute; that call comes before all others.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import logitkit as lk
from benchmarks import schema_peers
from benchmarks.circumstances import commit, processor
from benchmarks.cold import forget
from benchmarks.grammar_peers import AnyAscii, AnyText, LLGuidance, Logitkit, XGrammar, follow, refusal
from benchmarks.peer import Peer
from benchmarks.schema_peers import Spelling
from tests import vocabularies
from tests.grammars.own_grammars import OwnGrammar, own_grammars

RECURSION = 'root ::= "a" root | "b"'
REPETITIONS, WINDOW = 10_000, 1_000
FIRST, VISIT, LAST, STEP = "first mask, ms", "first visits, us", "first visits, 99th percentile, us", "step, us"


def measure(
    grammar: OwnGrammar, subjects: dict[str, Peer], vocabulary: lk.Vocabulary, rounds: int, count: int
) -> dict[str, Any]:
    """Return the results of one grammar."""
    logits, spell = torch.zeros(1, vocabulary.size), Spelling(vocabulary)
    tokens = [token for text in grammar.valid for token in (*spell(text.encode()), -1)][:count]
    refused = {name: refusal(peer, grammar.text, tokens, logits) for name, peer in subjects.items()}
    assert not refused["logitkit"], refused
    taking = {name: peer for name, peer in subjects.items() if not refused[name]}
    found: dict[str, dict[str, list[float]]] = {key: {name: [] for name in taking} for key in (FIRST, VISIT, STEP)}
    for _ in range(rounds):
        for name, peer in taking.items():
            gc.collect()
            if isinstance(peer, schema_peers.Logitkit):
                forget(vocabulary)
            logits.zero_()
            begin = time.process_time()
            rows = peer.start(peer.compile(grammar.text), 1)
            rows.mask(logits)
            found[FIRST][name].append((time.process_time() - begin) * 1e3)
            found[VISIT][name] += [took * 1e6 for took in follow(rows, tokens, logits)]
            rows.advance(torch.tensor([-1]))
            found[STEP][name] += [took * 1e6 for took in follow(rows, tokens, logits)]
            del rows
    return {"tokens": len(tokens), "refused": {name: reason for name, reason in refused.items() if reason}, **found}


def recursion(subjects: dict[str, Peer], vocabulary: lk.Vocabulary) -> dict[str, Any]:
    """Return the microseconds of a step at the beginning and at the end of many repetitions, or why a library fails."""
    logits, tokens = torch.zeros(1, vocabulary.size), Spelling(vocabulary)(b"a") * REPETITIONS
    found: dict[str, Any] = {}
    for name, peer in subjects.items():
        found[name] = refusal(peer, RECURSION, tokens, logits)
        if not found[name]:
            times = follow(peer.start(peer.compile(RECURSION), 1), tokens, logits)
            found[name] = [statistics.median(part) * 1e6 for part in (times[10:WINDOW], times[-WINDOW:])]
    return found


def table_of(results: dict[str, Any], title: str, key: str, names: list[str]) -> list[str]:
    """Write a table of the medians or 99th percentiles of each grammar."""
    lines = [f"**{title}**", "", f"| grammar | {' | '.join(names)} |", "|---|" + "---:|" * len(names)]
    for grammar, found in results.items():
        percent = 99 if title == LAST else 50
        cells = [f"{np.percentile(found[key][name], percent):,.1f}" if name in found[key] else "-" for name in names]
        lines.append(f"| {grammar} | {' | '.join(cells)} |")
    medians = {
        name: [np.median(found[key][name]) for found in results.values() if name in found[key]] for name in names
    }
    every = {name: [t for found in results.values() for t in found[key].get(name, ())] for name in names}
    lines.append(f"| median of all | {' | '.join(f'{np.median(medians[name]):,.1f}' for name in names)} |")
    if title == FIRST:
        cells = [f"{np.percentile(medians[name], 95):,.1f}" for name in names]
        lines.append(f"| 95th percentile of the grammars | {' | '.join(cells)} |")
    if title == LAST:
        lines.append(f"| 99th percentile of all | {' | '.join(f'{np.percentile(every[n], 99):,.1f}' for n in names)} |")
    return [*lines, ""]


def main() -> None:
    """Measure, print, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=64, help="the maximum number of tokens of texts per grammar")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    load = os.getloadavg()[0]
    vocabulary = vocabularies.tekken()
    ours = Logitkit(vocabulary)
    subjects: dict[str, Peer] = {
        "logitkit": ours,
        "logitkit, again": ours,
        "XGrammar": XGrammar(vocabulary),
        "LLGuidance": LLGuidance(vocabulary),
        "Regex": AnyText(vocabulary),
        "Regex, ASCII": AnyAscii(vocabulary),
    }
    for peer in subjects.values():
        peer.start(peer.compile(RECURSION), 1).mask(torch.zeros(1, vocabulary.size))
    results = {
        grammar.name: measure(grammar, subjects, vocabulary, options.rounds, options.tokens)
        for grammar in (*own_grammars("gbnf"), *own_grammars("lark"))
    }
    compared = [name for name in subjects if not name.startswith("Regex")]
    lines = table_of(results, FIRST, FIRST, compared)
    lines += table_of(results, LAST, VISIT, compared)
    lines += table_of(results, STEP, STEP, list(subjects))
    for grammar, found in results.items():
        lines += [f"- {grammar}: {name}: {reason}" for name, reason in found["refused"].items()]
    repeated = recursion({name: subjects[name] for name in compared}, vocabulary)
    lines += [
        f"- {REPETITIONS:,} repetitions, first and last {WINDOW:,}: {name}: {took}" for name, took in repeated.items()
    ]
    print("\n".join(lines))
    circumstances = {
        "commit": commit(),
        "processor": processor(),
        "date": time.strftime("%Y-%m-%d"),
        "load": [load, os.getloadavg()[0]],
        "python": platform.python_version(),
        "rounds": options.rounds,
        "versions": {peer.name: peer.version() for peer in subjects.values()},
    }
    print(json.dumps(circumstances))
    if options.out is not None:
        written = {**circumstances, "grammars": results, "recursion": repeated}
        options.out.write_text(json.dumps(written) + "\n", "utf-8")


if __name__ == "__main__":
    main()
