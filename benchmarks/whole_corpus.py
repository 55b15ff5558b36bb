"""All schemas of JSONSchemaBench through logitkit: how many compile, and whether a verdict on any of their documents is wrong.

Documents are written as for `bench_json_schema`, and named by their numbers, from 1 on. Nothing is compared: schemas compile one
after another in one process, whose CPU times are given.

    python -m benchmarks.whole_corpus CLONE [--count N] [--out benchmarks/results/jsonschemabench_whole.json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import torch

import logitkit as lk
from benchmarks import jsonschemabench
from benchmarks.bench_json_schema import documents_of
from benchmarks.circumstances import commit
from benchmarks.report_jsonschemabench import reason_of
from benchmarks.schema_peers import Spelling
from logitkit.errors import ConfigurationError, PatternSyntaxError, PatternTooLarge, UnsupportedSchema
from tests import vocabularies
from tests.json_schema.corpus import Case

REFUSALS = (ConfigurationError, UnsupportedSchema, PatternSyntaxError, PatternTooLarge)


def accepts(constraint: lk.JsonSchema, tokens: list[int]) -> bool:
    """Whether a row may end after some tokens."""
    vocabulary = constraint.vocabulary
    context = lk.Context.of([[]], vocabulary_size=vocabulary.size)
    state = constraint.advance(constraint.init_state(context), torch.tensor([tokens], dtype=torch.int64))
    if bool(constraint.is_dead(state)):
        return False
    masked = constraint.process_logits(state, torch.ones(1, vocabulary.size), context)[1]
    return bool(masked[0, vocabulary.eos_ids[0]] == 1)


def whole(cases: list[Case]) -> dict[str, Any]:
    """Compile all schemas, and show each its documents."""
    vocabulary = vocabularies.tekken()
    spell = Spelling(vocabulary)
    refused: Counter[str] = Counter()
    wrong: list[tuple[str, int, bool]] = []
    seconds: list[float] = []
    documents = 0
    for case in cases:
        begin = time.process_time()
        try:
            constraint = lk.JsonSchema(case.schema, vocabulary)
        except REFUSALS as error:
            refused[reason_of(" ".join(str(error).split()))] += 1
            continue
        seconds.append(time.process_time() - begin)
        for place, (text, valid) in enumerate(documents_of(case), 1):
            documents += 1
            if accepts(constraint, spell(text.encode())) != valid:
                wrong.append((case.name, place, valid))
    seconds.sort()
    return {
        "schemas": len(cases),
        "compiled": len(seconds),
        "documents": documents,
        "wrong": wrong,
        "refused": dict(refused.most_common()),
        "compile_ms": {
            "median": 1e3 * statistics.median(seconds),
            "p95": 1e3 * seconds[int(0.95 * len(seconds))],
            "worst": 1e3 * seconds[-1],
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--count", type=int)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    result = {"snapshot": jsonschemabench.snapshot(options.corpus), "commit": commit()}
    result |= whole(jsonschemabench.schemas(options.corpus, options.count))
    print(json.dumps(result, indent=1))
    if options.out is not None:
        options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
