"""The page that `lk.explain(...).to_html()` writes, as a picture."""

from __future__ import annotations

from html.parser import HTMLParser

from pictures.svg import MARGIN, Picture

import logitkit as lk

__all__ = ["draw"]

OUTPUT = "2026-1X"
PATTERN = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
CHARACTER = 9.2  # the width of one, at 15 px


class _Page(HTMLParser):
    """The blocks of the page: the class or name of each, and its pieces of text with theirs."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks: list[tuple[str, list[tuple[str, str]]]] = []
        self._inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        style = dict(attrs).get("class") or tag
        if tag in ("p", "pre", "div"):
            self.blocks.append((style, []))
        if tag not in ("br", "meta", "link"):
            self._inside.append(style)

    def handle_endtag(self, tag: str) -> None:
        self._inside.pop()

    def handle_data(self, data: str) -> None:
        # The details of a token show under the pointer, and the table only when it is opened.
        if self.blocks and self._inside and not {"details", "style"} & set(self._inside):
            self.blocks[-1][1].append((self._inside[-1], data))


def draw() -> str:
    """Return the picture."""
    vocabulary = lk.Vocabulary([*(bytes([b]) for b in range(128)), None], eos_ids=[128])
    page = _Page()
    page.feed(lk.explain(lk.Regex(PATTERN, vocabulary), vocabulary, [], OUTPUT).to_html())
    picture = Picture(
        "The page of an explanation", f"The output {OUTPUT} under the pattern {PATTERN}, as lk.explain shows it."
    )
    y = 20.0
    for style, pieces in page.blocks:
        if not "".join(text for _, text in pieces).strip() or style == "scrolled":
            continue
        boxed = style in ("pre", "output")
        if boxed:
            picture.box(MARGIN, y, 960, 38, "off" if style == "output" else "box")
        x = MARGIN + (14.0 if boxed else 0.0)
        for kind, text in pieces:
            wrong = kind in ("mark", "token bad")
            if kind.startswith("token") or wrong:
                width = CHARACTER * len(text) + 8
                picture.box(x, y + 6, width, 26, "bad" if wrong else "k1" if kind == "token only" else "off")
                picture.text(x + 4, y + 24, text, "mono wide" + (" wrong" if wrong else ""))
                x += width + (10 if style == "legend" else 3)
            elif boxed:
                picture.text(x, y + 24, text, "mono wide")
                x += CHARACTER * len(text) + 2
            else:
                picture.text(
                    x,
                    y + 24,
                    text.strip(),
                    "title wrong" if "verdict" in style else "small faint" if style == "legend" else "",
                )
        y += 48 if boxed else 36
    return picture.finish(".wide{font-size:15px}")
