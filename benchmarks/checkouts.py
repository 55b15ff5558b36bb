"""Programs that run with the sources of another checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["HERE", "answer_of"]

HERE = Path(__file__).resolve().parent.parent


def answer_of(checkout: Path, program: str, argument: str) -> Any:
    """Return the last line that a program prints, as JSON.

    Args:
        checkout: The checkout whose sources the program imports.
        program: The name of a file beside this one, so it is this checkout's.
        argument: Its only argument.
    """
    paths = [str(checkout.resolve() / root) for root in ("processors", "adapters", ".")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-P", str(HERE / "benchmarks" / program), argument]
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{checkout}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])
