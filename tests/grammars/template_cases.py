"""Random grammars in Lark's syntax with templates, and what Lark reads."""

from __future__ import annotations

from dataclasses import dataclass

import lark
from hypothesis import reject
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

__all__ = ["TemplateCase", "lark_reads", "template_cases"]

ARGUMENTS = ('"a"', '"b"', "A", "B", "x", "/a+/")
USES = ("two{{{0}, {1}}}", "_one{{{0}}}", "_one{{two{{{0}, {1}}}}}", "two{{_one{{{0}}}, {1}}}")


@dataclass(frozen=True)
class TemplateCase:
    """A grammar and texts."""

    grammar: str
    texts: tuple[str, ...]


@st.composite
def template_cases(draw: DrawFn) -> TemplateCase:
    """Draw a grammar with a template of one parameter and one of two, which may use both."""

    def body(items: tuple[str, ...]) -> str:
        item = st.tuples(st.sampled_from(items), st.sampled_from(("", "", "", "?", "*", "+"))).map("".join)
        options = st.lists(st.lists(item, min_size=1, max_size=3).map(" ".join), min_size=1, max_size=2)
        return draw(options.map(" | ".join))

    def use() -> str:
        first, second = draw(st.tuples(st.sampled_from(ARGUMENTS), st.sampled_from(ARGUMENTS)))
        return draw(st.sampled_from(USES)).format(first, second)

    lines = [
        f"start: {body((use(), use(), *ARGUMENTS[:2]))}",
        f"x: {body((use(), *ARGUMENTS[:4]))}",
        f"two{{p, q}}: {body(('p', 'q', '(q p)', '_one{p}', 'two{q, p}', *ARGUMENTS[:1]))}",
        f"_one{{p}}: {body(('p', '[p]', 'x', *ARGUMENTS[1:2]))}",
        'A: "a"',
        "B: /b/ A?",
    ]
    return TemplateCase(
        "\n".join(lines) + "\n", tuple(draw(st.lists(st.text("ab", max_size=6), min_size=1, max_size=6)))
    )


def lark_reads(grammar: str, texts: tuple[str, ...]) -> tuple[bool, ...] | None:
    """Return which texts Lark's Earley parser reads, or None if it does not take the grammar."""
    try:
        # Without trees, of which an ambiguous text may have more than memory holds.
        parser = lark.Lark(grammar, parser="earley", lexer="dynamic_complete", ambiguity="forest")
    except lark.exceptions.GrammarError:
        return None
    return tuple([_reads(parser, text) for text in texts])


def _reads(parser: lark.Lark, text: str) -> bool:
    try:
        parser.parse(text)
    except lark.exceptions.UnexpectedInput:
        return False
    except RuntimeError as error:
        # A fault of Lark: it cannot judge a text that several alternatives of the start rule match at once.
        assert "multiple start symbol items" in str(error)  # noqa: PT017
        reject()
    return True
