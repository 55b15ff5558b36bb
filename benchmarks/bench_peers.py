"""logitkit and its peers on the suite: compiling, whole generations, and single steps.

All times are CPU time of one thread, so other programs matter little; if a measurement is quick enough to repeat, its median
counts. The libraries take turns on each pattern. Each one first generates random legal tokens (`walks`), whose texts `re`
checks, and is then timed along these tokens. outlines-core runs in a fork, because it may need minutes: after `CAP` seconds it
is stopped.

    python -m benchmarks.bench_peers [--only TEXT] [--peers NAMES] [--vocabulary tekken] [--out benchmarks/results/peers.json]
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import re
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import logitkit as lk
from benchmarks.circumstances import commit, processor
from benchmarks.cold import forget
from benchmarks.forks import in_fork
from benchmarks.peer import Peer, Refused, Rows
from benchmarks.peer_suites import PEER_SUITES, judged_by
from benchmarks.peers import Backend, LLGuidance, Logitkit, OutlinesCore, XGrammar
from benchmarks.side_by_side import medians
from benchmarks.suite import SUITE, Entry, check
from benchmarks.walks import Walk, replay, walk
from logitkit.errors import PatternTooLarge
from logitkit.vocabulary import Vocabulary
from tests import vocabularies

STEPS = 100
CAP = 20.0  # seconds for a compilation of outlines-core
WALK_CAP = 2.0  # seconds for a walk; a slower one makes fewer steps, and its total is scaled up
RESULTS = Path(__file__).parent / "results" / "peers.json"
KINDS: tuple[type[Peer], ...] = (Logitkit, LLGuidance, XGrammar, OutlinesCore)
VOCABULARIES = ("tekken", "sentencepiece_32k")
Record = dict[str, Any]


def measure(peer: Peer, entry: Entry, vocabulary: Vocabulary, done: Callable[[Record], None]) -> None:
    """Measure one library on one pattern; `done` gets the record after compiling, and once more at the end."""
    record: Record = {"subject": peer.name, "pattern": entry.name}
    try:
        record_of_compiling, product = _compiling(peer, entry.pattern, vocabulary)
    except Refused as refused:
        done(record | {"refused": str(refused).strip().splitlines()[0][:200]})
        return
    record |= record_of_compiling
    done(record)
    # A slow compilation is reused, if later measurements leave its result unchanged.
    if record["compile_s"] < 0.5 or isinstance(peer, Logitkit | LLGuidance):
        product = None
    for rows in (1, 32) if entry in SUITE else (1,):
        record[f"batch_{rows}"] = _generating(peer, entry, vocabulary, rows, product, record["compile_s"])
    if isinstance(peer, Logitkit):
        record["table_bytes"] = peer.compile(entry.pattern).automaton.nbytes
        record["within_default_limits"] = _within_default_limits(entry.pattern, vocabulary)
    done(record)


def _compiling(peer: Peer, pattern: str, vocabulary: Vocabulary) -> tuple[Record, Any]:
    """Time from the pattern to the first masked row; return what was compiled last, too."""
    clock = time.process_time
    logits = torch.zeros(1, vocabulary.size)
    compiled: list[float] = []
    total: list[float] = []
    product: Any = None
    while len(total) < 2 or (sum(total) < 0.5 and len(total) < 7):
        product = None
        forget(vocabulary)
        gc.collect()
        gc.disable()
        begin = clock()
        product = peer.compile(pattern)
        compiled.append(clock() - begin)
        peer.start(product, 1).mask(logits)
        total.append(clock() - begin)
        gc.enable()
        if total[0] > 1:
            break
    record = {"compile_s": statistics.median(compiled), "first_mask_s": statistics.median(total), "rounds": len(total)}
    return record, product


def _generating(peer: Peer, entry: Entry, vocabulary: Vocabulary, rows: int, product: Any, compile_s: float) -> Record:
    """Time a whole generation of `STEPS` tokens a row, and its steps once all their states are visited."""
    pattern = entry.pattern
    if isinstance(peer, XGrammar):
        peer.backend = "torch_compile"
    compiled = product or peer.compile(pattern)
    walked = walk(peer.start(compiled, rows), rows, vocabulary, STEPS, WALK_CAP)
    record: Record = {"steps": len(walked.tokens)} | _judge(walked, judged_by(entry))
    if not walked.tokens:
        return record
    if isinstance(peer, XGrammar):
        record["backend"] = peer.backend = _better_backend(peer, compiled, rows, vocabulary, walked.tokens[:5])
    del compiled  # or its masks would still be there
    return record | _timed(peer, pattern, vocabulary, rows, walked.tokens, product, compile_s)


def _better_backend(peer: XGrammar, compiled: Any, rows: int, vocabulary: Vocabulary, tokens: list[Tensor]) -> Backend:
    """Return the kernel of XGrammar that is faster on the masks of a few steps."""
    logits = torch.zeros(rows, vocabulary.size)
    taken: dict[Backend, float] = {}
    for backend in ("cpu", "torch_compile"):
        peer.backend = backend
        taken[backend] = statistics.median(replay(peer.start(compiled, rows), tokens, logits))
    return min(taken, key=lambda b: taken[b])


def _timed(
    peer: Peer,
    pattern: str,
    vocabulary: Vocabulary,
    rows: int,
    tokens: list[Tensor],
    product: Any,
    compile_s: float,
) -> Record:
    clock = time.process_time
    logits = torch.zeros(rows, vocabulary.size)
    totals: list[float] = []
    kept: Any = product
    running: Rows | None = None
    while running is None or (rows == 1 and len(totals) < 3 and sum(totals) < 0.5):
        before = compile_s
        if product is None:
            kept = running = None
            before = 0.0
            forget(vocabulary)
        gc.collect()
        gc.disable()
        begin = clock()
        kept = peer.compile(pattern) if product is None else product
        running = peer.start(kept, rows)
        started = clock() - begin + before
        times = replay(running, tokens, logits)
        gc.enable()
        totals.append(started + sum(times) * STEPS / len(times))
    running.advance(torch.full((rows,), -1))
    visited = replay(running, tokens[: 100 if rows == 1 else 30], logits)
    return {
        "total_s": statistics.median(totals),
        "visited_step_s": statistics.median(visited),
        "visited_step_worst_s": max(visited),
    }


def _judge(walked: Walk, judge: str) -> Record:
    """Let `re` judge the texts that a library wrote."""
    wrong = []
    for text in walked.texts:
        try:
            right = re.fullmatch(judge, text.decode()) is not None
        except UnicodeDecodeError:
            right = False
        if not right:
            wrong.append(text)
    record: Record = {"texts": len(walked.texts), "wrong": len(wrong)}
    if wrong:
        record["wrong_example"] = repr(min(wrong, key=len)[:80])
    return record | ({"stuck": walked.stuck} if walked.stuck else {})


def _within_default_limits(pattern: str, vocabulary: Vocabulary) -> bool:
    try:
        lk.Regex(pattern, vocabulary)
    except PatternTooLarge:
        return False
    return True


def measure_forked(peer: Peer, entry: Entry, vocabulary: Vocabulary) -> Record:
    """Measure in a fork of this process, which is stopped where compiling takes more than `CAP` seconds."""
    found, stopped = in_fork(lambda report: measure(peer, entry, vocabulary, report), CAP, 120.0)
    record: Record = found or {"subject": peer.name, "pattern": entry.name}
    return record | ({"unfinished": stopped} if stopped else {})


def measure_vocabulary(name: str, entries: list[Entry], hopeless: set[str], kinds: Sequence[type[Peer]]) -> Record:
    """Measure libraries on patterns over one vocabulary, outlines-core not on those that are hopeless for it."""
    vocabulary: Vocabulary = getattr(vocabularies, name)()
    setup: dict[str, float] = {}
    peers: list[Peer] = []
    for kind in kinds:
        vocabulary.__dict__.clear()
        begin = time.process_time()
        peers.append(kind(vocabulary))
        setup[kind.name] = time.process_time() - begin
    assert isinstance(peers[0], Logitkit)
    peers[0] = Logitkit(vocabulary)
    for peer in peers:  # compiles kernels, and touches every library once
        for rows in (1, 32):
            walk(peer.start(peer.compile(r"[ab]+"), rows), rows, vocabulary, 3)
    for rows in (1, 32) if XGrammar in kinds else ():
        compiled = XGrammar(vocabulary, "torch_compile")
        walk(compiled.start(compiled.compile(r"[ab]+"), rows), rows, vocabulary, 3)
    bare = {rows: _bare(rows, vocabulary.size) for rows in (1, 32)}
    # Or every collection before a measurement would walk the vocabularies of all, and leave the processor's caches full of them.
    gc.collect()
    gc.freeze()
    records: list[Record] = []
    for entry in entries:
        check(entry)
        for peer in peers:
            if not isinstance(peer, OutlinesCore):
                found: Record = {}
                measure(peer, entry, vocabulary, found.update)
                records.append(found)
            elif entry.name in hopeless:
                records.append({"subject": peer.name, "pattern": entry.name, "unfinished": "not tried"})
            else:
                records.append(measure_forked(peer, entry, vocabulary))
            assert not isinstance(peer, Logitkit) or _is_right(records[-1]), records[-1]
            print(name, json.dumps(records[-1]), flush=True)
    return {"setup_s": setup, "bare_add_s": bare, "records": records}


def _is_right(record: Record) -> bool:
    batches = [value for key, value in record.items() if key.startswith("batch_")]
    return len(batches) > 0 and not any(batch["wrong"] or "stuck" in batch for batch in batches)


def _bare(rows: int, size: int) -> float:
    target, added = torch.randn(rows, size), torch.zeros(rows, size)
    return medians({"add": lambda: target.add_(added)}, rounds=100)["add"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="part of the names of patterns")
    parser.add_argument(
        "--peers", default="", help="names of libraries to measure beside logitkit; all if none is given"
    )
    parser.add_argument("--vocabulary", choices=VOCABULARIES, action="append")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    entries = [*SUITE, *PEER_SUITES]
    named = arguments.peers.split()
    kinds = [kind for kind in KINDS if kind is Logitkit or not named or kind.name in named]
    begin = time.time()
    result: Record = {
        "versions": {p.name: p.version() for p in kinds}
        | {"torch": torch.__version__, "python": platform.python_version()},
        "commit": commit(),
        "machine": {"processor": processor(), "load_before": os.getloadavg()[0]},
        "suite": [e.name for e in SUITE],
    }
    # A pattern that outlines-core does not compile in time for the first vocabulary is not tried for the second, and the peers'
    # suites are not measured there: that alone would take as long as the rest.
    result["vocabularies"] = {}
    hopeless: set[str] = set()
    for name in arguments.vocabulary or VOCABULARIES:
        found = measure_vocabulary(name, [e for e in entries if arguments.only in e.name], hopeless, kinds)
        result["vocabularies"][name] = found
        hopeless |= {r["pattern"] for r in found["records"] if "first_mask_s" not in r and "unfinished" in r}
        entries = list(SUITE)
    result["machine"] |= {"load_after": os.getloadavg()[0], "seconds": round(time.time() - begin)}
    arguments.out.parent.mkdir(exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
