"""The demo's own run as a page for a browser: every text token by token, and where a free one leaves the language."""

from __future__ import annotations

from html import escape

from logitkit import explain
from logitkit.explaining.html_view import document, section, style
from logitkit.explaining.visible_text import quoted, visible
from logitkit_adapters.demo.case_texts import CaseTexts

__all__ = ["DemoPage"]

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
