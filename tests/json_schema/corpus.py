"""The cases of `benchmarks/schemas`: schemas with documents that are known to be valid and invalid."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "benchmarks" / "schemas"


@dataclass(frozen=True)
class Case:
    """A schema and documents.

    Args:
        name: The family and the case.
        schema: JSON Schema.
        valid: Values that satisfy it.
        invalid: Values that do not, most of them nearly.
    """

    name: str
    schema: Any
    valid: tuple[Any, ...]
    invalid: tuple[Any, ...]

    def __str__(self) -> str:
        return self.name


def cases() -> list[Case]:
    """Return the whole corpus."""
    found = []
    for file in sorted(FOLDER.glob("*.json")):
        for name, case in json.loads(file.read_text("utf-8")).items():
            found.append(
                Case(f"{file.stem}/{name}", case["schema"], tuple(case["valid"]), tuple(case["invalid"])),
            )
    return found
