"""Texts of the demo: each prompt, and the text after it without and with a constraint."""

from __future__ import annotations

from pictures.svg import MARGIN, WIDTH, Picture

from logitkit_adapters.demo.case_texts import CaseTexts
from logitkit_adapters.demo.cases import shipped_cases
from logitkit_adapters.demo.transformers_engine import TransformersDemo

__all__ = ["draw"]

# The constraint of each case of the demo that is shown, in words.
SHOWN = {"choice": "one of three words", "date": "a pattern", "grammar": "a grammar", "JSON Schema": "a JSON Schema"}
TEXTS = 190  # where the texts begin


def draw() -> str:
    """Return the picture."""
    engine = TransformersDemo()
    engine.load()
    picture = Picture(
        "Texts of a small model, alone and with a constraint",
        "Four prompts; after each, the text of the model alone, and its text with a constraint.",
    )
    y = 16.0
    for case in shipped_cases():
        if case.name not in SHOWN:
            continue
        texts = CaseTexts.of(engine, case)
        picture.text(MARGIN, y + 20, _line(case.prompts[0]), "mono name")
        pairs = {"alone": texts.free.texts[0], f"with {SHOWN[case.name]}": texts.held.texts[0]}
        for (label, text), style in zip(pairs.items(), ("bad", "k2"), strict=True):
            y += 32
            picture.text(MARGIN + 14, y + 18, label, "small faint")
            picture.box(TEXTS, y, WIDTH - TEXTS - MARGIN, 28, style)
            picture.text(TEXTS + 8, y + 19, _line(text), "mono")
        y += 44
    return picture.finish()


def _line(text: str) -> str:
    return text.strip().replace("\n", " \\n ")
