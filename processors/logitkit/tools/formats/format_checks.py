"""Which arguments of a format go together."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Literal, TypeAlias, get_args

from logitkit.errors import ConfigurationError
from logitkit.json_schema.layout import MemberOrder, Whitespace
from logitkit.languages.keyword_arguments import ValueLiterals
from logitkit.languages.raw_strings import RawStrings, names_matching
from logitkit.languages.xml_arguments import xml_arguments
from logitkit.tools.formats.argument_types import LONGEST_EXCLUDED, check_argument, check_excluded
from logitkit.tools.formats.call_ids import check_pieces, has_ids

__all__ = ["Arguments", "Strings", "check_format"]

Arguments = Literal["json", "json_string", "xml", "python"]
Strings = Literal["json", "ascii", "python", "delimited"]

# A `ToolFormat`, whose class stands on this module.
Format: TypeAlias = Any


def check_format(form: Format) -> None:
    """Check a format.

    Raises:
        ConfigurationError: An argument is not allowed, or two do not go together.
    """
    for argument in fields(form):
        check_argument(argument.name, str(argument.type), getattr(form, argument.name))
    for choice, allowed in (
        (form.arguments, get_args(Arguments)),
        (form.whitespace, get_args(Whitespace)),
        (form.literals, get_args(ValueLiterals)),
        (form.raw_strings, get_args(RawStrings)),
        (form.strings, get_args(Strings)),
        (form.member_order, get_args(MemberOrder)),
    ):
        if choice not in allowed:
            raise ConfigurationError(f"{choice!r} is not allowed; allowed are {', '.join(map(repr, allowed))}")
    _check_arguments(form)
    _check_delimiter(form)
    _check_excluded(form)
    _check_markers(form)
    _check_ids(form)


def _check_arguments(form: Format) -> None:
    """Check how arguments of calls are written."""
    if form.strings == "python" and (form.arguments.startswith("json") or form.literals != "python"):
        raise ConfigurationError(
            f"strings is 'python' with arguments {form.arguments!r} and literals {form.literals!r}; allowed are arguments "
            "'xml' and 'python', with literals 'python'"
        )
    if form.arguments == "python" and (form.parameter_kinds or form.parameter_begin.count("{name}") != 1):
        raise ConfigurationError(
            f"parameter_begin is {form.parameter_begin!r}, with parameter_kinds {form.parameter_kinds!r}; allowed with "
            "arguments='python' are a text that has '{name}' once, and no kinds"
        )
    if form.arguments == "python":
        xml_arguments({}, begin=form.parameter_begin, separator="")
    if form.cdata and (form.arguments != "xml" or form.raw_strings != "any"):
        raise ConfigurationError(
            f"cdata is {form.cdata!r} with arguments {form.arguments!r} and raw_strings {form.raw_strings!r}; allowed are an "
            "empty tuple, or arguments 'xml' with raw_strings 'any'"
        )
    if form.arguments == "xml":
        form.parameter_ends.check("parameter_end")
        xml_arguments({}, begin=form.parameter_begin, separator="", kinds=form.kinds)


def _check_delimiter(form: Format) -> None:
    """Check what stands around strings without escapes."""
    delimiter = form.string_delimiter
    if form.strings != "delimited":
        if delimiter is not None or form.bare_names or form.literals == "none":
            raise ConfigurationError(
                f"string_delimiter is {delimiter!r}, bare_names is {form.bare_names} and literals is {form.literals!r} with "
                f"strings {form.strings!r}; a delimiter, bare_names=True and literals='none' are for strings 'delimited'"
            )
        return
    if form.arguments != "python":
        raise ConfigurationError(
            f"strings is 'delimited' with arguments {form.arguments!r}; allowed are arguments 'python'"
        )
    if not delimiter or len(delimiter) > LONGEST_EXCLUDED:
        raise ConfigurationError(
            f"string_delimiter is {delimiter!r}; allowed with strings 'delimited' are 1 to {LONGEST_EXCLUDED} characters"
        )
    if delimiter[0].isalnum() or delimiter[0].isspace() or delimiter[0] in "_-+.{}[],:":
        raise ConfigurationError(
            f"string_delimiter is {delimiter!r}; allowed is a text that begins with no letter, digit or white space, and "
            "with none of _-+.{}[],: so that it cannot be taken for another value"
        )
    if any(delimiter.startswith(delimiter[size:]) for size in range(1, len(delimiter))):
        raise ConfigurationError(
            f"string_delimiter is {delimiter!r}, which begins and ends with the same text, so that it is not clear where a "
            "string before it ends; allowed is a text like '<|\"|>' or a single character"
        )


def _check_excluded(form: Format) -> None:
    """Check which texts and names are not allowed."""
    check_excluded("free_of", form.free_of)
    check_excluded("text_free_of", form.text_free_of)
    check_excluded("cdata", form.cdata)
    for pattern in (form.names, form.parameter_names):
        if pattern is not None:
            names_matching(pattern)


def _check_markers(form: Format) -> None:
    """Check the texts around names and calls."""
    if not (form.calls_begin or form.call_begin or form.text_begin):
        raise ConfigurationError(
            f"the format {form.name!r} has no text before the names of tools, and none before an answer; it needs one of them"
        )
    if not all(name_end or form.ends_names for _, name_end in form.heads):
        raise ConfigurationError(
            f"the format {form.name!r} has no text after the names of tools, and what follows them there, "
            f"{' or '.join(map(repr, form.after_names))}, does not show where a name ends; give name_end"
        )
    if form.name_again is not None and not all(name_end for _, name_end in form.heads):
        raise ConfigurationError(
            f"name_again is {form.name_again!r}; allowed is None where name_end is empty, to show where a name ends"
        )
    if form.trigger == "" or form.reasoning_end == "":
        raise ConfigurationError("trigger and reasoning_end must not be empty; give None if there is no such marker")
    if form.trigger is None:
        return
    begins = [form.calls_begin + begin for begin, _ in form.heads]
    cut = [
        name
        for name in form.tokens
        for begin in begins
        if name != form.trigger and name.startswith(form.trigger) and begin.startswith(name)
    ]
    if cut:
        raise ConfigurationError(
            f"trigger is {form.trigger!r}, a part of the special token {cut[0]!r} with which calls begin; give it whole"
        )
    if form.calls_begin and not form.calls_begin.startswith(form.trigger):
        raise ConfigurationError(
            f"trigger is {form.trigger!r}; it must be the first part of calls_begin, {form.calls_begin!r}"
        )
    if not all((form.calls_begin + begin).startswith(form.trigger) for begin, _ in form.heads):
        raise ConfigurationError(
            f"trigger is {form.trigger!r}; it must be the first part of all calls, which begin with calls_begin, "
            f"{form.calls_begin!r}, and call_begin, {form.call_begin!r}"
        )


def _check_ids(form: Format) -> None:
    """Check where ids and numbers of calls stand, and white space."""
    if form.leading_space.strip():
        raise ConfigurationError(f"leading_space is {form.leading_space!r}; allowed is white space")
    if form.id_length is not None and not 1 <= form.id_length <= 64:
        raise ConfigurationError(f"id_length is {form.id_length}; allowed are None and integers from 1 to 64")
    for begin, name_end in form.heads:
        check_pieces("call_begin", begin, form.id_length)
        check_pieces("name_end", name_end, form.id_length)
    check_pieces("name_again", form.name_again or "", form.id_length)
    check_pieces("call_end", form.call_end, form.id_length)
    if any(has_ids(text) for text in (form.calls_begin, form.calls_end, form.separator or "", form.trigger or "")):
        raise ConfigurationError(
            f"in the format {form.name!r} an id or a number stands outside of calls; allowed are '{{id}}' and '{{number}}' "
            "in call_begin, name_end, name_again and call_end"
        )
