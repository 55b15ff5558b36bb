r"""From the text of a grammar in Lark's syntax to its definitions.

Each string, range and regular expression is a definition of its own, equal ones are one definition, and all trees consist of
calls: after `start: "a" B "a"`, the body of `start` is `Call(1) Call(2) Call(1)`, definition 1 is the string and 2 is `B`. So
rules and terminals are parsed alike.

Here are the lines of a grammar: definitions, directives and imports. `bodies` reads what stands after a colon.
"""

from __future__ import annotations

from logitkit.grammars.dialects import ATTRIBUTES
from logitkit.grammars.lark.bodies import ITEMS, UNSUPPORTED, LarkBodyReader
from logitkit.grammars.lark.draft import Draft, LarkDefinition
from logitkit.grammars.lark.literals import COMMON
from logitkit.grammars.lark.tokens import LarkToken
from logitkit.limits import Limits
from logitkit.patterns.syntax import Call

__all__ = ["parse_lark"]


def parse_lark(grammar: str, limits: Limits) -> Draft:
    """Parse a grammar. Names that are used and not defined have no body in the result.

    Raises:
        GrammarError: The text is not a grammar in Lark's syntax, or uses something that is not supported.
        PatternTooLarge: It is longer than the limits allow.
    """
    return _LarkParser(grammar, limits).run()


class _LarkParser(LarkBodyReader):
    def run(self) -> Draft:
        while self.here.kind != "end":
            token = self.take()
            if token.kind == "directive":
                self.read_directive(token)
            elif token.kind in ("modifier", "rule", "terminal"):
                self.read_definition(token)
            elif token.kind != "newline":
                hint = "; a rule continues on the next line only with |" if token.kind in ITEMS else ""
                self.refuse(f"a line begins with a name and a colon, with |, or with %{hint}", token)
        return self.draft

    def read_definition(self, token: LarkToken) -> None:
        if token.kind == "modifier":
            token = self.expect("rule", "the name of a rule")
        if self.here.text == "{":
            self.refuse("templates with parameters in {...} are not supported; write a rule for each use", self.here)
        if self.here.text == "[":
            self.refuse(ATTRIBUTES, self.here)
        if self.here.text in ("::=", "="):
            hint = "; this looks like GBNF: pass syntax='gbnf'" if self.here.text == "::=" else ""
            self.refuse(f"a definition is written with a colon, as in `name: ...`{hint}", self.here)
        number = self.draft.number(token.text, token.text, token.kind, token.begin)
        definition = self.draft.definitions[number]
        if definition.body is not None:
            self.refuse(f"{token.text} is defined more than once; join the definitions with |", token)
        if self.takes("."):
            definition.priority = self.integer("a priority, an integer,")
        self.expect("sign", "the colon of a definition, as in `name: ...`,", ":")
        definition.begin = token.begin
        self.read_body(definition)

    def read_directive(self, token: LarkToken) -> None:
        if token.text == "%ignore":
            if self.here.kind in ("newline", "end"):
                self.refuse('%ignore is followed by a terminal, as in %ignore " "', self.here)
            name = f"%ignore {self.here.text}"
            definition = LarkDefinition(name, token.begin, "terminal", end=token.begin)
            self.draft.ignored.append(len(self.draft.definitions))
            self.draft.definitions.append(definition)
            self.read_body(definition)
        elif token.text == "%import":
            self.read_import()
        else:
            self.refuse(UNSUPPORTED.get(token.text, f"{token.text} is unknown; allowed are %ignore and %import"), token)

    def read_import(self) -> None:
        begin = self.here
        path = "" if not self.takes(".") else "."
        path += self.take().text
        if path != "common":
            self.refuse("only terminals of `common` can be imported, as in %import common.WS", begin)
        if self.takes("("):
            while not self.takes(")"):
                token = self.expect("terminal", "the name of a terminal of `common`")
                self.define_common(token, token)
                if not self.takes(",") and self.here.text != ")":
                    self.refuse("a comma or ) is missing here", self.here)
            return
        self.expect("sign", "the dot of %import common.NAME", ".")
        token = self.expect("terminal", "the name of a terminal of `common`")
        self.define_common(token, self.expect("terminal", "a terminal's name after ->") if self.takes("->") else token)

    def define_common(self, token: LarkToken, name: LarkToken) -> None:
        if token.text not in COMMON:
            self.refuse(f"`common` has no terminal {token.text}; it has {', '.join(COMMON)}", token)
        number = self.draft.number(name.text, name.text, "terminal", token.begin)
        definition = self.draft.definitions[number]
        if definition.body is not None:
            self.refuse(f"{name.text} is defined more than once", name)
        definition.begin, definition.end = token.begin, name.begin + len(name.text)
        key = ("common", token.text)
        pattern = self.draft.number(key, token.text, "common", token.begin)
        definition.body = Call(pattern)
        definition.references.append((pattern, token.begin))
