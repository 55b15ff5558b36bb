"""The ways in which models write the arguments of a call between tags, by the names that XGrammar gives them.

White space around values that are not strings, which XGrammar allows everywhere, is allowed as the chat templates of the models
write it: nowhere, or by line breaks between tags.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from logitkit.json_schema.layout import Whitespace
from logitkit.languages.combined import either, optional, sequence
from logitkit.languages.language import Language
from logitkit.languages.nested_xml import NestedXmlArguments
from logitkit.languages.xml_arguments import xml_arguments

__all__ = ["STYLES", "arguments_in"]


class _Tags(NamedTuple):
    """One way to write arguments; see `xml_arguments`.

    Args:
        begin: The text before a value.
        end: The text after a value.
        separator: The text between two members.
        before: The text that may stand before the first member.
        after: The text that may stand after the last one.
        kinds: The words for the two or six kinds of values.
        escapes: Characters of names, and how each is written.
    """

    begin: str
    end: str
    separator: str = ""
    before: str = ""
    after: str = ""
    kinds: tuple[str, ...] | None = None
    escapes: tuple[tuple[str, str], ...] = ()

    def language(self, schema: object, whitespace: Whitespace, any_order: bool) -> Language:
        """Return the language of arguments that are written in this way."""
        members = xml_arguments(
            schema,
            begin=self.begin,
            end=self.end,
            separator=self.separator,
            whitespace=whitespace,
            kinds=self.kinds,
            any_order=any_order,
        )
        members = replace(members, escapes=self.escapes)
        return sequence(optional(self.before), members, optional(self.after)) if self.before or self.after else members


_DSML = '<｜DSML｜parameter name="{name}" string="{kind}">', "</｜DSML｜parameter>"

# Each style with all ways to write it. A text is written in one way throughout.
_TAGS: dict[str, tuple[_Tags, ...]] = {
    "qwen_xml": (
        _Tags("<parameter={name}>\n", "\n</parameter>", "\n"),
        _Tags("<parameter={name}>", "</parameter>"),
    ),
    "minimax_xml": (
        _Tags('<parameter name="{name}">', "</parameter>", "\n", after="\n"),
        _Tags('<parameter name="{name}">', "</parameter>"),
    ),
    "deepseek_xml": (
        _Tags(*_DSML, "\n", after="\n", kinds=("true", "false")),
        _Tags(*_DSML, kinds=("true", "false")),
    ),
    "glm_xml": (
        _Tags("<arg_key>{name}</arg_key>\n<arg_value>", "</arg_value>", "\n", before="\n", after="\n"),
        _Tags("<arg_key>{name}</arg_key><arg_value>", "</arg_value>"),
    ),
    "kimi_k3_xml": (
        _Tags(
            '<|open|>argument key="{name}" type="{kind}"<|sep|>',
            "<|close|>argument<|sep|>",
            kinds=("string", "number", "boolean", "null", "object", "array"),
            escapes=(("&", "&amp;"), ('"', "&quot;")),
        ),
    ),
}

# The style in which objects and arrays stand between tags as well.
NESTED = "cohere_xml"

STYLES = (*_TAGS, NESTED)
"""The names of all styles."""


def arguments_in(style: str, schema: object, whitespace: Whitespace, any_order: bool) -> Language:
    """Return the language of arguments in one of the `STYLES`.

    Args:
        style: The name of the style.
        schema: The schema of the arguments.
        whitespace: The white space in values that are JSON.
        any_order: Whether members may come in any order.

    Raises:
        ConfigurationError: No object satisfies the schema.
        UnsupportedSchema: The schema cannot be enforced exactly.
    """
    if style == NESTED:
        return NestedXmlArguments(schema, whitespace, any_order)
    return either(*(tags.language(schema, whitespace, any_order) for tags in _TAGS[style]))
