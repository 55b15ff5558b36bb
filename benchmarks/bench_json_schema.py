"""logitkit and its peers on the corpus of schemas: the schemas they accept, their wrong decisions, and their cost.

Every library gets each document as compact JSON with its keys in the schema's order; `jsonschema` decides whether it is valid.
Times are medians of CPU time of one thread. outlines-core runs in a fork, which is stopped if compiling takes more than `--cap`
seconds.

    python -m benchmarks.bench_json_schema [--only TEXT] [--cap SECONDS] [--out benchmarks/results/json_schema.json]
    python -m benchmarks.bench_json_schema --corpus jsonschemabench --count 604 --out jsonschemabench.json

With `--corpus`, the schemas are those of a clone of JSONSchemaBench (`benchmarks.jsonschemabench`), whose verdicts count, and
every library runs in a fork. `benchmarks.report_jsonschemabench` prints the result as tables.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks import jsonschemabench
from benchmarks.bench_peers import _better_backend
from benchmarks.circumstances import commit, processor
from benchmarks.cold import forget
from benchmarks.forks import in_fork
from benchmarks.peer import Peer, Refused
from benchmarks.schema_peers import LLGuidance, Logitkit, OutlinesCore, Spelling, XGrammar, accepts, compact
from benchmarks.schema_steps import steps
from benchmarks.walks import replay
from logitkit.vocabulary import Vocabulary
from tests import vocabularies
from tests.json_schema.canonical import canonical
from tests.json_schema.corpus import Case, cases
from tests.json_schema.judge import exact, judge

RESULTS = Path(__file__).parent / "results" / "json_schema.json"
KINDS = (Logitkit, LLGuidance, XGrammar, OutlinesCore)
STEPS = 60
Record = dict[str, Any]
Documents = list[tuple[str, bool]]


def documents_of(case: Case) -> Documents:
    """Return the texts of a case with its verdicts, in the order of members that its schema has."""
    try:
        validator = judge(case.schema)
        texts = [canonical(document, validator) for document in (*case.valid, *case.invalid)]
    except Exception:  # noqa: BLE001 - whatever `jsonschema` makes of a schema that is not one
        texts = [canonical(document) for document in (*case.valid, *case.invalid)]
    return [(text, place < len(case.valid)) for place, text in enumerate(texts)]


def checked_documents_of(case: Case) -> Documents:
    """Return the texts of a case with their verdicts, which are those of `jsonschema`."""
    validator = judge(case.schema)
    found = [(canonical(d, validator), True) for d in case.valid] + [
        (canonical(d, validator), False) for d in case.invalid
    ]
    assert all(
        validator.is_valid(exact(d)) == valid for d, (_, valid) in zip((*case.valid, *case.invalid), found, strict=True)
    )
    return found


def measure(
    peer: Peer,
    case: Case,
    documents: Documents,
    vocabulary: Vocabulary,
    spell: Spelling,
    done: Callable[[Record], None],
) -> None:
    """Measure one library on one schema; `done` gets the record after compiling, and once more at the end."""
    record: Record = {"subject": peer.name, "case": case.name}
    schema = compact(case.schema)
    begin = time.process_time()
    try:
        times, product = _compiling(peer, schema, vocabulary)
    except Refused as refused:
        reason = " ".join(str(refused).split())[:200]
        done(record | {"refused": reason, "refused_s": time.process_time() - begin})
        return
    record |= times
    done(record)
    found, tokens = _verdicts(peer, schema, product, documents, vocabulary, spell)
    record |= found
    done(record)
    for rows in (1, 32) if tokens else ():
        columns = _columns(tokens, rows)
        logits = torch.zeros(rows, vocabulary.size)
        if isinstance(peer, XGrammar):
            peer.backend = _better_backend(peer, product, rows, vocabulary, columns[:5])
        running = peer.start(_fresh(peer, schema, product), rows)
        replay(running, columns, logits)
        running.advance(torch.full((rows,), -1))
        record[f"step_{rows}_s"] = statistics.median(replay(running, columns, logits))
    if isinstance(peer, Logitkit):
        record |= {"table_bytes": product.automaton.nbytes, "nests": bool(product.automaton.nesting.frames)}
    done(record)


def _fresh(peer: Peer, schema: str, product: Any) -> Any:
    # A matcher of LLGuidance is both the grammar and the place in a text.
    return peer.compile(schema) if isinstance(peer, LLGuidance) else product


def _compiling(peer: Peer, schema: str, vocabulary: Vocabulary) -> tuple[Record, Any]:
    """Time from the schema to the first masked row; return what was compiled last, too."""
    clock = time.process_time
    logits = torch.zeros(1, vocabulary.size)
    compiled: list[float] = []
    total: list[float] = []
    product: Any = None
    while len(total) < 2 or (sum(total) < 0.3 and len(total) < 5):
        product = None
        if isinstance(peer, Logitkit):
            forget(vocabulary)
        gc.collect()
        gc.disable()
        begin = clock()
        product = peer.compile(schema)
        compiled.append(clock() - begin)
        peer.start(product, 1).mask(logits)
        total.append(clock() - begin)
        gc.enable()
        if total[0] > 1:
            break
    return {"compile_s": statistics.median(compiled), "first_mask_s": statistics.median(total)}, product


def _verdicts(
    peer: Peer, schema: str, product: Any, documents: Documents, vocabulary: Vocabulary, spell: Spelling
) -> tuple[Record, list[list[int]]]:
    """Show every document to the library; return its mistakes, and the tokens of what it rightly took."""
    logits = torch.zeros(1, vocabulary.size)
    eos = vocabulary.eos_ids[0]
    wrong_accepts: list[str] = []
    wrong_rejects: list[str] = []
    right: list[list[int]] = []
    spaced = peer.compile_spaced(schema) if isinstance(peer, XGrammar) else None
    for text, valid in documents:
        tokens = spell(text.encode())
        taken = accepts(peer.start(_fresh(peer, schema, product), 1), tokens, eos, logits)
        if taken and valid:
            right.append(tokens)
        if spaced is not None:
            taken = accepts(peer.start(spaced, 1), tokens, eos, logits)
        if taken != valid:
            (wrong_accepts if taken else wrong_rejects).append(text)
    record: Record = {"documents": len(documents), "wrong_accepts": wrong_accepts, "wrong_rejects": wrong_rejects}
    return record, right


def _columns(texts: list[list[int]], rows: int) -> list[torch.Tensor]:
    """Write the texts over and over, each row from another one on; -1 where a text ends."""
    streams = []
    for row in range(rows):
        turned = texts[row % len(texts) :] + texts[: row % len(texts)]
        stream = itertools.chain.from_iterable([*text, -1] for text in itertools.cycle(turned))
        streams.append(list(itertools.islice(stream, STEPS)))
    return list(torch.tensor(streams).T.contiguous())


def peers_of(vocabulary: Vocabulary, kinds: tuple[type[Peer], ...]) -> list[Peer]:
    """Make every library ready and touch it once, so that its kernels are there."""
    peers = [kind(vocabulary) for kind in kinds]
    for peer in (*peers, *(XGrammar(vocabulary, "torch_compile") for kind in kinds if kind is XGrammar)):
        for rows in (1, 32):
            running = peer.start(peer.compile('{"type": "boolean"}'), rows)
            running.mask(torch.zeros(rows, vocabulary.size))
    # Or every collection before a measurement would walk the vocabularies of all.
    gc.collect()
    gc.freeze()
    return peers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="part of the names of cases")
    parser.add_argument("--cap", type=float, default=10.0, help="seconds for a compilation of outlines-core")
    parser.add_argument("--peers", default="", help="names of libraries, with commas; all if empty")
    parser.add_argument("--vocabulary", default="tekken")
    parser.add_argument("--corpus", type=Path, help="a clone of JSONSchemaBench, in place of the project's own schemas")
    parser.add_argument("--count", type=int, help="the number of its schemas; all if left out")
    parser.add_argument("--seed", type=int, default=2026, help="the seed of their order")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    begin = time.time()
    vocabulary: Vocabulary = getattr(vocabularies, arguments.vocabulary)()
    spell = Spelling(vocabulary)
    kinds = tuple(kind for kind in KINDS if not arguments.peers or kind.name in arguments.peers.split(","))
    result: Record = {
        "versions": {kind.name: kind.version() for kind in kinds}
        | {"torch": torch.__version__, "python": platform.python_version()},
        "commit": commit(),
        "vocabulary": arguments.vocabulary,
        "cap_s": arguments.cap,
        "machine": {"processor": processor(), "load_before": os.getloadavg()[0]},
    }
    peers = peers_of(vocabulary, kinds)
    records: list[Record] = []
    result["records"] = records
    corpus = cases()
    if arguments.corpus:
        corpus = jsonschemabench.schemas(arguments.corpus, arguments.count, arguments.seed)
        result |= {"snapshot": jsonschemabench.snapshot(arguments.corpus), "seed": arguments.seed}
    for case in corpus:
        if arguments.only not in case.name:
            continue
        documents = documents_of(case) if arguments.corpus else checked_documents_of(case)
        for peer in peers:
            forked = isinstance(peer, OutlinesCore) or bool(arguments.corpus)
            record = measured(peer, case, documents, vocabulary, spell, arguments.cap, forked)
            records.append(by_number(record, documents) if arguments.corpus else record)
            print(json.dumps(records[-1], ensure_ascii=False)[:300], flush=True)
        write(result, arguments.out)
    if Logitkit in kinds and not arguments.corpus:
        result["steps"] = steps(vocabulary)
    result["machine"] |= {"load_after": os.getloadavg()[0], "seconds": round(time.time() - begin)}
    write(result, arguments.out)


def by_number(record: Record, documents: Documents) -> Record:
    """Return a record that names documents by their numbers, from 1 on: those of others are not copied into the results."""
    number = {text: f"document {place}" for place, (text, _) in enumerate(documents, 1)}
    kinds = [kind for kind in ("wrong_accepts", "wrong_rejects") if kind in record]
    return record | {kind: [number[text] for text in record[kind]] for kind in kinds}


def write(result: Record, out: Path) -> None:
    """Write a result, whole or as far as it is known."""
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", "utf-8")


def measured(
    peer: Peer, case: Case, documents: Documents, vocabulary: Vocabulary, spell: Spelling, cap: float, forked: bool
) -> Record:
    """Return what `measure` finds for one library and one schema, in a fork if that may take long."""
    found: Record = {}
    if not forked:
        measure(peer, case, documents, vocabulary, spell, found.update)
        return found
    last, stopped = in_fork(lambda done: measure(peer, case, documents, vocabulary, spell, done), cap, 60.0)
    found = last or {"subject": peer.name, "case": case.name}
    return found | ({"unfinished": stopped} if stopped else {})


if __name__ == "__main__":
    main()
