"""The demo's own run as data, for `logitkit demo --json`, and as a page for a browser."""

from __future__ import annotations

from html import escape
from typing import Any

from logitkit import Vocabulary, __version__, explain
from logitkit.explaining.html_view import document, section, style
from logitkit.explaining.token_texts import quoted, visible
from logitkit_adapters.demo.case_texts import CaseTexts
from logitkit_adapters.demo.measurement import StepCost

__all__ = ["DemoPage", "DemoReport"]


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


_STYLE = """<style>
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; color: CanvasText; }
main { max-width: 60rem; margin: 0 auto; padding: 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; } h2 { margin: 3rem 0 0; font-size: 1.25rem; }
main > section { border: 1px solid #8886; border-radius: .5rem; margin: .5rem 0 1.5rem; }
</style>"""


class DemoPage:
    """Collects the texts of a run, and shows each as `logitkit.explain` does.

    Example:
        >>> DemoPage().html()[:15]
        '<!doctype html>'
    """

    def __init__(self) -> None:
        self._parts: list[str] = []

    def add_engine(self, head: str) -> None:
        """Begin the part of an engine.

        Args:
            head: The engine and its model, in a line.
        """
        self._parts.append(f"<h1>{escape(head)}</h1>")

    def add_case(self, texts: CaseTexts) -> None:
        """Show the texts of a case.

        Args:
            texts: The texts.
        """
        case, constraint = texts.case, texts.constraint
        self._parts += [f"<h2>{escape(case.name)}</h2>", f"<p><code>{escape(visible(case.language))}</code></p>"]
        for row, prompt in enumerate(case.prompts):
            for how, made in (("without", texts.free), ("with", texts.held)):
                found = explain(constraint, constraint.vocabulary, [], made.ids[row])
                self._parts += [
                    f"<p>After the prompt <code>{escape(quoted(prompt))}</code>, {how} logitkit:</p>",
                    section(found),
                ]

    def html(self) -> str:
        """Return the page, which needs no other file and no network."""
        return document("The demo of logitkit", "\n".join([style(), _STYLE, *self._parts]))
