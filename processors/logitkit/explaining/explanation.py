"""An explanation, which prints as text, shows in terminals and notebooks, and becomes an HTML page or plain data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from logitkit.explaining.findings import Effect, Findings, Refusal, Source, Step
from logitkit.explaining.html_view import document, section, style
from logitkit.explaining.reason import refusal_reason, verdict, with_carets
from logitkit.explaining.rich_view import renderables
from logitkit.explaining.text_view import text_lines

__all__ = ["Effect", "Explanation", "Refusal", "Source", "Step"]


@dataclass(frozen=True, slots=True)
class Explanation(Findings):
    """The effects of a processor at each token of an output; its fields are those of `Findings`.

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
        return f"{style()}\n{section(self)}"

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as plain data, ready for `json.dumps`; each refusal has its `reason` in words, too.

        Example:
            >>> step = Step(9, b"x", "", legal=10, refusal=Refusal("Regex", "language", byte=0, expected="digit"))
            >>> data = Explanation("Regex", (step,), complete=False).to_dict()
            >>> print(data["steps"][0]["refusal"]["reason"])
            Token 0, 'x', is illegal for Regex: expected digit at byte 0.
                x
                ^
        """
        steps = [{**asdict(step), "data": step.data.decode("utf-8", "replace")} for step in self.steps]
        for at, step in enumerate(steps):
            if step["refusal"] is not None:
                step["refusal"]["reason"] = "\n".join(with_carets(refusal_reason(self, at)))
        names = {token: data.decode("utf-8", "replace") for token, data in self.token_bytes.items()}
        return {**asdict(self), "steps": steps, "token_bytes": names}

    def to_html(self) -> str:
        """Return the explanation as an HTML page that needs no other file and no network, to be written to a file.

        Each token is coloured by the probability that was removed in its place, if that is known, and by whether it was legal.
        Its details appear under the pointer, under a finger, and when the keyboard reaches it.

        Example:
            >>> Explanation("Regex", (Step(7, b"<2>", "", legal=10),), complete=True).to_html()[:15]
            '<!doctype html>'
        """
        return document(f"{self.processor} - {verdict(self)}", self._repr_html_())
