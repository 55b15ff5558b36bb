"""The texts at which transformers ends a call, a value or a text, wherever they stand, so that none may contain them."""

from __future__ import annotations

from collections.abc import Iterator

from logitkit.tools.response_templates.anchors import Ahead, FixedText, ResponseEnd, ResponseStart, Way
from logitkit.tools.response_templates.candidates import tag_groups
from logitkit.tools.response_templates.document import CALLS, ResponseTemplate, not_expressed

__all__ = ["call_ends", "text_ends"]

# Outside of its strings, JSON has these characters only.
_STRUCTURE = frozenset(" \t\r\n{}[],:.+-0123456789aeflnrstuE")
# After a backslash, these are not themselves.
_ESCAPES = frozenset("bfnrtu0123456789abcdef")


def call_ends(template: ResponseTemplate) -> tuple[str, ...]:
    """Return a text of each way in which a call may end.

    If no string contains the text, and it has a character that JSON has in strings only, the call does not end before its end.

    Raises:
        ConfigurationError: A call may end where no such text shows it.
    """
    ways = list(() if template.calls.close is None else template.calls.close.ways)
    if template.calls.parser == "xml-inline":
        # A value ends at the first end of a tag, even in a string of JSON.
        way, _, value, _ = tag_groups(str((template.calls.arguments or {})["tag_pattern"]))
        ways.append(way[value[-1] + 1 :])
    # A pattern with `(?=...)` looks ahead, into calls.
    opens = [way for field in template.fields if field.open is not None for way in field.open.ways]
    ways += [(piece,) for way in opens for piece in way if isinstance(piece, Ahead)]
    found = dict.fromkeys(text for way in ways for text in _shown(way))
    return tuple(text for text in found if not any(other != text and other in text for other in found))


def text_ends(template: ResponseTemplate) -> tuple[str, ...]:
    """Return a text of each way in which free text may end, but for that of calls.

    Raises:
        ConfigurationError: Free text may end where no text shows it.
    """
    content = template.content
    anchors = [] if content is None else [content.close]
    if content is None or content.open is None:
        # Text outside of fields ends where any field begins.
        anchors += [field.open for field in (template.calls, template.reasoning) if field is not None]
    found: dict[str, None] = {}
    for anchor in anchors:
        for way in () if anchor is None else anchor.ways:
            for texts in _readings(way):
                if texts:
                    found[max(texts, key=len)] = None
                elif not any(isinstance(piece, ResponseStart | ResponseEnd) for piece in way):
                    raise not_expressed(
                        "'close' or 'open_pattern' of a field", "has no text, so that any text may end there"
                    )
    return tuple(found)


def _readings(way: Way) -> Iterator[list[str]]:
    """Yield the texts of a way, once for each way in which something is ahead."""
    own = [piece.text for piece in way if isinstance(piece, FixedText) and piece.text.strip()]
    ahead = next((piece.ways for piece in way if isinstance(piece, Ahead)), None)
    if ahead is None:
        yield own
    for inside in ahead or ():
        for texts in _readings(inside):
            yield own + texts


def _shown(way: Way) -> Iterator[str]:
    """Yield a text for each way in which a call may end, that JSON has in strings only."""
    for texts in _readings(way):
        fit = [
            text
            for text in texts
            if set(text) - _STRUCTURE and not {*'"\\'} & {*text} and min(text) >= " " and text[0] not in _ESCAPES
        ]
        if fit:
            yield max(fit, key=len)
        elif texts or not all(isinstance(piece, ResponseStart | ResponseEnd) for piece in way):
            raise not_expressed(
                f"'close' of the field {CALLS!r}", "has no text by which it differs from what JSON may contain"
            )
