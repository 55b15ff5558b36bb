"""The languages of the parts of a call: markers with ids and special tokens, and arguments."""

from __future__ import annotations

import re
from dataclasses import replace

from logitkit.errors import ConfigurationError
from logitkit.languages import literal, regex, sequence, special, xml_arguments
from logitkit.languages.json_strings import JsonStringOf, JsonStringOfJson
from logitkit.languages.keyword_arguments import KeywordArguments
from logitkit.languages.language import Language
from logitkit.languages.schemas import JsonValue, LocatedSchema
from logitkit.tools.custom_tools import INPUT
from logitkit.tools.definitions import ToolDefinition
from logitkit.tools.formats import ToolFormat
from logitkit.tools.formats.call_ids import ID, NUMBER, allowed_ids, pieces_of

__all__ = ["arguments_language", "marker", "named_call"]


def arguments_language(tool: ToolDefinition, form: ToolFormat) -> Language:
    """Return the language of the arguments of a tool."""
    free_of = form.excluded_texts
    if tool.grammar is not None and free_of:
        raise ConfigurationError(
            f"the custom tool {tool.name!r} has a grammar, whose texts may contain {free_of[0]!r}, which the format "
            f"{form.name!r} does not allow in arguments; use a pattern, or another format"
        )
    if tool.grammar is not None and form.arguments == "json_string":
        return sequence('"{', regex(f'\\\\"{INPUT}\\\\": ?'), JsonStringOf(tool.grammar, 2), '}"')
    if form.arguments == "json_string":
        return LocatedSchema(
            JsonStringOfJson(tool.schema, form.whitespace, form.free_of, form.string_spelling, form.member_order),
            f"tools[{tool.name!r}]",
        )
    if tool.grammar is not None and form.arguments == "json":
        return sequence("{", regex(f'"{INPUT}": ?'), JsonStringOf(tool.grammar), "}")
    if tool.grammar is not None and form.arguments == "python":
        return sequence(form.parameter_begin.replace("{name}", INPUT), JsonStringOf(tool.grammar))
    if tool.grammar is not None:
        begin = form.parameter_begin.replace("{name}", INPUT)
        if form.kinds is not None:
            begin = begin.replace("{kind}", form.kinds[0])
        return sequence(begin, tool.grammar, form.parameter_ends.longest)
    if form.arguments == "python":
        found: Language = KeywordArguments(
            tool.schema,
            form.parameter_begin,
            form.parameter_separator,
            form.whitespace,
            form.literals,
            form.free_of,
            form.string_spelling,
            form.delimited,
            form.member_order,
        )
        return LocatedSchema(found, f"tools[{tool.name!r}]")
    found = (
        JsonValue(
            tool.schema,
            form.whitespace,
            free_of=form.free_of,
            strings=form.string_spelling,
            member_order=form.member_order,
        )
        if form.arguments == "json"
        else replace(
            xml_arguments(
                tool.schema,
                begin=form.parameter_begin,
                end=form.parameter_end,
                end_also=form.parameter_end_also,
                separator=form.parameter_separator,
                kinds=form.kinds,
                literals="python" if form.literals == "python" else "json",
                strings=form.string_spelling,
                whitespace=form.whitespace,
            ),
            free_of=form.free_of,
            raw_strings=form.raw_strings,
            cdata=form.cdata,
            parameter_names=form.parameter_names,
            member_order=form.member_order,
        )
    )
    # Of hundreds of tools, an error has to name the one that it is about.
    return LocatedSchema(found, f"tools[{tool.name!r}]")


def named_call(tool: ToolDefinition, form: ToolFormat, name_end: str) -> Language:
    """Return the language of a call from the name of its tool to the end of its arguments."""
    return sequence(marker(form, form.named(tool.name, name_end)), arguments_language(tool, form))


def marker(form: ToolFormat, text: str) -> Language:
    """Return the language of a marker, in which some special tokens count only as tokens, and ids and numbers vary."""
    return sequence(
        *(
            regex(allowed_ids(piece, form.id_length)) if piece in (ID, NUMBER) else _fixed(form, piece)
            for piece in pieces_of(text)
        )
    )


def _fixed(form: ToolFormat, text: str) -> Language:
    if not form.tokens:
        return literal(text)
    names = sorted(form.tokens, key=len, reverse=True)
    pieces = re.split(f"({'|'.join(map(re.escape, names))})", text)
    return sequence(*(special(piece) if piece in form.tokens else literal(piece) for piece in pieces if piece))
