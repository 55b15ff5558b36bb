"""Texts and white space, as trees."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from logitkit.json_schema.delimited_strings import DelimitedStrings
from logitkit.json_schema.string_spellings import StringSpelling, spelled_text
from logitkit.patterns.charset import CharSet
from logitkit.patterns.construction import concatenate
from logitkit.patterns.syntax import Alternate, Characters, Concat, Empty, Node, Repeat

__all__ = [
    "AS_A_PART",
    "JSON_LITERALS",
    "NONE_LITERALS",
    "PYTHON_LITERALS",
    "TOGETHER",
    "WITHOUT_BYTES",
    "Layout",
    "MemberOrder",
    "Whitespace",
    "any_order_option",
    "is_unicode",
    "literal",
    "ordered",
    "quoted",
    "written",
]

Whitespace = Literal["compact", "spaced", "bounded"]
MemberOrder = Literal["schema", "sorted", "sorted_ignoring_case", "any"]

WIDEST_INDENT = 32

# Null, true and false.
JSON_LITERALS, PYTHON_LITERALS = ("null", "true", "false"), ("None", "True", "False")
NONE_LITERALS = ("None", "true", "false")

# Where a row cannot remember items or names.
AS_A_PART = "in a part of another constraint"
TOGETHER = "where arrays or objects with other items or names, or without the keyword, may begin in the same place"
WITHOUT_BYTES = "with a vocabulary that lacks a token for some byte of the items or names"

_SPACE = Characters(CharSet.single(ord(" ")))
_NEWLINE = Concat((Characters(CharSet.single(ord("\n"))), Repeat(_SPACE, 0, WIDEST_INDENT)))


@cache
def literal(text: str) -> Node:
    """Return the tree of one text, which is kept."""
    return concatenate([written(text)])


def written(text: str) -> Node:
    """Return the tree of one text, of which there may be many."""
    return Concat(tuple([Characters(CharSet.single(ord(character))) for character in text]))


def quoted(text: str) -> str:
    """Return the JSON text of a string."""
    return json.dumps(text, ensure_ascii=False)


def ordered(names: list[str], order: MemberOrder) -> list[str]:
    """Return names that are in the order of a schema in the order in which members are written.

    Example:
        >>> ordered(["b", "C", "a"], "sorted"), ordered(["b", "C", "a"], "sorted_ignoring_case")
        (['C', 'a', 'b'], ['a', 'b', 'C'])
    """
    if order in ("schema", "any"):
        return names
    return sorted(names, key=str.lower if order == "sorted_ignoring_case" else None)


def is_unicode(name: str) -> bool:
    """Whether a string can be written in UTF-8: it has no surrogates, which Python's JSON lets by."""
    return name.isascii() or not any("\ud800" <= character <= "\udfff" for character in name)


def any_order_option(any_order: bool, member_order: MemberOrder) -> str | None:
    """Return the option that allows members in any order, as an error names it; None if they may not come so.

    Args:
        any_order: See `Layout`.
        member_order: See `Layout`.
    """
    return "member_order='any'" if member_order == "any" else "any_order" if any_order else None


@dataclass(frozen=True, slots=True)
class Layout:
    """The white space around members and items.

    Args:
        whitespace: `compact`, none at all; `spaced`, one space or none after a comma and a colon; `bounded`, where `json.dumps`
            may put some: after an opening bracket and before a closing one a newline and up to 32 spaces, after a comma that or
            one space, after a colon one space; or none.
        any_order: Whether members may come in any order, or only in `member_order`.
        blocks: Whether many items or members are written in blocks that are called.
        within_tokens: Whether a text that has begun must be completed within a number of tokens.
        forgets: Where it is that a row cannot remember items of arrays, as an error says it; None: it can.
        forgets_names: Where it is that a row cannot remember names of objects, as an error says it; None: it can.
        literals: How null, true and false are written.
        strings: How strings are written.
        member_order: In which order members come that have a listed name; `"sorted_ignoring_case"` as in Jinja's `dictsort`.
            `"any"` is the same as `any_order`.
    """

    whitespace: Whitespace = "compact"
    any_order: bool = False
    blocks: bool = False
    within_tokens: bool = False
    forgets: str | None = AS_A_PART
    forgets_names: str | None = AS_A_PART
    literals: tuple[str, str, str] = JSON_LITERALS
    strings: StringSpelling | DelimitedStrings = "json"
    member_order: MemberOrder = "schema"
    opened: Node = field(init=False)
    gap: Node = field(init=False)
    comma: Node = field(init=False)
    colon: Node = field(init=False)
    closing: dict[str, Node] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "any_order", self.any_order or self.member_order == "any")
        lines = self.whitespace == "bounded"
        line = Alternate((Empty(), _NEWLINE)) if lines else Empty()
        space = Empty() if self.whitespace == "compact" else Alternate((Empty(), _SPACE))
        gap = Alternate((Empty(), _SPACE, _NEWLINE)) if lines else space
        object.__setattr__(self, "opened", line)
        object.__setattr__(self, "gap", gap)
        object.__setattr__(self, "comma", concatenate([literal(","), gap]))
        object.__setattr__(self, "colon", concatenate([literal(":"), space]))
        object.__setattr__(self, "closing", {end: concatenate([line, literal(end)]) for end in "}]"})

    @property
    def any_order_option(self) -> str | None:
        """The option that allows members in any order, as an error names it; None if they may not come so."""
        return any_order_option(self.any_order, self.member_order)

    @property
    def as_texts(self) -> bool:
        """Whether an object or array that a schema gives as a whole is written as one text, as in compact JSON."""
        is_fixed = self.whitespace == "compact" and not self.any_order and self.member_order == "schema"
        return is_fixed and not isinstance(self.strings, DelimitedStrings)

    def string(self, text: str) -> Node:
        """Return the tree of one string."""
        if isinstance(self.strings, DelimitedStrings):
            return self.strings.string(text)
        return written(spelled_text(quoted(text), self.strings))
