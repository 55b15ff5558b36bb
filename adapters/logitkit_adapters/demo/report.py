"""The demo's own run as data, for `logitkit demo --json`."""

from __future__ import annotations

from typing import Any

from logitkit import Vocabulary, __version__
from logitkit_adapters.demo.case_texts import CaseTexts
from logitkit_adapters.demo.measurement import StepCost

__all__ = ["DemoReport"]


class DemoReport:
    """Collects the texts of a run and what the constraints cost.

    Example:
        >>> DemoReport().to_dict(valid=True)["engines"]
        []
    """

    def __init__(self) -> None:
        self._engines: list[dict[str, Any]] = []

    def add_engine(self, release: str, vocabulary: Vocabulary) -> None:
        """Begin the part of an engine.

        Args:
            release: The name of the engine with its version.
            vocabulary: The tokens of the model.
        """
        self._engines.append({"engine": release, "vocabulary": vocabulary.size, "cases": []})

    def add_case(self, texts: CaseTexts, compilation: float, cost: StepCost) -> None:
        """Add a case of the engine that began last.

        Args:
            texts: The texts of the case.
            compilation: The seconds of compilation.
            cost: The seconds of a step.
        """
        case = texts.case
        rows = zip(case.prompts, texts.free.texts, texts.held.texts, texts.valid, strict=True)
        names = ("prompt", "without", "with", "valid")
        self._engines[-1]["cases"].append(
            {
                "case": case.name,
                "language": case.language,
                "beams": case.beams,
                "texts": [dict(zip(names, row, strict=True)) for row in rows],
                "compile_seconds": compilation,
                "rows": cost.rows,
                "steps": cost.steps,
                "bare_step_seconds": cost.bare,
                "step_seconds": cost.constrained,
                "hook_seconds": cost.hook,
            }
        )

    def to_dict(self, valid: bool) -> dict[str, Any]:
        """Return plain data, ready for `json.dumps`.

        Args:
            valid: Whether every text with a constraint is valid.
        """
        return {"logitkit": __version__, "valid": valid, "engines": self._engines}
