"""Explanations made by hand, some of them with bytes that a page must escape; and the page, parsed."""

from __future__ import annotations

from html.parser import HTMLParser

from logitkit.explaining.explanation import Explanation, Refusal, Source, Step

PATTERN = r"at [0-9]{4}-(0[1-9]|1[0-2])"


MONTH = Source("pattern", PATTERN[12:], span=(12, len(PATTERN)), definition=PATTERN)


HOSTILE = [
    b"<script>alert(1)</script>",
    b'"><img src=x onerror=alert(1)>',
    b"a\n\tb",
    b"\xff\xe2\x82",
    "\u202e東\x1b[31m".encode(),
]


def refused(*before: bytes, after: int = 1, **refusal: object) -> Explanation:
    """An explanation whose last token but `after` is illegal."""
    legal = [Step(10 + i, data, "", legal=3) for i, data in enumerate(before)]
    byte = len(b"".join(before))
    reason = Refusal("Regex", **{"cause": "language", "byte": byte, "expected": "digit", **refusal})  # type: ignore[arg-type]
    late = [Step(2, b"", "</s>", legal=1, after_refusal=True)] * after
    return Explanation(
        "Regex", (*legal, Step(5, b"x", "", legal=1, refusal=reason), *late), complete=False, token_bytes=TEXTS
    )


TEXTS = {1: b"0", 2: b'1"', 3: b"</s>"}


class Parsed(HTMLParser):
    """The elements of a page, and the text of each."""

    VOID = frozenset({"meta", "link", "br"})

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[int, str]] = []
        self.feed(page)
        self.close()
        assert not self.open, "each element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.texts.append((len(self.tags) - 1, data))

    def of(self, name: str) -> list[str]:
        """The text of each element with a class, up to its end."""
        page = self.texts
        starts = [at for at, (_, attributes) in enumerate(self.tags) if name in (attributes.get("class") or "").split()]
        return ["".join(text for at, text in page if at == start) for start in starts]

    @property
    def text(self) -> str:
        return "".join(text for _, text in self.texts)
