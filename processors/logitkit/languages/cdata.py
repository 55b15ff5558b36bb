r"""Strings between tags that stand in a CDATA section if they contain certain texts, as MiniCPM5 writes them.

    <param name="city">Bonn</param><param name="code"><![CDATA[if a < b:
        pass]]></param>

A string that contains one of the texts is only written in a section, and any other only without one, so each string has one
spelling. In a section, the tag that ends a value is text. The end of a section is not, so a string with `]]>` and one of the
texts has no spelling.
"""

from __future__ import annotations

from functools import lru_cache

from logitkit.budget import outside_budget
from logitkit.compiler.text_language import TextLanguage
from logitkit.languages.raw_strings import texts_without
from logitkit.limits import Limits
from logitkit.patterns.charset import ANY, CharSet
from logitkit.patterns.construction import concatenate
from logitkit.patterns.syntax import Characters, Node, Repeat

__all__ = ["SECTION_BEGIN", "SECTION_END", "in_section", "section_text", "with_sections"]

SECTION_BEGIN, SECTION_END = "<![CDATA[", "]]>"


def in_section(text: str, wrapped: tuple[str, ...]) -> str:
    """Return a string as it is written: in a section if it contains one of some texts.

    Args:
        text: The string.
        wrapped: The texts.

    Example:
        >>> in_section("a < b", ("<", "&")), in_section("a", ("<", "&"))
        ('<![CDATA[a < b]]>', 'a')
    """
    return SECTION_BEGIN + text + SECTION_END if any(one in text for one in wrapped) else text


def section_text(written: str) -> str | None:
    """Return the string in a section; None: the text is not one section."""
    if len(written) < len(SECTION_BEGIN + SECTION_END) or not written.startswith(SECTION_BEGIN):
        return None
    inside = written.removeprefix(SECTION_BEGIN).removesuffix(SECTION_END)
    return inside if written.endswith(SECTION_END) and SECTION_END not in inside else None


def with_sections(
    strings: TextLanguage, plain: TextLanguage, wrapped: tuple[str, ...], free_of: tuple[str, ...], limits: Limits
) -> TextLanguage:
    """Return the spellings of strings.

    Args:
        strings: The strings.
        plain: The texts that may stand between tags without a section.
        wrapped: The texts that occur in sections only; a string with one of them stands in a section.
        free_of: Texts that occur in no string.
        limits: Bounds on the automata.
    """
    without, inside = _sections(wrapped, free_of, limits)
    sections = strings & inside
    found = strings & plain & without
    if sections.is_empty:
        return found
    begin, end = _characters(SECTION_BEGIN), _characters(SECTION_END)
    return found | TextLanguage.of_tree(concatenate([*begin, sections.machine(), *end]), limits)


@lru_cache(maxsize=16)
@outside_budget()
def _sections(wrapped: tuple[str, ...], free_of: tuple[str, ...], limits: Limits) -> tuple[TextLanguage, TextLanguage]:
    """Return the strings that stand without a section, and those that stand in one."""
    without = texts_without(wrapped[0], limits)
    for text in wrapped[1:]:
        without &= texts_without(text, limits)
    inside = texts_without(SECTION_END, limits) - without
    for text in free_of:
        inside &= texts_without(text, limits)
    # It would be read as a section.
    begun = TextLanguage.of_tree(concatenate([*_characters(SECTION_BEGIN), Repeat(Characters(ANY), 0, None)]), limits)
    return without - begun, inside


def _characters(text: str) -> list[Node]:
    return [Characters(CharSet.single(ord(character))) for character in text]
