"""An explanation, which prints as text, shows in terminals and notebooks, and becomes an HTML page or plain data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from logitkit.explaining.findings import Effect, Findings, Refusal, Source, Step
from logitkit.explaining.html_view import fragment, page
from logitkit.explaining.rich_view import renderables
from logitkit.explaining.text_view import text_lines

__all__ = ["Effect", "Explanation", "Refusal", "Source", "Step"]


@dataclass(frozen=True, slots=True)
class Explanation(Findings):
    """What a processor did at each token of an output; its fields are those of `Findings`.

    `print` writes a table and the reason of the first illegal token. With rich installed, `rich.print` does so in colour. In a
    notebook, it shows as HTML.

    Example:
        >>> reason = Refusal("Regex", "language", byte=1, expected="digit")
        >>> steps = (Step(7, b"2", "", legal=10), Step(9, b"x", "", legal=10, refusal=reason))
        >>> print(Explanation("Regex", steps, complete=False))
        Regex refuses token 1 of 2.
        <BLANKLINE>
        #  token  legal
        0  '2'       10
        1  'x'       10  illegal
        <BLANKLINE>
        Token 1, 'x', is illegal for Regex: expected digit at byte 1.
            2x
             ^
    """

    def __str__(self) -> str:
        return "\n".join(text_lines(self))

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        return renderables(self)

    def _repr_html_(self) -> str:
        return fragment(self)

    def to_html(self) -> str:
        """Return the explanation as an HTML page that needs no other file and no network, to be written to a file.

        Each token is coloured by the probability that was removed in its place, if that is known, and by whether it was legal.
        Its details appear under the pointer, under a finger, and when the keyboard reaches it.

        Example:
            >>> Explanation("Regex", (Step(7, b"<2>", "", legal=10),), complete=True).to_html()[:15]
            '<!doctype html>'
        """
        return page(self)
