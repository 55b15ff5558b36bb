"""Where the mask of a peer differs from ours, `re` decides who is right: `python -m benchmarks.peer_masks`.

Random texts are written with tokens that both allow, and the two masks are compared at every token. A token that we allow and
the peer does not is decided by a text that goes on with it: if `re` matches the whole text, the peer is wrong, else we are. A
token that the peer alone allows is decided by the text that the peer goes on to: if `re` matches it, we are wrong. Where the peer
finds no end, the partial matching of the module `regex` says whether any text begins so.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from benchmarks.bench_peers import CAP, VOCABULARIES
from benchmarks.forks import in_fork
from benchmarks.mask_comparison import Comparison
from benchmarks.peer import Peer, Refused
from benchmarks.peer_suites import PEER_SUITES
from benchmarks.peers import LLGuidance, Logitkit, OutlinesCore, XGrammar
from benchmarks.report import in_cell
from benchmarks.suite import SUITE, Entry
from logitkit.vocabulary import Vocabulary
from tests import vocabularies

STEPS = 60
RESULTS = Path(__file__).parent / "results" / "masks.json"


def compare(ours: Logitkit, peer: Peer, entry: Entry, vocabulary: Vocabulary, hopeless: set[str]) -> dict[str, Any]:
    """Compare on one pattern; outlines-core in a fork that is stopped, and not on patterns that are hopeless for it."""
    found: dict[str, Any] = {}

    def work(report: Callable[[dict[str, Any]], None]) -> None:
        try:
            Comparison(ours, peer, entry, vocabulary).run(STEPS, report)
        except Refused as refused:
            report({"refused": str(refused).strip().splitlines()[0][:200]})

    if isinstance(peer, OutlinesCore) and entry.name in hopeless:
        found = {"unfinished": "not tried"}
    elif isinstance(peer, OutlinesCore):
        last, stopped = in_fork(work, CAP, 60.0)
        found = (last or {}) | ({"unfinished": stopped} if stopped else {})
    else:
        work(found.update)
    return {"subject": peer.name, "pattern": entry.name} | found


def lines(result: dict[str, Any]) -> Iterator[str]:
    """Write the differences as a table: a row for each peer, pattern and kind."""
    compared: Counter[str] = Counter()
    states: Counter[str] = Counter()
    differing: Counter[str] = Counter()
    ours: Counter[str] = Counter()
    theirs: Counter[str] = Counter()
    undecided: Counter[str] = Counter()
    rows: dict[tuple[str, str, str], list[str]] = {}
    for vocabulary, records in result["vocabularies"].items():
        for record in records:
            who = record["subject"]
            if "states" in record:
                compared[who] += 1
                states[who] += record["states"]
                differing[who] += record["differing"]
                ours[who] += sum(record["right"].values())
                theirs[who] += len(record["wrong"])
                undecided[who] += len(record["undecided"])
                for kind, (before, token, deciding) in record["examples"].items():
                    cells = [before, token, deciding]
                    rows.setdefault(
                        (who, record["pattern"], kind), [vocabulary, str(record["tokens"].get(kind, 1)), *cells]
                    )
    yield "| library | patterns x vocabularies | masks | that differ | decided for us | for the peer | undecided |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for who, count in compared.items():
        decided = (ours[who], theirs[who], undecided[who])
        yield f"| {who} | {count} | {states[who]} | {differing[who]} | {' | '.join(map(str, decided))} |"
    yield ""
    for vocabulary, records in result["vocabularies"].items():
        for record in records:
            for before, token in record.get("undecided", ())[:1]:
                where = f"{record['subject']} on {record['pattern']}, {vocabulary}"
                yield f"- Undecided: {where}, {len(record['undecided'])} tokens, such as `` {token} `` after `` {before} ``"
    yield ""
    yield "| library | pattern | it | tokens | after | token | decided by |"
    yield "|---|---|---|---:|---|---|---|"
    for (who, pattern, kind), (_, tokens, *cells) in sorted(rows.items()):
        code = [in_cell(f"`` {c} ``") if c[:1] in "'b\"" else c for c in cells]
        yield f"| {who} | {pattern} | {kind} | {tokens} | {' | '.join(code)} |"
    yield ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="part of the names of patterns")
    parser.add_argument("--vocabulary", choices=VOCABULARIES, action="append")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    result: dict[str, Any] = {"vocabularies": {}}
    ours_wrong = 0
    hopeless: set[str] = set()
    for name in arguments.vocabulary or VOCABULARIES:
        vocabulary: Vocabulary = getattr(vocabularies, name)()
        ours = Logitkit(vocabulary)
        peers: tuple[Peer, ...] = (LLGuidance(vocabulary), XGrammar(vocabulary), OutlinesCore(vocabulary))
        records = []
        for entry in (*SUITE, *PEER_SUITES):
            if arguments.only in entry.name:
                for peer in peers:
                    records.append(compare(ours, peer, entry, vocabulary, hopeless))
                    ours_wrong += len(records[-1].get("wrong", ()))
                    print(name, json.dumps(records[-1], ensure_ascii=False), flush=True)
        result["vocabularies"][name] = records
        hopeless |= {r["pattern"] for r in records if "unfinished" in r}
    arguments.out.parent.mkdir(exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    if ours_wrong:
        raise SystemExit(f"re decided against logitkit {ours_wrong} times")


if __name__ == "__main__":
    main()
