"""logitkit and its peers on the schemas of SchemaStore: what they accept and refuse, wrong verdicts, and times.

Every library gets each schema, and each document as compact JSON with its keys in the schema's order, in a fork that is stopped
if compiling takes more than `--cap` seconds. logitkit also gets the folder of schemas, as `resources`; the others have no such
argument. A valid document that logitkit takes only with its members in another order counts as right. Times are CPU times of one
thread.

    git clone https://github.com/SchemaStore/schemastore
    python -m benchmarks.bench_schemastore schemastore [--count N] [--peers NAMES] [--out schemastore.json]
    python -m benchmarks.report_jsonschemabench schemastore.json
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from pathlib import Path
from typing import Any

import torch

import logitkit as lk
from benchmarks import schemastore
from benchmarks.bench_json_schema import Documents, Record, by_number, measured, peers_of, write
from benchmarks.circumstances import commit, processor
from benchmarks.forks import in_fork
from benchmarks.jsonschemabench import snapshot
from benchmarks.schema_peers import LLGuidance, Logitkit, Spelling, XGrammar
from logitkit.vocabulary import Vocabulary
from tests import vocabularies
from tests.json_schema.acceptance import BYTES, Accepted
from tests.json_schema.corpus import Case
from tests.json_schema.judge import parse
from tests.json_schema.orders import orders

KINDS = (Logitkit, LLGuidance, XGrammar)
RESULTS = Path(__file__).parent / "results" / "schemastore.json"
# Seconds for `jsonschema` to judge all documents of a schema.
JUDGING = 60.0


def judged(case: Case, folder: Path) -> Documents | None:
    """Return the documents of a schema with their verdicts, None if `jsonschema` cannot give them."""

    def work(done: Any) -> None:
        try:
            done({"texts": schemastore.texts_of(case, folder)})
        except Exception:  # noqa: BLE001 - whatever `jsonschema` makes of a schema that it cannot read
            done({})

    found, _ = in_fork(work, JUDGING, JUDGING)
    texts: Documents | None = (found or {}).get("texts")
    return texts


def reordered(schema: Any, texts: list[str], resources: Path) -> list[str]:
    """Return the documents among some that logitkit takes with their members in another order.

    `canonical` does not know every rule by which a schema orders members.
    """
    found: list[str] = []

    def work(done: Any) -> None:
        accepted = Accepted(lk.JsonSchema(schema, BYTES, resources=resources))
        for text in texts:
            if any(accepted.accepts(other.encode()) for other in orders(parse(text), "", accepted)):
                found.append(text)
            done({"texts": found})

    last, _ = in_fork(work, JUDGING, JUDGING)
    taken: list[str] = (last or {}).get("texts", [])
    return taken


def run(folder: Path, vocabulary: Vocabulary, peers: str, count: int | None, cap: float, out: Path) -> Record:
    """Measure all libraries on all schemas, and write the result after each schema."""
    kinds = tuple(kind for kind in KINDS if not peers or kind.name in peers.split(","))
    result: Record = {
        "corpus": "SchemaStore",
        "snapshot": snapshot(folder),
        "seed": schemastore.SEED,
        "versions": {kind.name: kind.version() for kind in kinds}
        | {"torch": torch.__version__, "python": platform.python_version()},
        "commit": commit(),
        "vocabulary": "tekken",
        "cap_s": cap,
        "machine": {"processor": processor(), "load_before": os.getloadavg()[0]},
        "not_judged": [],
    }
    records: list[Record] = []
    result["records"] = records
    begin, spell = time.time(), Spelling(vocabulary)
    ready = peers_of(vocabulary, kinds)
    for peer in ready:
        if isinstance(peer, Logitkit):
            peer.resources = folder / schemastore.SCHEMAS
    for case in schemastore.schemas(folder, count):
        documents = judged(case, folder)
        if documents is None:
            result["not_judged"].append(case.name)
        for peer in ready:
            record = measured(peer, case, documents or [], vocabulary, spell, cap, forked=True)
            if isinstance(peer, Logitkit) and record.get("wrong_rejects"):
                others = reordered(case.schema, record["wrong_rejects"], folder / schemastore.SCHEMAS)
                record["other_order"] = len(others)
                record["wrong_rejects"] = [text for text in record["wrong_rejects"] if text not in others]
            records.append(by_number(record, documents or []))
        result["machine"] |= {"load_after": os.getloadavg()[0], "seconds": round(time.time() - begin)}
        write(result, out)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a clone of SchemaStore")
    parser.add_argument("--count", type=int, help="the number of schemas; all if left out")
    parser.add_argument("--peers", default="", help="names of libraries, with commas; all if empty")
    parser.add_argument("--cap", type=float, default=10.0, help="seconds for a compilation")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    run(given.folder, vocabularies.tekken(), given.peers, given.count, given.cap, given.out)


if __name__ == "__main__":
    main()
