"""Processors on a CUDA device: the same results as on the CPU, no host read, and what a step costs.

    python -m benchmarks.bench_cuda [--parts equality,steps,peer,decoding] [--rows 1,32,256] [--out FILE]

- `equality`: every processor of the tests' registry runs on the device and on the CPU, on the same batches, in three dtypes.
  Meanwhile torch raises an error where the host reads a value of the device (`torch.cuda.set_sync_debug_mode`). Steps by kernels
  also run as CUDA graphs. Random walks compare the kernel of constraints with tensor operations, bit by bit.
- `steps`: the time of advance and mask with the vocabulary Tekken (131,072 ids) and float32 logits: the device's, captured as
  CUDA graphs and timed by events, in turns with a bare pass over the logits; and the host's, for an eager call.
- `peer`: XGrammar's matchers on the host, the upload of their bits and its kernel, on the same rows in turns.
- `decoding`: a model of a billion random weights, with and without a constraint, captured and not.

The exit status says whether there were differences. Each part prints its results at once, so little is lost if time runs out.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import torch

from benchmarks.circumstances import commit
from benchmarks.cuda_comparison import Difference, compared, compile_ahead, counted_launches, walked
from benchmarks.cuda_decoding import decoded
from benchmarks.cuda_peer import beside_xgrammar
from benchmarks.cuda_steps import subjects, timed
from logitkit.runtime.constraint import Constraint
from logitkit.runtime.host_logits import HostAndDevice
from tests import vocabularies
from tests.batches import DTYPES
from tests.registry import ROWS, vocabulary

PARTS = ("equality", "steps", "peer", "decoding")


def equality(seconds: float) -> dict[str, Any]:
    """Compare the registry, then walk for some seconds."""
    import logitkit as lk

    differences: list[Difference] = []
    begin = time.monotonic()
    with counted_launches() as launches:
        for row in ROWS:
            has_kernels = isinstance(row.processor, Constraint | lk.StopStrings | lk.ThinkingBudget | HostAndDevice)
            for dtype in DTYPES:
                # To capture a graph takes longer than all steps of a row.
                differences += compared(row, dtype, has_kernels and dtype == torch.float32)
        print(
            f"{len(ROWS)} rows in {len(DTYPES)} dtypes: {len(differences)} differences, launches {dict(launches)}",
            flush=True,
        )
        print(f"  {time.monotonic() - begin:.0f} s", flush=True)
        seen, more = walked(seconds, [vocabulary(), vocabularies.tekken()])
    differences += more
    print(f"walks: {dict(seen)}, {len(more)} differences, launches {dict(launches)}", flush=True)
    print("\n".join(f"  {one.row}: {one.what}" for one in differences[:60]), flush=True)
    return {
        "rows of the registry": len(ROWS),
        "walked": dict(seen),
        "launches": dict(launches),
        "differences": [one._asdict() for one in differences],
    }


def steps(rows: list[int], which: str, at_once: list[int]) -> dict[str, Any]:
    """Time the steps of the subjects whose names begin so."""
    found: dict[str, Any] = {}
    for name, make in subjects().items():
        if not name.startswith(tuple(which.split(";"))):
            continue
        processor = make()
        tries = at_once if isinstance(processor, Constraint) else []
        for count in rows:
            try:
                found.setdefault(str(count), {})[name] = timed(name, processor, count, tries if count > 1 else [])
            except RuntimeError as error:  # the others are timed
                print(f"{count:4} {name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
    return found


def main() -> None:
    """Compare, time, and write the results."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path)
    options.add_argument("--parts", default=",".join(PARTS))
    options.add_argument("--rows", default="1,32,256", help="sizes of batches")
    options.add_argument("--subjects", default="", help="beginnings of names of what is timed, by semicolons")
    options.add_argument("--at-once", default="", help="numbers of programs on each processor of the device to try")
    options.add_argument("--walk", type=float, default=20.0, help="seconds of random walks")
    options.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="that compile kernels ahead")
    given = options.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("there is no CUDA device; run this on a machine that has one")
    chosen = given.parts.split(",")
    if not set(chosen) <= set(PARTS):
        raise SystemExit(f"--parts is {given.parts}; allowed are {', '.join(PARTS)}")
    rows = [int(count) for count in given.rows.split(",")]
    found: dict[str, Any] = {"torch": torch.__version__, "commit": commit()}
    failed: list[str] = []

    def save() -> None:
        if given.out:
            given.out.write_text(json.dumps(found, indent=1) + "\n")

    begin = time.monotonic()
    # Each capture collects garbage, which takes long if the collector looks through everything that is imported.
    gc.freeze()
    if "equality" in chosen:
        # Before the device is used, because this forks.
        print(f"compiled ahead: {compile_ahead(given.processes)}", flush=True)
    found["device"] = torch.cuda.get_device_name()
    for part, run in (
        ("equality", lambda: equality(given.walk)),
        ("steps", lambda: steps(rows, given.subjects, [int(n) for n in given.at_once.split(",") if n])),
        ("peer", lambda: {str(count): beside_xgrammar(count) for count in rows}),
        ("decoding", lambda: {str(count): decoded(count) for count in rows if count <= 64}),
    ):
        if part in chosen:
            try:
                found[part] = run()
            except Exception:  # noqa: BLE001 - the other parts run while there is a device
                failed.append(part)
                traceback.print_exc(limit=-6)
            save()
            print(f"== {part}: {time.monotonic() - begin:.0f} s since the start", flush=True)
    if failed:
        print(f"failed: {failed}", flush=True)
    sys.exit(bool(failed or found.get("equality", {}).get("differences")))


if __name__ == "__main__":
    main()
