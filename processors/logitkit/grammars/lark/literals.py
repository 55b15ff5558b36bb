"""The literals of Lark's syntax as trees: strings, ranges, regular expressions, special tokens and names of `common`."""

from __future__ import annotations

import re
from typing import NoReturn

from logitkit.compiler.characters.lengths import WIDEST
from logitkit.compiler.characters.symbols import Symbol
from logitkit.compiler.text_language import TextLanguage
from logitkit.errors import ConfigurationError, GrammarError, PatternSyntaxError
from logitkit.grammars.lark.draft import LarkDefinition
from logitkit.grammars.lark.measures import COMMON_LENGTHS, Measure, of_regexp, of_string
from logitkit.grammars.substrings import chunks_of, parts_of
from logitkit.limits import Limits
from logitkit.patterns.case_folding import fold
from logitkit.patterns.charset import CharSet
from logitkit.patterns.construction import concatenate
from logitkit.patterns.parser import parse
from logitkit.patterns.syntax import Characters, Node

__all__ = ["COMMON", "Literals"]

_INT = "[0-9]+"
_DECIMAL = r"(?:[0-9]+\.[0-9]*|\.[0-9]+)"
_FLOAT = rf"(?:[0-9]+[eE][+\-]?[0-9]+|{_DECIMAL}(?:[eE][+\-]?[0-9]+)?)"

COMMON = {
    "DIGIT": "[0-9]",
    "HEXDIGIT": "[0-9A-Fa-f]",
    "INT": _INT,
    "SIGNED_INT": rf"[+\-]?{_INT}",
    "DECIMAL": _DECIMAL,
    "FLOAT": _FLOAT,
    "SIGNED_FLOAT": rf"[+\-]?{_FLOAT}",
    "NUMBER": f"(?:{_FLOAT}|{_INT})",
    "SIGNED_NUMBER": rf"[+\-]?(?:{_FLOAT}|{_INT})",
    "ESCAPED_STRING": r'"(?:[^"\\\n]|\\[^\n])*"',
    "LCASE_LETTER": "[a-z]",
    "UCASE_LETTER": "[A-Z]",
    "LETTER": "[A-Za-z]",
    "WORD": "[A-Za-z]+",
    "CNAME": "[A-Za-z_][A-Za-z0-9_]*",
    "WS_INLINE": r"[ \t]+",
    "WS": r"[ \t\f\r\n]+",
    "CR": r"\r",
    "LF": r"\n",
    "NEWLINE": r"(?:\r?\n)+",
    "SH_COMMENT": r"#[^\n]*",
    "CPP_COMMENT": r"//[^\n]*",
    "C_COMMENT": r"/\*(?:[^*]|\*+[^*/])*\*+/",
    "SQL_COMMENT": r"--[^\n]*",
}
"""The pattern of each terminal."""


# The cost of a special token: each has a column of its own in the tables.
_TOKEN_STEPS = 300

_ESCAPE = re.compile(r"""\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))""", re.DOTALL)
_ESCAPED = {"\\": "\\", '"': '"', "/": "/", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "f": "\f"}
_IDS = re.compile(r"<\[(\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*)\]>")


class Literals:
    """Reads the literals of a grammar.

    Args:
        grammar: Its text, for errors.
        limits: Bounds on the trees.

    Attributes:
        tokens: The special tokens that were met, by name or id.
    """

    def __init__(self, grammar: str, limits: Limits) -> None:
        self.grammar = grammar
        self.limits = limits
        self.tokens: list[str | int] = []

    def node(self, definition: LarkDefinition) -> tuple[Node, Measure]:
        """Return the tree of a literal, and its measure.

        Raises:
            GrammarError: The literal is not valid.
            PatternTooLarge: It has too many characters.
        """
        match definition.kind:
            case "string":
                return self._string(definition)
            case "range":
                # Lark writes `[a-z]` for "a".."z".
                length = sum(map(len, definition.ends)) - 1
                return self._range(definition), Measure(1, 1, length, length)
            case "special":
                return self._special(definition), of_string("", False)
            case "common":
                tree, length = parse(COMMON[definition.name]), COMMON_LENGTHS[definition.name]
                return tree, of_regexp(tree, "")._replace(length=length, inside=length)
            case "regex":
                return self._parts(definition)
            case _:
                return self._regexp(definition)

    def _string(self, definition: LarkDefinition) -> tuple[Node, Measure]:
        written = definition.name
        folded = written.endswith("i")
        text = self._unescaped(definition, written[1:-2] if folded else written[1:-1], 1)
        self.limits.check_states(len(text))
        sets = map(CharSet.single, map(ord, text))
        tree = concatenate([Characters(fold(charset, ascii_only=False) if folded else charset) for charset in sets])
        return tree, of_string(text, folded)

    def _unescaped(self, definition: LarkDefinition, written: str, offset: int) -> str:
        def replaced(found: re.Match[str]) -> str:
            digits = found[1] or found[2] or found[3]
            at = definition.begin + offset + found.start()
            if digits is None and found[4] not in _ESCAPED:
                reason = rf"unknown escape {found[0]} in a string; write a backslash as \\, and a regular expression as /.../"
                raise GrammarError(reason, self.grammar, at)
            if digits is None:
                return _ESCAPED[found[4]]
            code = int(digits, 16)
            if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
                raise GrammarError(f"{found[0]} is not a character of Unicode", self.grammar, at)
            return chr(code)

        return _ESCAPE.sub(replaced, written)

    def _range(self, definition: LarkDefinition) -> Node:
        first, last = definition.ends
        ends = [self._unescaped(definition, first[1:-1], 1), self._unescaped(definition, last[1:-1], 1)]
        if first.endswith("i") or last.endswith("i") or len(ends[0]) != 1 or len(ends[1]) != 1 or ends[0] > ends[1]:
            reason = (
                f"the range {definition.name} does not go from one character to the same or a later one, without flags"
            )
            self._refuse(reason, definition)
        return Characters(CharSet(((ord(ends[0]), ord(ends[1])),)))

    def _special(self, definition: LarkDefinition) -> Node:
        name = definition.name
        if not name.startswith("<["):
            self.tokens.append(name)
            return Characters(CharSet.single(Symbol.special_token(len(self.tokens) - 1)))
        found = _IDS.fullmatch(name)
        if found is None or len(name) > 1000:
            self._refuse(f"{name} is not a list of token ids, as in <[1,5-9]>", definition)
        begin = len(self.tokens)
        for part in found[1].split(","):
            first, _, last = part.partition("-")
            ids = range(int(first), int(last or first) + 1)
            if not ids or len(ids) > 10_000:
                self._refuse(f"the range {part} of token ids is empty, or has more than 10,000 ids", definition)
            self.limits.spend(_TOKEN_STEPS * len(ids))
            self.tokens.extend(ids)
        ends = Symbol.special_token(begin), Symbol.special_token(len(self.tokens) - 1)
        return Characters(CharSet((ends,)))

    def _parts(self, definition: LarkDefinition) -> tuple[Node, Measure]:
        try:
            chunks = chunks_of(definition.name)
        except ConfigurationError as error:
            self._refuse(str(error), definition)
        texts = TextLanguage.of_tree(parts_of(chunks, self.limits), self.limits)
        length = len(definition.name)
        return texts.machine(), Measure(0, min(sum(map(len, chunks)), WIDEST), length, length)

    def _regexp(self, definition: LarkDefinition) -> tuple[Node, Measure]:
        body, _, flags = definition.name[1:].rpartition("/")
        if unknown := set(flags) - set("imsxu"):
            reason = f"the flag {min(unknown)} of a regular expression is not supported; allowed are i, m, s, x and u"
            self._refuse(reason, definition)
        prefix = f"(?{''.join(sorted(set(flags)))})" if flags else ""
        try:
            tree = parse(prefix + body)
            return tree, of_regexp(tree, body, flags)
        except PatternSyntaxError as error:
            at = definition.begin + 1 + max(0, error.position - len(prefix))
            raise GrammarError(f"in this regular expression: {error.reason}", self.grammar, at) from error

    def _refuse(self, reason: str, definition: LarkDefinition) -> NoReturn:
        raise GrammarError(reason, self.grammar, definition.begin)
