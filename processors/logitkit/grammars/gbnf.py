"""The reader of GBNF, the notation of grammars of llama.cpp.

    root  ::= "[" (item ("," item)*)? "]"      # a comment
    item  ::= [0-9]+ |
              root

A rule ends at the end of its line, unless the line is inside parentheses or ends in `|`. As in XGrammar, it also continues if
the next line does not begin another rule, so that the `|` may begin a line.
"""

from __future__ import annotations

from dataclasses import replace

from logitkit.budget import one_budget
from logitkit.compiler.bytes.special_tokens import OTHERS, WHOLE
from logitkit.compiler.characters.symbols import Symbol
from logitkit.errors import GrammarError
from logitkit.grammars.checks import checked_rule_set, defined_twice, no_start, undefined_rule
from logitkit.grammars.dialects import recognized
from logitkit.grammars.gbnf_attributes import GbnfAttributes, read_attributes, with_attributes
from logitkit.grammars.gbnf_bodies import GbnfBodyReader
from logitkit.grammars.gbnf_terminals import ANY_CHARACTER, NAME, SPACE, SPACE_OR_NEWLINE
from logitkit.grammars.lark.attributes import Attributes
from logitkit.grammars.rule_set import GrammarRule, RuleSet
from logitkit.limits import DEFAULT_LIMITS, Limits, check_limits
from logitkit.patterns.charset import CharSet
from logitkit.patterns.syntax import Alternate, Call, Characters, Node

__all__ = ["read_gbnf"]

# The cost of each token that a negated token stands for.
OTHER_STEPS = 10


def read_gbnf(text: str, start: str | None = None, limits: Limits = DEFAULT_LIMITS) -> RuleSet:
    r"""Read a grammar in GBNF.

    Everything that llama.cpp reads has the same meaning, with these exceptions. A count of more than 2,000, which llama.cpp
    refuses or takes as unbounded, is taken as written. A certain mistake is refused: two definitions of a rule, a rule
    without a body, an empty class, a range in reverse order, a count such as `{3,2}`, a rule without a finite text. `!<x>` is one
    token that is neither `<x>` nor EOS. Repeated by `*` or `+`, alone or in parentheses of its own, it is text, and special
    tokens but for `<x>`; so other text may follow inside a token. XGrammar's macros, such as `Regex("...")`, are read, and its
    lookaheads `(=...)` are left out. Its attributes, such as `name[lazy]`, have their meaning in Lark's syntax.

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


class _GbnfReader(GbnfBodyReader):
    """Reads the rules of a grammar."""

    def __init__(self, text: str, limits: Limits) -> None:
        super().__init__(text, limits)
        self.defined: dict[int, GrammarRule] = {}
        self.attributes: dict[int, Attributes] = {}

    def run(self, start: str) -> RuleSet:
        """Return the grammar."""
        # Some editors begin a file with a byte order mark.
        self.at = int(self.text.startswith("\ufeff"))
        self.skip(SPACE_OR_NEWLINE)
        while self.at < len(self.text):
            self._read_rule()
            self.skip(SPACE_OR_NEWLINE)
        self._define_negated()
        names = [rule.name for rule in self.defined.values()]
        for name, number in self.numbers.items():
            if number not in self.defined:
                raise undefined_rule(name, names, self.text, self.first_mention[number])
        if start not in self.numbers:
            raise no_start(start, names)
        rules = [self.defined[number] for number in range(len(self.first_mention))]
        checked = checked_rule_set(self.text, rules, self.numbers[start], self.tokens)
        changed = with_attributes(rules, self.attributes, self.tokens, self.text, self.limits)
        return replace(checked, rules=tuple(changed), tokens=tuple(self.tokens))

    def _read_rule(self) -> None:
        begin, found = self.at, NAME.match(self.text, self.at)
        if found is None:
            self.unexpected("the name of a rule")
        self.name = found[0]
        self.at = found.end()
        attributes = GbnfAttributes(Attributes(), None)
        if self.text.startswith("[", self.at):
            attributes, self.at = read_attributes(self.text, self.at, self.name)
        self.skip(SPACE)
        if not self.text.startswith("::=", self.at):
            self.unexpected(f"::= after the name {self.name!r}")
        self.at += 3
        number = self.number(self.name, begin)
        if number in self.defined:
            raise defined_twice(self.name, self.defined[number].begin, self.text, begin)
        self.skip(SPACE_OR_NEWLINE)
        body, end = self.read_body(begin)
        self.defined[number] = GrammarRule(self.name, body, begin, end, capture=attributes.capture)
        if attributes.texts != Attributes():
            self.attributes[number] = attributes.texts

    def _define_negated(self) -> None:
        """Define the rule of each negated token: any other special token, and any character or any token with text."""
        if not self.negated:
            return
        self.tokens[OTHERS] = last = len(self.tokens)
        self.limits.spend(OTHER_STEPS * last * len(self.negated))
        text: dict[bool, Node] = {True: ANY_CHARACTER}
        if not all(repeated for _, repeated in self.negated):
            self.tokens[WHOLE] = last + 1
            text[False] = Characters(CharSet.single(Symbol.special_token(last + 1)))
        for (letters, repeated), rule in self.negated.items():
            symbols = [Symbol.special_token(other) for other in range(last + 1) if other not in letters]
            others = CharSet.of(zip(symbols, symbols, strict=True))
            assert isinstance(rule.body, Call)
            self.defined[rule.body.rule] = replace(rule, body=Alternate((text[repeated], Characters(others))))
