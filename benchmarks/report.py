"""Write the results of the peers' benchmarks as Markdown: `python -m benchmarks.report`.

Reads `benchmarks/results/*.json`; writes `benchmarks/results/peers.md` and marked parts of `docs/peers.md` and of
`docs/benchmarks-patterns.md`. Then run `scripts/draw-pictures`, which plots them.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
SUMMARY = ROOT / "docs" / "peers.md"
PAGE = ROOT / "docs" / "benchmarks-patterns.md"
OURS = "logitkit"
STEPS = 100  # tokens that a total stands for
PEERS = ("LLGuidance", "XGrammar", "outlines-core")
LABELS = {"tekken": "Tekken, 131k tokens", "sentencepiece_32k": "SentencePiece, 32k tokens"}
Record = dict[str, Any]
Measure = Callable[[Record], float | None]

MEASURES: dict[str, tuple[str, float, Measure]] = {
    "compile": ("Pattern to first masked row, ms", 1e3, lambda r: r.get("first_mask_s")),
    "generation_1": (
        "100 tokens at batch 1, compiling included, ms",
        1e3,
        lambda r: r.get("batch_1", {}).get("total_s"),
    ),
    "generation_32": (
        "100 tokens at batch 32, compiling included, ms",
        1e3,
        lambda r: r.get("batch_32", {}).get("total_s"),
    ),
    "step_1": ("Step in visited states at batch 1, us", 1e6, lambda r: r.get("batch_1", {}).get("visited_step_s")),
    "step_32": ("Step in visited states at batch 32, us", 1e6, lambda r: r.get("batch_32", {}).get("visited_step_s")),
}


def by_pattern(records: list[Record]) -> dict[str, dict[str, Record]]:
    """Return the records by pattern and by library."""
    found: dict[str, dict[str, Record]] = {}
    for record in records:
        found.setdefault(record["pattern"], {})[record["subject"]] = record
    return found


def cell(record: Record, measure: Measure, scale: float) -> str:
    """Write one number, or why there is none."""
    value = measure(record)
    if value is None:
        return "refused" if "refused" in record else record.get("unfinished", "–").replace(" s", " s")
    about = "~" if is_scaled(record, measure) else ""
    wrong = any(
        record.get(f"batch_{rows}", {}).get("wrong") or "stuck" in record.get(f"batch_{rows}", {}) for rows in (1, 32)
    )
    return about + number(value * scale) + ("†" if wrong else "")


def is_scaled(record: Record, measure: Measure) -> bool:
    """Whether a total stands for more tokens than were made."""
    batches = [record.get(f"batch_{rows}", {}) for rows in (1, 32)]
    return any(b["total_s"] == measure(record) and b["steps"] < STEPS for b in batches if "total_s" in b)


def number(value: float) -> str:
    """Write a number with about three digits."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def table(records: list[Record], names: list[str], measure: Measure, scale: float) -> Iterator[str]:
    """One row a pattern, one column a library."""
    yield f"| pattern | {OURS} | " + " | ".join(PEERS) + " |"
    yield "|---|---:|" + "---:|" * len(PEERS)
    found = by_pattern(records)
    for name in names:
        if measure(found[name][OURS]) is not None:
            yield f"| {name} | " + " | ".join(cell(found[name][who], measure, scale) for who in (OURS, *PEERS)) + " |"
    yield ""


def summary(records: list[Record], names: list[str]) -> Iterator[str]:
    """Medians, worst and sums, and how each peer compares."""
    found = by_pattern(records)
    yield "| measure | library | patterns done | median | worst | sum | peer / ours: median | least | most | ahead of us on |"
    yield "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    for title, scale, measure in MEASURES.values():
        ours = {n: v for n in names if (v := measure(found[n][OURS])) is not None}
        if not ours:
            continue
        for who in (OURS, *PEERS):
            values = {n: v for n in ours if (v := measure(found[n][who])) is not None}
            row = [title if who == OURS else "", who, f"{len(values)} of {len(ours)}"]
            taken = [v * scale for v in values.values()]
            about = "~" if any(is_scaled(found[n][who], measure) for n in values) else ""
            row += [number(statistics.median(taken)), *(about + number(f(taken)) for f in (max, sum))]
            if who != OURS:
                ratios = [v / ours[n] for n, v in values.items()]
                row += [f"{number(f(ratios))}x" for f in (statistics.median, min, max)]
                row.append(f"{sum(r < 1 for r in ratios)}")
            else:
                row += [""] * 4
            yield "| " + " | ".join(row) + " |"
    yield ""


def losses(records: list[Record], names: list[str]) -> Iterator[str]:
    """Every pattern on which a peer is ahead."""
    found = by_pattern(records)
    for title, scale, measure in MEASURES.values():
        for who in PEERS:
            behind = []
            for name in names:
                ours, theirs = measure(found[name][OURS]), measure(found[name][who])
                if ours is not None and theirs is not None and theirs < ours:
                    behind.append((ours / theirs, f"{name} ({number(ours * scale)} : {number(theirs * scale)})"))
            if behind:
                yield f"- {title}, {who}, {len(behind)} of {len(names)}: " + ", ".join(
                    t for _, t in sorted(behind, reverse=True)
                )
    yield ""


def tables_of(records: list[Record]) -> str:
    """Describe the transition tables of our automata."""
    sizes = [r["table_bytes"] / 1e3 for r in records if "table_bytes" in r]
    beyond = [r["pattern"] for r in records if not r.get("within_default_limits", True)]
    line = f"Transition tables: median {number(statistics.median(sizes))} kB, worst {number(max(sizes))} kB."
    return line + (f" Beyond the default limits: {', '.join(beyond)}." if beyond else "")


def wrong_texts(records: list[Record]) -> Iterator[str]:
    """Say whose texts `re` does not match."""
    yield "| library | pattern | texts written | not matched by `re` | example |"
    yield "|---|---|---:|---:|---|"
    for record in sorted(records, key=lambda r: r["subject"]):
        batches = [record[k] for k in ("batch_32", "batch_1") if k in record]
        for batch in [b for b in batches if b["wrong"] or "stuck" in b][:1]:
            example = batch.get("wrong_example") or batch["stuck"][:120]
            shown = in_cell("`" + example.replace("`", "'") + "`")
            yield f"| {record['subject']} | {record['pattern']} | {batch['texts']} | {batch['wrong']} | {shown} |"
    yield ""


def in_cell(code: str) -> str:
    """Return code for a cell. A bar would end the cell on GitHub, and the site would show a backslash before it."""
    if "|" not in code:
        return code
    return f"<code>{''.join(c if c.isalnum() or c == ' ' else f'&#{ord(c)};' for c in code.strip('` '))}</code>"


def conditions(result: Record) -> str:
    """Say what was measured, and where."""
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    machine = result["machine"]
    load = f"load {machine['load_before']:.1f} at the beginning and {machine['load_after']:.1f} at the end"
    return f"{versions}; {machine['processor']}, one thread; {load}; commit {result['commit']}."


def peers_report(result: Record) -> Iterator[str]:
    """All tables of one run."""
    yield from (conditions(result), "")
    for key, found in result["vocabularies"].items():
        records, own = found["records"], result["suite"]
        measured = list(by_pattern(records))
        own = [n for n in own if n in measured]
        others = [n for n in measured if n not in own]
        setup = ", ".join(f"{name} {number(s * 1e3)} ms" for name, s in found["setup_s"].items())
        bare = ", ".join(f"{number(s * 1e6)} us at batch {rows}" for rows, s in found["bare_add_s"].items())
        yield from (
            f"## {LABELS[key]}",
            "",
            f"Once per vocabulary: {setup}. One in-place add of the logits: {bare}.",
            "",
        )
        yield from (
            tables_of([r for r in records if r["pattern"] in own]),
            "",
            "### Our suite, in short",
            "",
            *summary(records, own),
        )
        if others:
            yield from ("### The peers' own suites, in short", "", *summary(records, others))
        yield from ("### Where a peer is ahead", "", *losses(records, measured))
        for title, scale, measure in MEASURES.values():
            yield from (f"### {title}", "", *table(records, measured, measure, scale))
        yield from ("### Texts that `re` does not match", "", *wrong_texts(records))


def fill_in(page: str, part: str, lines: Iterator[str] | list[str]) -> str:
    """Replace what stands between the marks of a part."""
    begin, end = f"<!-- {part} -->", f"<!-- end of {part} -->"
    assert page.count(begin) == page.count(end) == 1, part
    return re.sub(
        re.escape(begin) + ".*?" + re.escape(end),
        lambda _: "\n".join([begin, "", *lines]).rstrip() + f"\n\n{end}",
        page,
        flags=re.DOTALL,
    )


def main() -> None:
    page = PAGE.read_text()
    peers = json.loads((RESULTS / "peers.json").read_text())
    (RESULTS / "peers.md").write_text("\n".join(["# Against the peers", "", *peers_report(peers)]).rstrip() + "\n")
    records = next(iter(peers["vocabularies"].values()))["records"]
    own = [n for n in peers["suite"] if n in by_pattern(records)]
    sizes = tables_of([r for r in records if r["pattern"] in own])
    numbers = [conditions(peers), "", sizes, "", *summary(records, own)]
    SUMMARY.write_text(fill_in(SUMMARY.read_text(), "summary", numbers))
    page = fill_in(page, "losses", losses(records, list(by_pattern(records))))
    page = fill_in(page, "compile", table(records, list(by_pattern(records)), MEASURES["compile"][2], 1e3))
    if (RESULTS / "masks.json").exists():
        from benchmarks.peer_masks import lines

        page = fill_in(page, "masks", lines(json.loads((RESULTS / "masks.json").read_text())))
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
