"""The compiled tables of one checkout, for `compare_tables`: `python table_cases.py TASK`, with its sources on the path.

TASK is a file of JSON: `{"corpus": folder or null, "count": number, "walks": null}` prints the content key and the sizes of the
automaton of each case. With a list of names as `walks`, it prints for each of these cases the masks along random texts, as one
SHA-256 for each text. The texts depend on the masks and on a seed alone, so equal automata write equal texts, however their
states and classes are numbered.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import logitkit as lk
from benchmarks.jsonschemabench import schemas
from benchmarks.suite import SUITE
from tests.registry import ROWS
from tests.vocabularies import tekken

WALKS, STEPS = 4, 40

Make = Callable[[], Any]


def cases(corpus: str | None, count: int) -> Iterator[tuple[str, Make]]:
    """Yield the name of each case, and a function that compiles it: patterns, schemas, grammars, and rows of the registry."""
    vocabulary = tekken()
    for entry in SUITE:
        yield f"pattern {entry.name}", partial(lk.Regex, entry.pattern, vocabulary)
    for name, make in [*_of_schemas(vocabulary), *_of_grammars(vocabulary)]:
        for closing in (False, True):
            yield f"{name}, closing={closing}", partial(make, closing=closing)
    for case in [] if corpus is None else schemas(Path(corpus), count):
        yield f"JSONSchemaBench {case.name}", partial(lk.JsonSchema, case.schema, vocabulary)
    for row in ROWS:
        if getattr(row.processor, "automaton", None) is not None:
            yield f"row {row.name}", partial(getattr, row, "processor")


def _of_schemas(vocabulary: lk.Vocabulary) -> Iterator[tuple[str, Callable[..., Any]]]:
    for file in sorted(Path("benchmarks/schemas").glob("*.json")):
        for name, case in json.loads(file.read_text("utf-8")).items():
            yield f"schema {file.stem}/{name}", partial(lk.JsonSchema, case["schema"], vocabulary)


def _of_grammars(vocabulary: lk.Vocabulary) -> Iterator[tuple[str, Callable[..., Any]]]:
    for file in sorted(Path("benchmarks/grammars").iterdir()):
        if file.suffix in (".gbnf", ".lark"):
            options: dict[str, Any] = {"syntax": file.suffix[1:]}
            yield f"grammar {file.name}", partial(lk.Grammar, file.read_text("utf-8"), vocabulary, **options)


def described(make: Make) -> list[Any]:
    """Return the content key and the sizes of an automaton, or the error that refuses it."""
    try:
        automaton = make().automaton
    except lk.errors.LogitkitError as error:
        return ["refused", f"{type(error).__name__}: {error}"]
    return [automaton.content_key, [getattr(automaton, name, None) for name in ("states", "classes")]]


def walked(make: Make) -> list[str]:
    """Return a digest of the masks along each of some random texts."""
    constraint, found = make(), []
    vocabulary = constraint.vocabulary
    context = lk.Context.of([[]], vocabulary_size=vocabulary.size, max_length=10 * STEPS)
    for seed in range(WALKS):
        draw, digest, state = random.Random(seed), hashlib.sha256(), constraint.init_state(context)
        for _ in range(STEPS):
            mask = constraint.allowed_tokens(state)[0].numpy()
            digest.update(np.packbits(mask).tobytes())
            legal = [token for token in np.flatnonzero(mask).tolist() if token not in vocabulary.eos_ids]
            if not legal:
                break
            state = constraint.advance(state, torch.tensor([draw.choice(legal)]))
        found.append(digest.hexdigest())
    return found


def main(task: Path) -> None:
    """Print the answers to a task as one line of JSON."""
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    asked = json.loads(task.read_text("utf-8"))
    every = cases(asked["corpus"], asked["count"])
    if asked["walks"] is None:
        print(json.dumps({name: described(make) for name, make in every}))
    else:
        print(json.dumps({name: walked(make) for name, make in every if name in asked["walks"]}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
