"""Reads the attributes of a rule, as in `head[lazy, capture="name"]: ...`."""

from __future__ import annotations

from dataclasses import replace

from logitkit.grammars.lark.attributes import KNOWN, LIST_PREFIX, REFUSED, Attributes
from logitkit.grammars.lark.bodies import LarkBodyReader
from logitkit.grammars.lark.tokens import LarkToken
from logitkit.patterns.syntax import Call

__all__ = ["LarkAttributeReader"]


class LarkAttributeReader(LarkBodyReader):
    """Reads bodies and attributes into a draft."""

    def read_attributes(self, name: LarkToken) -> tuple[Attributes, str | None]:
        """Read the attributes of a rule, and the name under which its text is captured."""
        opening, found, seen, capture = self.take(), Attributes(), set[str](), None
        if name.kind != "rule":
            self.refuse(f"the terminal {name.text} has attributes; only rules, in lower case, may have some", opening)
        while not seen or self.takes(","):
            token = self.take()
            if token.text in REFUSED:
                self.refuse(REFUSED[token.text], token)
            if token.kind != "rule" or token.text not in KNOWN:
                self.refuse(f"an attribute of a rule is one of {', '.join(KNOWN)}", token)
            if token.text in seen:
                self.refuse(f"the attribute {token.text} is given twice", token)
            seen.add(token.text)
            if token.text == "capture":
                capture = self.read_capture("capture") if self.here.text == "=" else name.text
            else:
                found = self.with_attribute(token, found)
        if {"stop", "suffix"} <= seen:
            self.refuse("a rule has one marker, so stop and suffix cannot be given together", opening)
        if "stop_capture" in seen and not {"stop", "suffix"} & seen:
            self.refuse(
                "stop_capture names a marker; give one with suffix= or stop=, or leave stop_capture out", opening
            )
        self.expect("sign", "a comma, or ] after the attributes of a rule,", "]")
        return found, capture

    def with_attribute(self, token: LarkToken, found: Attributes) -> Attributes:
        """Read the value of an attribute, and add it to others."""
        if token.text == "lazy":
            return replace(found, is_lazy=True)
        if token.text == "suffix":
            return replace(found, is_lazy=True, suffix=self.read_marker(token))
        if token.text == "stop":
            return replace(found, is_lazy=True, suffix=self.read_marker(token), is_stop=True)
        if token.text == "stop_capture":
            return replace(found, marker_name=self.read_capture("stop_capture"))
        return replace(found, max_chars=self.read_max_chars(token))

    def read_capture(self, attribute: str) -> str:
        """Read the name of a capture."""
        self.expect("sign", f'a name, as in {attribute}="name",', "=")
        token = self.expect("string", f'a name, as in {attribute}="name",')
        name = token.text[1:-1].removeprefix(LIST_PREFIX)
        if not name or token.text.endswith("i") or "\\" in name:
            self.refuse("the name of a capture has at least one character, no escapes and no flags", token)
        return name

    def read_marker(self, token: LarkToken) -> int:
        """Read the marker of the attribute suffix or stop."""
        if not self.takes("="):
            self.refuse(f'{token.text} needs a marker, as in {token.text}="</end>"', token)
        marker = self.take()
        if marker.kind not in ("string", "regexp", "terminal"):
            self.refuse("a marker is a string, a regular expression or a terminal", marker)
        if marker.text in ('""', '""i'):
            self.refuse(
                f"the marker is empty; leave {token.text} out, and write lazy to end the rule as soon as it can", marker
            )
        self.references, self.is_rule = [], False
        found = self.item(marker)
        assert isinstance(found, Call)
        return found.rule

    def read_max_chars(self, token: LarkToken) -> int:
        """Read the number of the attribute max_chars."""
        if not self.takes("="):
            self.refuse("max_chars needs a number, as in max_chars=100", token)
        number = self.here
        found = self.integer("the largest number of characters")
        if found < 1:
            self.refuse("max_chars must be at least 1", number)
        return found
