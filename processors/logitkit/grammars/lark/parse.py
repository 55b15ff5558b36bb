r"""From the text of a grammar in Lark's syntax to its definitions.

Each string, range and regular expression is a definition of its own, equal ones are one definition, and all trees consist of
calls: after `start: "a" B "a"`, the body of `start` is `Call(1) Call(2) Call(1)`, definition 1 is the string and 2 is `B`. So
rules and terminals are parsed alike.

Here are the lines of a grammar: definitions, directives and imports. `bodies` reads what stands after a colon.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from logitkit.errors import GrammarError
from logitkit.grammars.checks import undefined_rule
from logitkit.grammars.lark.attribute_reader import LarkAttributeReader
from logitkit.grammars.lark.attributes import Attributes
from logitkit.grammars.lark.bodies import ITEMS, UNSUPPORTED
from logitkit.grammars.lark.draft import Draft, LarkDefinition
from logitkit.grammars.lark.literals import COMMON
from logitkit.grammars.lark.numbers import conditional_alternatives, without_textless
from logitkit.grammars.lark.templates import MAX_LEVELS, NumberUse, Template, TemplateUse
from logitkit.grammars.lark.tokens import LarkToken
from logitkit.grammars.named import NamedGrammar
from logitkit.limits import Limits
from logitkit.patterns.syntax import Call

__all__ = ["parse_lark"]


def parse_lark(grammar: str, limits: Limits, named: Sequence[NamedGrammar] = ()) -> Draft:
    """Parse a grammar, given those that it may refer to. Names that are used and not defined have no body in the result.

    Raises:
        GrammarError: The text is not a grammar in Lark's syntax, or uses something that is not supported.
        PatternTooLarge: It is longer than the limits allow.
    """
    return _LarkParser(grammar, limits, named).run()


# The costs of a use of a template, and of a token of the template, which is read again for each use.
_USE_STEPS, _TOKEN_STEPS = 500, 30


# Ends a body that is read again.
_END = LarkToken("end", "", 0)


# Options of LLGuidance and XGrammar with the values that agree with how grammars are read here.
_OPTIONS = {
    "allow_initial_skip": (False, True),
    "allow_invalid_utf8": (False,),
    "ignore_once": (False,),
    "no_forcing": (False, True),
}


class _LarkParser(LarkAttributeReader):
    def __init__(self, grammar: str, limits: Limits, named: Sequence[NamedGrammar] = ()) -> None:
        super().__init__(grammar, limits, named)
        self.templates: dict[str, Template] = {}
        self.numbered: dict[str, Template] = {}

    def run(self) -> Draft:
        while self.here.kind != "end":
            token = self.take()
            if token.kind == "directive":
                self.read_directive(token)
            elif token.kind == "options":
                self.check_options(token)
            elif token.kind in ("modifier", "rule", "terminal"):
                self.read_definition(token)
            elif token.kind != "newline":
                hint = "; a rule continues on the next line only with |" if token.kind in ITEMS else ""
                self.refuse(f"a line begins with a name and a colon, with |, or with %{hint}", token)
        # The list grows while templates are read that use templates.
        for use in self.uses:
            if isinstance(use, NumberUse):
                self.read_number_use(use)
            else:
                self.read_use(use)
        self.check_arguments()
        made = {use.number for use in self.uses if isinstance(use, NumberUse)}
        if made and (textless := without_textless(self.draft.definitions, made)) is not None:
            reason = f"the rule {textless.name} has no finite text: it needs a rule with a parameter that has none"
            raise GrammarError(reason, self.grammar, textless.begin)
        return self.draft

    def read_definition(self, token: LarkToken) -> None:
        if token.kind == "modifier":
            token = self.expect("rule", "the name of a rule")
        if self.here.text == "{":
            self.read_template(token)
            return
        if self.here.text == "::":
            self.read_numbered(token)
            return
        attributes, capture = self.read_attributes(token) if self.here.text == "[" else (Attributes(), None)
        if self.here.text in ("::=", "="):
            hint = "; this looks like GBNF: pass syntax='gbnf'" if self.here.text == "::=" else ""
            self.refuse(f"a definition is written with a colon, as in `name: ...`{hint}", self.here)
        number = self.draft.number(token.text, token.text, token.kind, token.begin)
        definition = self.draft.definitions[number]
        if definition.body is not None or token.text in self.templates or token.text in self.numbered:
            self.refuse(f"{token.text} is defined more than once; join the definitions with |", token)
        if self.takes("."):
            definition.priority = self.integer("a priority, an integer,")
        self.expect("sign", "the colon of a definition, as in `name: ...`,", ":")
        definition.begin, definition.capture = token.begin, capture
        if attributes == Attributes():
            self.read_body(definition)
            return
        terminal_number = self.draft.number(("attributes", token.text), token.text, "terminal", token.begin)
        terminal = self.draft.definitions[terminal_number]
        terminal.attributes, terminal.priority = attributes, definition.priority
        marker = [] if attributes.suffix is None else self.references
        self.read_body(terminal)
        terminal.references += marker
        definition.body, definition.end = Call(terminal_number), terminal.end
        definition.references.append((terminal_number, token.begin))

    def read_template(self, token: LarkToken) -> None:
        """Read the parameters of a template. Its body is read for each use."""
        opening, parameters = self.take(), list[str]()
        if token.kind != "rule":
            self.refuse(f"the terminal {token.text} has parameters; only rules, in lower case, may have some", opening)
        while not parameters or self.takes(","):
            parameter = self.expect("rule", "the name of a parameter, in lower case,")
            if parameter.text in parameters:
                self.refuse(f"{token.text} has two parameters {parameter.text}", parameter)
            parameters.append(parameter.text)
        self.expect("sign", "a comma, or } after the parameters of a template,", "}")
        self.templates[token.text] = self.template(token, tuple(parameters))

    def read_numbered(self, token: LarkToken) -> None:
        """Read `name::_`. The body is read for each use."""
        opening = self.take()
        if token.kind != "rule":
            self.refuse(f"the terminal {token.text} has a parameter; only rules, in lower case, may have one", opening)
        self.expect("underscore", "the parameter _, as in name::_: ...,")
        if self.here.text == "[":
            self.refuse(
                f"{token.text} has a parameter, so it has no attributes; give them to a rule that uses it", self.here
            )
        self.numbered[token.text] = self.template(token, ("_",))

    def template(self, token: LarkToken, parameters: tuple[str, ...]) -> Template:
        """Read the rest of a definition with parameters, up to its end."""
        known = self.draft.numbers.get(token.text)
        is_known = known is not None and self.draft.definitions[known].body is not None
        if token.text in self.templates or token.text in self.numbered or is_known:
            self.refuse(f"{token.text} is defined more than once; join the definitions with |", token)
        if self.takes("."):
            self.integer("a priority, an integer,")
        self.expect("sign", "the colon of a definition, as in `name: ...`,", ":")
        found = Template(token.text, parameters, token.begin, self.at)
        nesting = 0
        while self.here.kind != "end":
            inside = self.take()
            nesting += (inside.text in ("(", "[")) - (inside.text in (")", "]")) if inside.kind == "sign" else 0
            if inside.kind == "newline" and nesting <= 0 and not self.continues():
                break
        return replace(found, end=self.at)

    def read_use(self, use: TemplateUse) -> None:
        """Read the body of a template with the arguments of a use."""
        name, template = use.token.text, self.templates.get(use.token.text)
        if template is None:
            undefined = undefined_rule(name, self.templates, self.grammar, use.token.begin)
            self.refuse(undefined.reason.replace("rule", "template", 1), use.token)
        wanted, given = len(template.parameters), len(use.arguments)
        if wanted != given:
            names = ", ".join(template.parameters)
            self.refuse(
                f"the template {name} has {wanted} parameters ({names}), and {given} arguments are given", use.token
            )
        if use.level > MAX_LEVELS:
            reason = f"the template {name} arises from more than {MAX_LEVELS} other uses of templates"
            reason = f"{reason}; one that uses itself needs the same arguments"
            self.refuse(reason, use.token)
        self.limits.check_states(len(self.uses))
        self.bindings, self.level = dict(zip(template.parameters, use.arguments, strict=True)), use.level
        self.at = template.at
        definition = self.draft.definitions[use.number]
        definition.begin = template.begin
        self.read_body(definition)
        self.limits.spend(_USE_STEPS + _TOKEN_STEPS * (self.at - template.at))

    def read_number_use(self, use: NumberUse) -> None:
        """Read the alternatives of a rule with a number as parameter, for one number."""
        name, template = use.token.text, self.numbered.get(use.token.text)
        if template is None:
            undefined = undefined_rule(name, self.numbered, self.grammar, use.token.begin)
            self.refuse(undefined.reason.replace("rule", "rule with a parameter", 1), use.token)
        self.limits.check_states(len(self.uses))
        self.limits.spend(_USE_STEPS + _TOKEN_STEPS * (template.end - template.at))
        definition = self.draft.definitions[use.number]
        definition.begin = template.begin
        every, self.tokens, self.at = self.tokens, [*self.tokens[template.at : template.end], _END], 0
        tokens = conditional_alternatives(self, 0, use.value)
        if tokens:
            self.tokens, self.at, self.value = [*tokens, _END], 0, use.value
            self.read_body(definition)
        self.tokens, self.value = every, None
        # The body ends where the template does, whichever alternatives are left.
        last = self.tokens[template.end - 1].begin
        definition.end = definition.begin + len(self.grammar[definition.begin : last].rstrip())

    def check_arguments(self) -> None:
        """Raise for a template without arguments, and list those that are not used."""
        bare = {self.draft.numbers[name]: name for name in self.numbered if name in self.draft.numbers}
        for definition in self.draft.definitions if bare else ():
            for used, position in definition.references:
                if used in bare:
                    reason = f"the rule {bare[used]} has a parameter; give it a number, as in {bare[used]}::0"
                    raise GrammarError(reason, self.grammar, position)
        bare = {self.draft.numbers[name]: name for name in self.templates if name in self.draft.numbers}
        for definition in self.draft.definitions if bare else ():
            for used, position in definition.references:
                if used in bare:
                    parameters = ", ".join(self.templates[bare[used]].parameters)
                    reason = f"{bare[used]} is a template; write its arguments, as in {bare[used]}{{{parameters}}}"
                    raise GrammarError(reason, self.grammar, position)
        used_names = {use.token.text for use in self.uses}
        self.draft.unused += [name for name in (*self.templates, *self.numbered) if name not in used_names]

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

    def check_options(self, token: LarkToken) -> None:
        """Check that options of LLGuidance or XGrammar do not ask for other texts than those that are allowed anyway."""
        try:
            options = json.loads(token.text, parse_int=float)
        except RecursionError:
            self.refuse("the options are nested too deeply", token)
        for name, value in options.items():
            if name not in _OPTIONS:
                allowed = ", ".join(_OPTIONS)
                self.refuse(f"{name} is not an option of a grammar that can be honoured; allowed are {allowed}", token)
            if not isinstance(value, bool) or value not in _OPTIONS[name]:
                allowed = " and ".join(json.dumps(option) for option in _OPTIONS[name])
                self.refuse(f"the option {name} is {json.dumps(value)[:50]}; allowed is {allowed}", token)
            if name == "allow_initial_skip":
                # The last one counts, as in LLGuidance. In XGrammar, one true value is enough.
                self.draft.ignored_first = value

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
