"""The parser: from a pattern to its syntax tree.

The parser keeps its own stack, so a pattern cannot overflow Python's. The tree has at most five nodes in depth per nested
group, and groups nest at most `MAX_NESTING` deep, so functions that walk the tree can recurse.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from logitkit.errors import ConfigurationError, PatternSyntaxError
from logitkit.patterns.charset import CharSet
from logitkit.patterns.classes import (
    any_character,
    character,
    escaped_class,
    property_characters,
    read_class,
)
from logitkit.patterns.construction import alternate, concatenate, repeat
from logitkit.patterns.escapes import Property, read_escape
from logitkit.patterns.groups import Opening, read_opening, read_quantifier
from logitkit.patterns.syntax import ASCII, MULTILINE, VERBOSE, Anchor, Atomic, Characters, Empty, Look, Node
from logitkit.patterns.unicode_classes import perl_class

MAX_NESTING = 100
"""The maximum nesting depth of groups."""

_PLAIN = re.compile(r"[^\\.^$*+?{\[()|]+")
_PLAIN_VERBOSE = re.compile(r"[^\\.^$*+?{\[()|# \t\n\r\v\f]+")
# In a verbose comment, a backslash hides the character after it, even a newline.
_SKIPPED_VERBOSE = re.compile(r"(?:[ \t\n\r\v\f]+|#(?:[^\\\n]|\\.)*(?:\n|\Z))+", re.DOTALL)

_Last = Literal["nothing", "anchor", "repeat", "item"]


@dataclass(slots=True)
class _Group:
    """An open group: its flags, its finished options, and the parts of the current one."""

    opening: Opening
    position: int
    flags: int
    options: list[Node] = field(default_factory=list)
    parts: list[Node] = field(default_factory=list)
    last: _Last = "nothing"


def parse(pattern: str) -> Node:
    r"""Parse a pattern in the syntax of Python's `re`, extended by `\p{...}` and `\P{...}`.

    It has `\u{...}` and `(?<name>...)` from ECMA-262 and Rust's `regex`, `\cA` from ECMA-262, and `\x{...}` and `\U{...}` from
    Rust's `regex`. `re` refuses them. Everything that `re.compile` accepts for `str` has the same meaning here, with three
    exceptions, which are refused: backreferences and conditional groups, because their languages are not regular, and groups
    nested more than `MAX_NESTING` deep. Lookbehinds may have any width.

    Args:
        pattern: The pattern. Flags are part of it, for example `(?i)`.

    Returns:
        The syntax tree.

    Raises:
        PatternSyntaxError: The pattern is malformed or not supported; the error contains the position.
        ConfigurationError: The pattern is not a `str`.

    Example:
        >>> parse("ab?").parts[1].minimum
        0
    """
    if isinstance(pattern, re.Pattern):
        raise ConfigurationError(
            "the pattern is compiled; give its text, pattern.pattern, with flags written at its beginning, such as (?i)"
        )
    if not isinstance(pattern, str):
        raise ConfigurationError(f"a pattern must be str, not {type(pattern).__name__}; decode bytes first")
    return Parser(pattern).run()


class Parser:
    """Reads a pattern from left to right."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.group = _Group(Opening("plain", 0, 0), 0, 0)
        self.stack: list[_Group] = []
        self.names: set[str] = set()
        self.captures = 0
        self.global_letters: set[str] = set()

    def run(self) -> Node:
        """Return the syntax tree."""
        while self.at < len(self.pattern):
            self._read_plain()
            self._read_syntax()
        if self.stack:
            reason = r"missing ), unterminated subpattern; for a literal ( write \("
            raise PatternSyntaxError(reason, self.pattern, self.group.position)
        return _finish(self.group)

    def _read_syntax(self) -> None:
        """Read one element that is not a plain character, if there is one."""
        match self.pattern[self.at : self.at + 1]:
            case "\\":
                self._read_escape()
            case "[":
                node, self.at = read_class(self.pattern, self.at, self.group.flags)
                self._append(node)
            case ".":
                self._append(any_character(self.group.flags))
                self.at += 1
            case "*" | "+" | "?" | "{":
                self._read_quantifier()
            case "(":
                self._open()
            case ")":
                self._close()
            case "|":
                self.group.options.append(concatenate(self.group.parts))
                self.group.parts = []
                self.group.last = "nothing"
                self.at += 1
            case "^":
                self._append_anchor("line_start" if self.group.flags & MULTILINE else "text_start", 1)
            case "$":
                self._append_anchor("line_end" if self.group.flags & MULTILINE else "final", 1)

    def _read_plain(self) -> None:
        """Read plain characters; in verbose mode, skip whitespace and comments between them."""
        flags, plain = self.group.flags, _PLAIN
        if flags & VERBOSE:
            plain = _PLAIN_VERBOSE
            if found := _SKIPPED_VERBOSE.match(self.pattern, self.at):
                self.at = found.end()
            elif self.pattern.startswith("#", self.at):
                reason = r"bad escape (end of pattern) in a comment; leave the backslash out"
                raise PatternSyntaxError(reason, self.pattern, len(self.pattern) - 1)
        if found := plain.match(self.pattern, self.at):
            self.group.parts.extend(character(ord(letter), flags) for letter in found[0])
            self.group.last = "item"
            self.at = found.end()

    def _append(self, node: Node) -> None:
        self.group.parts.append(node)
        self.group.last = "item"

    def _append_anchor(
        self,
        kind: Literal["text_start", "text_end", "final", "line_start", "line_end", "boundary", "not_boundary"],
        width: int,
        word: CharSet | None = None,
    ) -> None:
        self.group.parts.append(Anchor(kind, self.at, word))
        self.group.last = "anchor"
        self.at += width

    def _read_escape(self) -> None:
        escape, after = read_escape(self.pattern, self.at, in_class=False, groups=self.captures)
        match escape:
            case int():
                self._append(character(escape, self.group.flags))
            case Property():
                self._append(property_characters(escape, self.group.flags))
            case "A":
                self._append_anchor("text_start", 2)
            case "Z":
                self._append_anchor("text_end", 2)
            case "b" | "B":
                word = perl_class("w", bool(self.group.flags & ASCII))
                self._append_anchor("boundary" if escape == "b" else "not_boundary", 2, word)
            case _:
                self._append(escaped_class(escape, self.group.flags))
        self.at = after

    def _read_quantifier(self) -> None:
        position = self.at
        quantifier = read_quantifier(self.pattern, position)
        if quantifier is None:
            self._append(character(0x7B, self.group.flags))
            self.at += 1
            return
        sign = self.pattern[position]
        if self.group.last in ("nothing", "anchor"):
            what = "an anchor cannot be repeated" if self.group.last == "anchor" else "nothing to repeat"
            raise PatternSyntaxError(f"{what}; for a literal {sign} write \\{sign}", self.pattern, position)
        if self.group.last == "repeat":
            reason = "multiple repeat; put the inner repetition into a group (?:...)"
            raise PatternSyntaxError(reason, self.pattern, position)
        self.group.parts[-1] = repeat(self.group.parts[-1], *quantifier[:3], position)
        self.group.last = "repeat"
        self.at = quantifier.after

    def _open(self) -> None:
        opening = read_opening(self.pattern, self.at, self.group.flags)
        if opening.kind == "global_flags":
            self._set_global_flags(opening)
        elif opening.kind != "comment":
            if len(self.stack) == MAX_NESTING:
                reason = f"groups nested more than {MAX_NESTING} deep; leave out those that change nothing"
                raise PatternSyntaxError(reason, self.pattern, self.at)
            if opening.name is not None:
                if opening.name in self.names:
                    reason = f"redefinition of group name {opening.name!r}; names must differ"
                    raise PatternSyntaxError(reason, self.pattern, self.at + len("(?P<"))
                self.names.add(opening.name)
            self.captures += opening.captures
            self.stack.append(self.group)
            self.group = _Group(opening, self.at, opening.flags)
        self.at = opening.after

    def _set_global_flags(self, opening: Opening) -> None:
        if self.stack or self.group.options or self.group.parts:
            written = self.pattern[self.at : opening.after - 1]
            reason = f"global flags not at the start of the expression; write {written}:...) for a part of it"
            raise PatternSyntaxError(reason, self.pattern, self.at)
        self.global_letters.update(self.pattern[self.at + 2 : opening.after - 1])
        if {"a", "u"} <= self.global_letters:
            reason = "bad inline flags: the flags a and u exclude each other"
            raise PatternSyntaxError(reason, self.pattern, self.at)
        self.group.flags = opening.flags

    def _close(self) -> None:
        if not self.stack:
            raise PatternSyntaxError(r"unbalanced parenthesis; for a literal ) write \)", self.pattern, self.at)
        closed, self.group = self.group, self.stack.pop()
        self._append(_finish(closed))
        self.at += 1


def _finish(group: _Group) -> Node:
    node = alternate([*group.options, concatenate(group.parts)])
    opening, position = group.opening, group.position
    if opening.kind == "atomic":
        # A single character has only one match, so an atomic group around it changes nothing.
        return node if isinstance(node, Empty | Characters | Atomic) else Atomic(node, position)
    if opening.kind == "look":
        if isinstance(node, Empty):
            return Characters(CharSet()) if opening.negative else node
        return Look(node, opening.behind, opening.negative, position)
    return node
