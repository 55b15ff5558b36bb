"""The formats that a response template may read: those that a chat template or a known format writes, and plain ones.

A response template reads many spellings, since it does not say which white space a model writes. So a format that is known to be
written by models comes first, and is kept if the response template reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from logitkit.errors import ConfigurationError
from logitkit.patterns.charset import CharSet
from logitkit.tools.formats.call_ids import ID, NUMBER
from logitkit.tools.formats.format_checks import Arguments
from logitkit.tools.formats.known_formats import TOOL_FORMATS
from logitkit.tools.formats.tool_format import ToolFormat
from logitkit.tools.response_templates.anchors import CharacterRun, FixedText, Way, pattern_anchor
from logitkit.tools.response_templates.call_shape import CallShape
from logitkit.tools.response_templates.document import CALLS, Field, ResponseTemplate, not_expressed

__all__ = ["candidates", "plain_text", "tag_groups"]

NAME = "response_template"
# The arguments that each parser reads, as in `ToolFormat`.
ARGUMENTS: Mapping[str, Arguments] = {"json": "json", "xml-inline": "xml", "python-call-list": "python"}
_SPACE = CharSet.from_string(" \n")


def candidates(
    template: ResponseTemplate, shape: CallShape, written: ToolFormat | None, ends: tuple[str, ...]
) -> Iterator[ToolFormat]:
    """Yield formats that may be what a response template reads, without what all of them have in common.

    The heads of a format that has several are in `also`; of each head there is also a format that has it only.

    Args:
        template: The response template.
        shape: Where the parts of a call stand.
        written: The format that the model's chat template writes, if it is known.
        ends: The texts that end a turn.
    """
    delimiter = template.calls.delimiter
    if delimiter is not None and (shape.group is None or shape.arguments):
        raise not_expressed(
            f"'string_delims' of the field {CALLS!r}",
            "is read only if a group holds the name, and the text is the arguments",
        )
    for form in (*([] if written is None else [written]), *TOOL_FORMATS.values()):
        if not _has_arguments(form, template.calls.parser, delimiter):
            continue
        for head in form.heads:
            others = tuple(other for other in form.heads if other != head)
            found = replace(form, call_begin=head[0], name_end=head[1], also=others, verified=form is written)
            found = found if delimiter is None else replace(found, **_delimited(delimiter))
            yield found
            # A response template that takes text between two calls for an answer would forget the text before them.
            if found.separator:
                yield replace(found, separator="", verified=False)
    closed = "" if template.calls.close is None else plain_text(template.calls.close.plain, "'close'")
    problem = None
    # An end of turn is what EOS stands for, and not written. Line feeds are written where nothing else shows where a name ends.
    for end in ([""] if closed.strip() in map(str.strip, ends) else []) + [closed]:
        for lines in ("", "after names", "everywhere"):
            try:
                yield _plain(template, shape, end, lines)
            except ConfigurationError as error:
                problem = problem or error
    if problem is not None:
        raise problem


def _plain(template: ResponseTemplate, shape: CallShape, end: str, lines: str) -> ToolFormat:
    """Return a format that is written as the anchors are.

    Raises:
        ConfigurationError: An anchor has no text.
    """
    field = template.calls
    assert field.open is not None
    way = field.open.plain
    first = next((piece.text for piece in way if isinstance(piece, FixedText)), None)
    while way and isinstance(way[0], CharacterRun) and not way[0].least:
        way = way[1:]
    before, after = _around_name(way, shape.group, lines)
    for text in (before, after, end):
        if any(mark in text for mark in (ID, NUMBER, "{name}", "{kind}")):
            raise not_expressed(
                f"an anchor of the field {CALLS!r}", f"has the text {text!r}, which stands for something else"
            )
    if first is None or not before.startswith(first):
        raise not_expressed(f"'open' of the field {CALLS!r}", "does not begin with a text")
    form = ToolFormat(name=NAME, call_begin=before, name_end=after or " ", call_end=end, trigger=first)
    if field.parser == "xml-inline":
        assert field.arguments is not None
        tags = _tags(str(field.arguments["tag_pattern"]), lines)
        return replace(form, name_end=after, arguments="xml", **tags)
    return _plain_json(form, field, shape, before, after, end)


def _plain_json(form: ToolFormat, field: Field, shape: CallShape, before: str, after: str, end: str) -> ToolFormat:
    """Return a format with arguments as JSON, or as Python writes them."""
    begin, between, rest = shape.json_parts()
    if field.delimiter is not None:
        return replace(form, name_end=after + "{", call_end="}" + end, **_delimited(field.delimiter))
    if field.parser == "json" and shape.group is not None:
        return replace(form, name_end=after + begin, call_end=rest + end)
    if field.parser == "json" and not shape.is_list:
        return replace(form, call_begin=before + begin, name_end=between, call_end=rest + end)
    form = replace(form, calls_begin=f"{before}[", call_begin="", calls_end=f"]{end}", separator=", ")
    if field.parser == "json":
        return replace(form, call_begin=begin, name_end=between, call_end=rest)
    keywords: dict[str, Any] = {"parameter_begin": "{name}=", "parameter_separator": ", ", "literals": "python"}
    return replace(form, name_end="(", call_end=")", arguments="python", **keywords)


def _has_arguments(form: ToolFormat, parser: str, delimiter: str | None) -> bool:
    """Whether arguments are written in a format as a parser reads them."""
    if delimiter is not None:
        return form.string_delimiter == delimiter
    return form.arguments == ARGUMENTS[parser] and form.string_delimiter is None


def _delimited(delimiter: str) -> dict[str, Any]:
    """Return how arguments are written with strings between delimiters, so that transformers reads them."""
    return {
        "arguments": "python",
        "parameter_begin": "{name}:",
        "parameter_separator": ",",
        "literals": "json",
        "strings": "delimited",
        "string_delimiter": delimiter,
        "bare_names": True,
        # Its pattern of names: words directly after a brace or a comma.
        "parameter_names": r"\w+",
        "whitespace": "compact",
    }


def _around_name(way: Way, group: str | None, lines: str) -> tuple[str, str]:
    """Return the texts before and after the name; all is before it if the anchor does not hold it."""
    places = [i for i, piece in enumerate(way) if isinstance(piece, CharacterRun) and piece.group == group]
    everywhere = lines == "everywhere"
    if group is None or not places:
        return plain_text(way, "'open'", lines=everywhere), ""
    before = plain_text(way[: places[0]], "'open'", lines=everywhere)
    return before, plain_text(way[places[-1] + 1 :], "'open'", lines=lines != "")


def plain_text(way: Way, where: str, field: str = CALLS, lines: bool = False) -> str:
    """Return a text that an anchor without groups matches.

    Args:
        way: The pieces of the anchor.
        where: Its key in the response template, for errors.
        field: The name of the field, for errors.
        lines: Whether to write a line feed where white space may stand, but need not.

    Raises:
        ConfigurationError: It has other characters of a class than white space.
    """
    found = ""
    for piece in way:
        if isinstance(piece, FixedText):
            found += piece.text
        elif isinstance(piece, CharacterRun) and piece.least:
            space = next((chr(c) for c in piece.characters & _SPACE), None)
            if space is None or piece.group is not None:
                raise not_expressed(f"{where} of the field {field!r}", "asks for characters of which none is known")
            found += (" " if ord(" ") in piece.characters else space) * min(piece.least, 64)
        elif (
            isinstance(piece, CharacterRun)
            and lines
            and ord("\n") in piece.characters
            and ord("x") not in piece.characters
        ):
            found += "\n"
    return found


def tag_groups(pattern: str) -> tuple[Way, list[int], list[int], str]:
    """Return the pieces of a pattern of tags, which of them are the key and the value, and the pattern of the key.

    Raises:
        ConfigurationError: It does not have them.
    """
    anchor = pattern_anchor(pattern, f"'tag_pattern' of the field {CALLS!r}")
    way, groups = anchor.plain, dict(anchor.groups)
    key, value = (
        [i for i, piece in enumerate(way) if isinstance(piece, CharacterRun) and piece.group == name]
        for name in ("key", "value")
    )
    if not key or not value or key[-1] > value[0]:
        raise not_expressed(
            f"'tag_pattern' of the field {CALLS!r}", "does not have the groups 'key' and 'value', in this order"
        )
    return way, key, value, groups["key"]


def _tags(pattern: str, lines: str) -> dict[str, Any]:
    way, key, value, _ = tag_groups(pattern)
    where, wide = "'tag_pattern'", lines == "everywhere"
    before, end = plain_text(way[: key[0]], where), plain_text(way[value[-1] + 1 :], where, lines=wide)
    between = plain_text(way[key[-1] + 1 : value[0]], where, lines=wide)
    if not between or not end:
        raise not_expressed(f"'tag_pattern' of the field {CALLS!r}", "has no text after a name or a value")
    return {"parameter_begin": f"{before}{{name}}{between}", "parameter_end": end}
