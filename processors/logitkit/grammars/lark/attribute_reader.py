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
            if self.here.text == "=" and self.tokens[self.at + 1].text in ('""', '""i'):
                # The rule ends at EOS, so it is not lazy.
                self.at += 2
                return replace(found, is_greedy=True)
            return replace(found, is_lazy=True, suffix=self.read_marker(token), is_stop=True)
        if token.text == "stop_capture":
            return replace(found, marker_name=self.read_capture("stop_capture"))
        if token.text == "max_tokens":
            return replace(found, max_tokens=self.read_number(token, "tokens", 0))
        return replace(found, max_chars=self.read_number(token, "characters", 1))

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

    def read_number(self, token: LarkToken, unit: str, least: int) -> int:
        """Read the largest number of characters or tokens."""
        if not self.takes("="):
            self.refuse(f"{token.text} needs a number, as in {token.text}=100", token)
        number = self.here
        found = self.integer(f"the largest number of {unit}")
        if found < least:
            self.refuse(f"{token.text} must be at least {least}", number)
        return found
