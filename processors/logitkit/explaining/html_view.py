"""An explanation as HTML: the output with its tokens in colour, each with its details, and the reason of a refusal.

There are no scripts. Details are part of the page, and appear when their token has the pointer or the focus, which it gets from a
tap or the Tab key. They stand below the line of their token, across the whole width, so that they fit on a phone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from html import escape
from itertools import count
from pathlib import Path

from logitkit.explaining.findings import Findings, Step
from logitkit.explaining.reason import Marked, reason, refusal_reason, verdict
from logitkit.explaining.text_view import columns_of
from logitkit.explaining.token_texts import quoted, visible

__all__ = ["document", "section", "style"]

# White space as marks that can be seen; after the mark of an end of line, the line ends.
_WHITE = {" ": "<i>·</i>", "\n": "<i>↵</i><br>", "\t": "<i>⇥</i>"}

# The classes of tokens in the style sheet: what the legend says, and which tokens have them.
_KINDS: dict[str, tuple[str, Callable[[Step], bool]]] = {
    "hot": (
        "the more colour, the more probability was removed",
        lambda step: step.removed is not None and not step.after_refusal,
    ),
    "only": ("forced", lambda step: step.legal == 1 and not step.after_refusal),
    "special": ("special token", lambda step: bool(step.name)),
    "bad": ("illegal", lambda step: step.refusal is not None),
    "after": ("after the illegal one", lambda step: step.after_refusal),
}

# Numbers for the ids of details: several explanations may be in one notebook.
_numbers = count()


@cache
def style() -> str:
    """Return the style sheet of explanations, as an HTML element."""
    return f"<style>\n{Path(__file__).with_name('explanation.css').read_text(encoding='utf-8')}</style>"


def document(title: str, body: str) -> str:
    """Return a whole HTML page.

    Args:
        title: The title, as text.
        body: The content of the page, as HTML.
    """
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{escape(title)}</title>\n<link rel="icon" href="data:,">\n</head>\n'
        f'<body style="margin: 0">\n<main>\n{body}\n</main>\n</body>\n</html>\n'
    )


def section(found: Findings) -> str:
    """Return the part of a page that shows an explanation, for a page that has the style sheet.

    Args:
        found: The explanation.
    """
    kind = "bad" if found.refusal is not None else "good" if found.complete else "open"
    parts = [
        '<section class="logitkit-explanation">',
        f'<p class="verdict {kind}">{escape(verdict(found))}</p>',
        *map(_line, reason(found)),
    ]
    if found.steps:
        parts += [_legend(found), f'<div class="output">{_tokens(found)}</div>', _table(found)]
    return "\n".join([*parts, "</section>"])


def _line(line: str | Marked) -> str:
    """Return a line of the reason as a block."""
    return f"<p>{escape(line)}</p>" if isinstance(line, str) else f"<pre>{_words(line)}</pre>"


def _words(line: str | Marked) -> str:
    """Return a line of the reason; long texts are wrapped, so the place is marked in them, not below them."""
    if isinstance(line, str):
        return escape(line)
    marked = f"<mark>{escape(line.marked) or '&nbsp;'}</mark>"
    return f"<code>{escape(line.before)}{marked}{escape(line.after)}</code>"


def _legend(found: Findings) -> str:
    shown = [
        f'<span class="token {kind}">{text}</span>'
        for kind, (text, is_so) in _KINDS.items()
        if any(map(is_so, found.steps))
    ]
    return f'<p class="legend">{" ".join(shown)} Point at a token, tap it or press Tab for its details.</p>'


def _tokens(found: Findings) -> str:
    columns = columns_of(found)[1:]
    parts = []
    for at, step in enumerate(found.steps):
        removed = "" if step.removed is None else f' style="--removed:{step.removed:.3f}"'
        token = escape(f"token {at}: {step.name or quoted(step.data)}, id {step.token_id}")
        known = ((column.title, column.text(step)) for column in columns)
        said = [f"{title} <b>{escape(text)}</b>".lstrip() for title, text in known if text]
        said += map(_words, refusal_reason(found, at))
        kinds = " ".join(["token", *(kind for kind, (_, is_so) in _KINDS.items() if is_so(step))])
        details = f"logitkit-{next(_numbers)}"
        parts.append(
            f'<span class="{kinds}" tabindex="0" role="note" aria-describedby="{details}"{removed}>{_spelled(step)}'
            f'</span><span class="details" role="tooltip" id="{details}">{"<br>".join([token, *said])}</span>'
        )
    return "".join(parts)


def _spelled(step: Step) -> str:
    """Return the text of a token in HTML, with marks for white space and escapes for all else that cannot be seen."""
    if step.name:
        return escape(step.name)
    text = step.data.decode("utf-8", "backslashreplace")
    return "".join(_WHITE.get(c) or escape(visible(c)) for c in text) or "<i>∅</i>"


def _table(found: Findings) -> str:
    columns = columns_of(found)
    head = "".join(f'<th scope="col">{escape(column.title)}</th>' for column in columns)
    rows = []
    for at, step in enumerate(found.steps):
        cells = "".join(f"<td{' class=number' if c.is_number else ''}>{escape(c.text(step))}</td>" for c in columns)
        rows.append(f'<tr><th scope="row">{at}</th>{cells}</tr>')
    return (
        '<details><summary>All tokens as a table</summary><div class="scrolled" tabindex="0"><table>'
        f'<thead><tr><th scope="col">#</th>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div></details>'
    )
