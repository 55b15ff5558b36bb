"""Compare the compiled tables of two checkouts: `python -m benchmarks.compare_tables BEFORE [AFTER] [--corpus FOLDER]`.

BEFORE is a checkout of an older commit (`git worktree add ../before COMMIT`), AFTER by default this one. Compared are the
automata of the patterns, schemas and grammars of the benchmarks, of the tests' registry, and with `--corpus`, a clone of
JSONSchemaBench, of 600 of its schemas. For each kind of case it prints how many automata are

- equal: they have the same content key, so all tables are the same, numbers of states and classes included;
- equal up to numbering: the keys differ, but the masks along random texts are the same, token by token;
- different: a mask differs, or only one of the two compiles, or the errors differ. These are listed, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.checkouts import HERE, answer_of


def asked(checkout: Path, task: dict[str, Any]) -> dict[str, Any]:
    """Return the answers of a checkout; see `table_cases`."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "task.json"
        file.write_text(json.dumps(task), "utf-8")
        found: dict[str, Any] = answer_of(checkout, "table_cases.py", str(file))
    return found


def compared(before: Path, after: Path, corpus: str | None, count: int) -> dict[str, str]:
    """Return the verdict on each case: "equal", "equal up to numbering", or what differs."""
    task: dict[str, Any] = {"corpus": corpus, "count": count, "walks": None}
    older, newer = (asked(checkout, task) for checkout in (before, after))
    verdicts = dict.fromkeys(older.keys() ^ newer.keys(), "only in one checkout")
    for name in older.keys() & newer.keys():
        if older[name][0] == newer[name][0] != "refused":
            verdicts[name] = "equal"
        elif "refused" in (older[name][0], newer[name][0]):
            verdicts[name] = "equal" if older[name] == newer[name] else f"before: {older[name]}; after: {newer[name]}"
    task["walks"] = sorted((older.keys() & newer.keys()) - verdicts.keys())
    if task["walks"]:
        masks = [asked(checkout, task) for checkout in (before, after)]
        for name in task["walks"]:
            same = masks[0][name] == masks[1][name]
            sizes = f"states and classes {older[name][1]} before, {newer[name][1]} after"
            verdicts[name] = "equal up to numbering" if same else f"masks differ; {sizes}"
    return verdicts


def main() -> int:
    """Print a table of the verdicts and a line for each difference; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path, nargs="?", default=HERE)
    parser.add_argument("--corpus", help="a clone of JSONSchemaBench, or a folder with its data")
    parser.add_argument("--count", type=int, default=600, help="how many of its schemas (default: %(default)s)")
    given = parser.parse_args()
    corpus = None if given.corpus is None else str(Path(given.corpus).resolve())
    verdicts = compared(given.before, given.after, corpus, given.count)
    kinds: dict[str, Counter[str]] = {}
    for name, verdict in verdicts.items():
        column = verdict if verdict.startswith("equal") else "different"
        kinds.setdefault(name.split()[0], Counter())[column] += 1
    columns = ("equal", "equal up to numbering", "different")
    print("| case |" + "".join(f" {column} |" for column in columns) + "\n|---|" + "---:|" * len(columns))
    for kind, counts in kinds.items():
        print(f"| {kind} |" + "".join(f" {counts[column]} |" for column in columns))
    different = {name: verdict for name, verdict in verdicts.items() if not verdict.startswith("equal")}
    for name, verdict in sorted(different.items()):
        print(f"{name}: {verdict}")
    return int(bool(different))


if __name__ == "__main__":
    sys.exit(main())
