"""The reader of GBNF, the notation of grammars of llama.cpp.

    root  ::= "[" (item ("," item)*)? "]"      # a comment
    item  ::= [0-9]+ |
              root

A rule ends at the end of its line, unless the line is inside parentheses or ends in `|`. As in XGrammar, it also continues if
the next line does not begin another rule, so that the `|` may begin a line.

The reader keeps its own stack of open groups, so nested groups cannot overflow Python's. Later stages do recurse over trees, so
the height of a tree is limited. It is counted upwards from the leaves: parentheses that change nothing do not count.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import NoReturn

from logitkit.budget import one_budget
from logitkit.compiler.bytes.letters import OTHERS, WHOLE
from logitkit.compiler.networks.symbols import LETTERS
from logitkit.errors import GrammarError
from logitkit.grammars.checks import checked_rule_set, defined_twice, no_start, undefined_rule
from logitkit.grammars.dialects import recognized
from logitkit.grammars.gbnf_counts import read_counts
from logitkit.grammars.gbnf_terminals import ANY_CHARACTER, read_class, read_string, read_token
from logitkit.grammars.rule_set import GrammarRule, RuleSet
from logitkit.limits import DEFAULT_LIMITS, Limits, check_limits
from logitkit.patterns.charset import CharSet
from logitkit.patterns.construction import alternate, concatenate, repeat
from logitkit.patterns.syntax import Alternate, Call, Characters, Concat, Node, Repeat

__all__ = ["read_gbnf"]

MAX_HEIGHT = 300
"""How many groups, alternatives and repetitions may contain each other in a rule; a group with both counts three times."""

# An open group takes about this many times the memory of a step of the work limit.
_GROUP_STEPS = 32

# What each token costs that a negated token stands for.
_OTHER_STEPS = 10

# What an element of a rule costs.
_ELEMENT_STEPS = 8

_SPACE = re.compile(r"(?:[ \t]|#[^\r\n]*)*")
_SPACE_OR_NEWLINE = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_DEFINITION = re.compile(r"[A-Za-z0-9_-]+[ \t]*::=")
_MACROS = ("TagDispatch", "TokenTagDispatch", "Token", "ExcludeToken")
_INSTEAD = {
    "'": 'a string is written "..."',
    ",": "parts follow each other without commas",
    ";": "a rule ends at the end of its line, without a semicolon",
    "/": "regular expressions are not supported; a comment begins with #",
    "=": "a rule is written name ::= ...",
    ":": "a rule is written name ::= ...",
    ".": "names consist of letters, digits, - and _",
}


def read_gbnf(text: str, start: str | None = None, limits: Limits = DEFAULT_LIMITS) -> RuleSet:
    r"""Read a grammar in GBNF.

    Everything that llama.cpp reads has the same meaning, with these exceptions. A count of more than 2,000, which llama.cpp
    refuses or takes as unbounded, is taken as written. What is always a mistake is refused: two definitions of a rule, a rule
    without a body, an empty class, a range in reverse order, a count such as `{3,2}`, a rule without a finite text. `!<x>` is one
    token that is neither `<x>` nor EOS. Repeated by `*` or `+`, alone or in parentheses of its own, it is text, and special
    tokens but for `<x>`; so other text may follow inside a token. Of XGrammar, lookahead `(=...)` and macros are refused.

    Args:
        text: The grammar.
        start: The rule of the whole text; None means `root`.
        limits: Limits on the work of reading.

    Returns:
        The rules, in the order in which the text mentions them.

    Raises:
        GrammarError: The grammar is malformed or not supported; the error shows the line.
        PatternTooLarge: The grammar exceeds the work limit.
        ConfigurationError: The limits are not `Limits`.

    Example:
        >>> grammar = read_gbnf('root ::= "(" root ")" | [a-z]')
        >>> grammar.rules[0].name, grammar.start
        ('root', 0)

    Source:
        The GBNF guide of llama.cpp, https://github.com/ggml-org/llama.cpp/blob/master/grammars/README.md.
    """
    check_limits(limits)
    with one_budget(limits.work):
        limits.spend(2 * len(text))
        try:
            text.encode()
        except UnicodeEncodeError as error:
            reason = "half of a surrogate pair is not a character; decode the file as UTF-8"
            raise GrammarError(reason, text, error.start) from None
        try:
            return _GbnfReader(text, limits).run("root" if start is None else start)
        except GrammarError as error:
            if looks := recognized(text, "gbnf"):
                raise GrammarError(f"{looks} (as GBNF: {error.reason})", text, error.position) from None
            raise


@dataclass(slots=True)
class _OpenGroup:
    """An open group: its finished options, the parts of the current one, and the height of the highest part."""

    position: int
    options: list[Node] = field(default_factory=list)
    parts: list[Node] = field(default_factory=list)
    height: int = 0
    last: int = 0


class _GbnfReader:
    """Reads a grammar from left to right."""

    def __init__(self, text: str, limits: Limits) -> None:
        self.text = text
        self.limits = limits
        self.at = 0
        self.name = ""
        self.numbers: dict[str, int] = {}
        self.first_mention: list[int] = []
        self.defined: dict[int, GrammarRule] = {}
        self.tokens: dict[str | int, int] = {}
        self.negated: dict[tuple[int, bool], GrammarRule] = {}
        self.group = _OpenGroup(0)
        self.stack: list[_OpenGroup] = []
        self.spread_string: int | None = None
        self.elements = 0

    def run(self, start: str) -> RuleSet:
        """Return the grammar."""
        # Some editors begin a file with a byte order mark.
        self.at = int(self.text.startswith("\ufeff"))
        self._skip(_SPACE_OR_NEWLINE)
        while self.at < len(self.text):
            self._read_rule()
            self._skip(_SPACE_OR_NEWLINE)
        self._define_negated()
        names = [rule.name for rule in self.defined.values()]
        for name, number in self.numbers.items():
            if number not in self.defined:
                raise undefined_rule(name, names, self.text, self.first_mention[number])
        if start not in self.numbers:
            raise no_start(start, names)
        rules = [self.defined[number] for number in range(len(self.first_mention))]
        return checked_rule_set(self.text, rules, self.numbers[start], self.tokens)

    def _read_rule(self) -> None:
        begin, found = self.at, _NAME.match(self.text, self.at)
        if found is None:
            self._unexpected("the name of a rule")
        self.name = found[0]
        self.at = found.end()
        self._skip(_SPACE)
        if not self.text.startswith("::=", self.at):
            self._unexpected(f"::= after the name {self.name!r}")
        self.at += 3
        number = self._number(self.name, begin)
        if number in self.defined:
            raise defined_twice(self.name, self.defined[number].begin, self.text, begin)
        self._skip(_SPACE_OR_NEWLINE)
        self.group = _OpenGroup(self.at)
        end = self.at
        self.elements = 0
        while self._more():
            self._read_element()
            end = self.at
        if self.stack:
            raise GrammarError("a group is not closed; write ) at its end", self.text, self.group.position)
        if not self.group.parts and not self.group.options:
            reason = f'the rule {self.name!r} has no body; for the empty text write ""'
            raise GrammarError(reason, self.text, begin)
        self.defined[number] = GrammarRule(self.name, self._close(), begin, end)

    def _more(self) -> bool:
        """Go to the next element of the rule, and return whether there is one."""
        self._skip(_SPACE_OR_NEWLINE if self.stack else _SPACE)
        if self.text[self.at : self.at + 1] in ("\r", "\n"):
            here = self.at
            self._skip(_SPACE_OR_NEWLINE)
            if _DEFINITION.match(self.text, self.at):
                self.at = here
                return False
        return self.at < len(self.text)

    def _read_element(self) -> None:
        sign = self.text[self.at]
        match sign:
            case '"':
                node, self.at = self._string()
                self._append(node, 1)
            case "[":
                node, self.at = read_class(self.text, self.at)
                self._append(node)
            case ".":
                self.at += 1
                self._append(ANY_CHARACTER)
            case "(":
                self._open()
            case ")" if self.stack:
                closed, height = self._close(), self.group.height + 2
                self.group = self.stack.pop()
                self.at += 1
                self._append(closed, height if isinstance(closed, Alternate | Concat | Repeat) else 0)
            case "|":
                self.group.options.append(self._option())
                self.at += 1
                self._skip(_SPACE_OR_NEWLINE)
            case "*" | "+" | "?" | "{":
                self._repeat()
            case "<" | "!":
                self._token()
            case _ if found := _NAME.match(self.text, self.at):
                self._call(found[0], found.end())
            case _:
                self._unexpected("a string, a class, a rule, a group, a repetition or |")

    def _string(self) -> tuple[Node, int]:
        try:
            node, after = read_string(self.text, self.at, self.limits)
        except GrammarError as error:
            # A string that was forgotten to close ends where the next one should begin, and all that follow are inside out.
            if error.position == self.at and self.spread_string is not None:
                raise GrammarError(error.reason, self.text, self.spread_string) from None
            raise
        if self.spread_string is None and "\n" in self.text[self.at : after]:
            self.spread_string = self.at
        return node, after

    def _call(self, name: str, after: int) -> None:
        if _DEFINITION.match(self.text, self.at):
            reason = f"the definition of {name!r} stands inside of the rule {self.name!r}"
            if self.stack:
                raise GrammarError(f"{reason}; close the group before it with )", self.text, self.stack[-1].position)
            if not self.group.parts:
                reason = f'nothing stands before the definition of {name!r}; for the empty text write ""'
                raise GrammarError(reason, self.text, self.at)
            raise GrammarError(f"{reason}; begin it on a line of its own", self.text, self.at)
        if name in _MACROS and self.text.startswith("(", after):
            reason = f"macros of XGrammar such as {name}(...) are not supported; use a structural tag"
            raise GrammarError(reason, self.text, self.at)
        self._append(Call(self._number(name, self.at)))
        self.at = after

    def _open(self) -> None:
        if self.text.startswith("(=", self.at):
            reason = "lookahead (=...) of XGrammar is not supported; leave it out, since it does not change the texts"
            raise GrammarError(reason, self.text, self.at)
        self.limits.spend(_GROUP_STEPS)
        self.stack.append(self.group)
        self.group = _OpenGroup(self.at)
        self.at += 1

    def _repeat(self) -> None:
        position, sign = self.at, self.text[self.at]
        minimum, maximum, self.at = read_counts(self.text, position)
        if not self.group.parts:
            raise GrammarError(f'nothing to repeat; for a literal {sign} write "{sign}"', self.text, position)
        self.group.parts[-1] = repeat(self.group.parts[-1], minimum, maximum, "greedy", position)
        self._raise_height(self.group.last + 1)

    def _token(self) -> None:
        begin, negated = self.at, self.text[self.at] == "!"
        token, self.at = read_token(self.text, self.at + negated)
        letter = self.tokens.setdefault(token, len(self.tokens))
        if not negated:
            self._append(Characters(CharSet.single(LETTERS + letter)))
            return
        kind = letter, self._is_repeated(self.at)
        if kind not in self.negated:
            self.negated[kind] = GrammarRule(self.name, Call(len(self.first_mention)), begin, self.at)
            self.first_mention.append(begin)
        self._append(self.negated[kind].body)

    def _is_repeated(self, after: int) -> bool:
        """Return whether a token that ends here is repeated by `*` or `+`, alone or as all that its parentheses contain."""
        group, outside = self.group, len(self.stack)
        while True:
            spaces = (_SPACE_OR_NEWLINE if outside else _SPACE).match(self.text, after)
            assert spaces is not None
            after = spaces.end()
            if self.text[after : after + 1] in ("*", "+", "{"):
                return read_counts(self.text, after)[:2] in ((0, None), (1, None))
            if group.parts or group.options or not outside or self.text[after : after + 1] != ")":
                return False
            after, outside = after + 1, outside - 1
            group = self.stack[outside]

    def _define_negated(self) -> None:
        """Define the rule of each negated token: any other special token, and any character or any token with text."""
        if not self.negated:
            return
        self.tokens[OTHERS] = last = len(self.tokens)
        self.limits.spend(_OTHER_STEPS * last * len(self.negated))
        text: dict[bool, Node] = {True: ANY_CHARACTER}
        if not all(repeated for _, repeated in self.negated):
            self.tokens[WHOLE] = last + 1
            text[False] = Characters(CharSet.single(LETTERS + last + 1))
        for (letter, repeated), rule in self.negated.items():
            ranges = (LETTERS, LETTERS + letter - 1), (LETTERS + letter + 1, LETTERS + last)
            others = CharSet.of([(first, end) for first, end in ranges if first <= end])
            assert isinstance(rule.body, Call)
            self.defined[rule.body.definition] = replace(rule, body=Alternate((text[repeated], Characters(others))))

    def _append(self, node: Node, height: int = 0) -> None:
        # Each becomes a state at least.
        self.elements += 1
        self.limits.check_states(self.elements)
        self.limits.spend(_ELEMENT_STEPS)
        self.group.parts.append(node)
        self._raise_height(height)

    def _raise_height(self, height: int) -> None:
        self.group.last = height
        self.group.height = max(self.group.height, height)
        if height > MAX_HEIGHT:
            reason = f"more than {MAX_HEIGHT} groups, alternatives and repetitions contain each other here"
            raise GrammarError(f"{reason}; make a rule of an inner group", self.text, self.at - 1)

    def _option(self) -> Node:
        """Return the parts of the current option as one node, and begin another option."""
        node = concatenate(self.group.parts)
        self.limits.spend(len(node.parts) if isinstance(node, Concat) else 1)
        self.group.parts = []
        return node

    def _close(self) -> Node:
        """Return the current group as one node."""
        node = alternate([*self.group.options, self._option()])
        self.limits.spend(len(node.options) if isinstance(node, Alternate) else 1)
        return node

    def _number(self, name: str, position: int) -> int:
        """Return the number of a rule; a new name gets the next one."""
        number = self.numbers.setdefault(name, len(self.first_mention))
        if number == len(self.first_mention):
            self.first_mention.append(position)
        return number

    def _skip(self, space: re.Pattern[str]) -> None:
        found = space.match(self.text, self.at)
        assert found is not None
        self.at = found.end()

    def _unexpected(self, allowed: str) -> NoReturn:
        found = self.text[self.at : self.at + 1]
        if found == "<" or (found == ":" and self.text[: self.at].rstrip().endswith(">")):
            raise GrammarError("the name of a rule is written without < >", self.text, self.at)
        if found == ")":
            raise GrammarError(') closes no group; for a literal ) write ")"', self.text, self.at)
        reason = f"found {found!r}; allowed is {allowed}" if found else f"the grammar ends, and {allowed} is missing"
        advice = f" ({_INSTEAD[found]})" if found in _INSTEAD else ""
        raise GrammarError(f"{reason}{advice}", self.text, self.at)
