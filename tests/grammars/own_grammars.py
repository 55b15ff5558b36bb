"""The grammars of `benchmarks/grammars`, with texts that are known to be valid and invalid."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

__all__ = ["OwnGrammar", "own_grammars"]

FOLDER = Path(__file__).parents[2] / "benchmarks" / "grammars"
SEPARATOR = "\n---\n"


@dataclass(frozen=True)
class OwnGrammar:
    """A grammar and texts.

    Args:
        name: The name of its file.
        syntax: Its dialect.
        text: The grammar.
        valid: Texts of its language.
        invalid: Texts outside it, most of them nearly in it.
    """

    name: str
    syntax: Literal["gbnf", "lark"]
    text: str
    valid: tuple[str, ...]
    invalid: tuple[str, ...]

    def __str__(self) -> str:
        return self.name

    @property
    def lexer(self) -> Literal["longest"] | None:
        """How its terminals split a text: some are not in the order that Lark's lexers need."""
        return "longest" if self.syntax == "lark" else None

    @property
    def texts(self) -> list[tuple[str, bool]]:
        """Every text, and whether it is valid."""
        return [(text, True) for text in self.valid] + [(text, False) for text in self.invalid]


def own_grammars(syntax: Literal["gbnf", "lark"]) -> list[OwnGrammar]:
    """Return the grammars of a dialect, sorted by name."""
    return [
        OwnGrammar(file.name, syntax, file.read_text("utf-8"), _texts(file, "valid"), _texts(file, "invalid"))
        for file in sorted(FOLDER.glob(f"*.{syntax}"))
    ]


def _texts(grammar: Path, kind: str) -> tuple[str, ...]:
    content = grammar.with_name(f"{grammar.stem}.{kind}.txt").read_text("utf-8")
    return tuple(content.removesuffix("\n").split(SEPARATOR))
