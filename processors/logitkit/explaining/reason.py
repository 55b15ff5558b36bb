"""The reason of a refusal, in a few lines of plain text with marks under the places that it is about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from logitkit.explaining.findings import Findings, Refusal, Source
from logitkit.explaining.token_texts import before_byte, quoted, visible, width

__all__ = ["Marked", "reason", "reason_lines", "refusal_reason", "verdict", "with_carets"]

# How much of a long text is shown before a mark and after it, in characters.
_BEFORE, _AFTER = 60, 20
# How many places of the definition are shown.
_SOURCES = 2


class Marked(NamedTuple):
    """A line of text with a marked part."""

    before: str
    marked: str
    after: str

    @classmethod
    def of(cls, before: str, marked: str, after: str) -> Marked:
        """Leave out what is far from the mark."""
        left = before if len(before) <= _BEFORE else f"...{before[-_BEFORE:]}"
        return cls(left, marked, after if len(after) <= _AFTER else f"{after[:_AFTER]}...")


_CAUSES = {
    "language": "{expected}",
    "end": "the text is incomplete; {expected}",
    "budget": "legal texts begin like this, but none of them fits the token limit",
    "vocabulary": "legal texts begin like this, but the vocabulary has no tokens to complete one",
    "ban": "this processor bans the token",
}


def verdict(found: Findings) -> str:
    """Return one sentence on the whole output."""
    if found.refusal is not None:
        return f"{found.refusal.processor} refuses token {found.refused_at} of {len(found.steps)}."
    if found.complete:
        return f"The output is legal and complete for {found.processor}."
    return f"The output is the beginning of a legal text for {found.processor}, but not complete."


def spelling(found: Findings, tokens: Iterable[int]) -> str:
    """Return the quoted text of tokens; of those whose text is not known, the ids."""
    tokens = tuple(tokens)
    if not all(token in found.token_bytes for token in tokens):
        return f"the token ids {list(tokens)}"
    return quoted(b"".join(found.token_bytes[token] for token in tokens))


def reason(found: Findings) -> Iterator[str | Marked]:
    """Yield why the first illegal token is illegal, or how an incomplete output can end."""
    if found.refused_at is not None:
        yield from refusal_reason(found, found.refused_at)
    elif not found.complete and found.completion is not None:
        yield f"It can be completed with {spelling(found, found.completion)}."
    if found.finished == "loop":
        yield "Its last tokens are a loop, at which LoopStop ended it."


def reason_lines(found: Findings) -> Iterator[str]:
    """Yield the reason as lines of plain text, with carets under what is marked."""
    return with_carets(reason(found))


def with_carets(lines: Iterable[str | Marked]) -> Iterator[str]:
    """Yield lines of plain text, with carets under what is marked."""
    for line in lines:
        if isinstance(line, str):
            yield line
        else:
            yield f"    {''.join(line)}"
            yield " " * (4 + width(line.before)) + "^" * max(width(line.marked), 1)


def refusal_reason(found: Findings, at: int) -> Iterator[str | Marked]:
    """Yield why the token at a position is illegal; nothing if it is legal, or follows an illegal one."""
    step = found.steps[at]
    refusal = step.refusal
    if refusal is None:
        return
    token = step.name or quoted(step.data)
    yield f"Token {at}, {token}, is illegal for {refusal.processor}: {_cause(refusal)}."
    if refusal.byte is not None:
        data = b"".join(one.data for one in found.steps)
        before = before_byte(data, refusal.byte)
        after = visible(data)[len(before) :]
        yield Marked.of(before, after[:1], after[1:])
    for source in refusal.sources[:_SOURCES]:
        yield from _place(source)
    open_brackets = f"Open brackets: {refusal.open_brackets}. " if refusal.open_brackets else ""
    if refusal.completion is not None:
        shortest = f"the text could be completed with {spelling(found, refusal.completion)}"
        yield f"{open_brackets}Before it, {shortest if refusal.completion else 'the text is complete'}."


def _cause(refusal: Refusal) -> str:
    expected = f"expected {refusal.expected}" if refusal.expected else "no legal text continues like this"
    where = "" if refusal.byte is None else f" at byte {refusal.byte}"
    if refusal.cause == "ban" and refusal.expected:
        return f"{_CAUSES['ban']}; {expected}{where}"
    return _CAUSES[refusal.cause].format(expected=expected + where)


def _place(source: Source) -> Iterator[str | Marked]:
    tool = f" of the tool {source.tool}" if source.tool else ""
    if source.kind == "pattern" and source.span is not None and source.definition:
        begin, end = source.span
        yield f"The pattern{tool} says:"
        text = source.definition
        yield Marked.of(visible(text[:begin]), visible(text[begin:end]), visible(text[end:]))
    elif source.kind == "rule" and source.span is not None:
        line = source.definition.count("\n", 0, source.span[0]) + 1
        yield f"The grammar says in line {line}: {visible(source.text)}"
    elif source.pointer is not None:
        value = f", for the value at {visible(source.path)}" if source.path else ""
        yield f"The schema{tool} says {visible(source.text)}, at {visible(source.pointer) or 'its root'}{value}."
    else:
        yield f"The definition{tool} says {quoted(source.text)}."
