"""Sections of reasoning in plain Python: all texts are compared with the whole text so far, and tokens are tried one by one."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field

import logitkit as lk
from logitkit.vocabulary import Marker

# In a text as a list of numbers, a byte is its value, and a token without text is this number plus its id.
FIRST_TOKEN = 256
NEVER_CLOSED = 2**31 - 1


@dataclass(frozen=True)
class Options:
    """The arguments of a `ThinkingBudget`, in any form that it takes."""

    max_tokens: int
    end: tuple[Marker, ...]
    start: Marker | None = None
    message: str | None = None
    grace: int = 0
    grace_at: tuple[str, ...] = ("\n", ".")
    min_tokens: int = 0
    pause: tuple[tuple[Marker, Marker], ...] = ()

    def budget(self, vocabulary: lk.Vocabulary) -> lk.ThinkingBudget:
        end = self.end[0] if len(self.end) == 1 else [*self.end]
        return lk.ThinkingBudget(
            self.max_tokens,
            end,
            vocabulary,
            self.start,
            self.message,
            self.grace,
            self.grace_at,
            self.min_tokens,
            self.pause,
        )


@dataclass
class Section:
    """One row, and where it is.

    Args:
        options: The budget.
        vocabulary: The tokens.
        where: "outside", "open", the number of a pause, or "finished".
        text: The bytes, and the tokens without text, since the last marker.
        spent: How many tokens count.
        closed_at: From which number of tokens on the end is forced, whatever the budget.
    """

    options: Options
    vocabulary: lk.Vocabulary
    where: str | int = "outside"
    text: list[int] = field(default_factory=list)
    spent: int = 0
    closed_at: int = NEVER_CLOSED

    @classmethod
    def after_prompt(cls, options: Options, vocabulary: lk.Vocabulary, prompt: Sequence[int]) -> Section:
        row = cls(options, vocabulary, "open" if options.start is None else "outside")
        for token in prompt if options.start is not None else ():
            if token < vocabulary.size and token not in vocabulary.eos_ids:
                row.read(token)
        row.spent, row.closed_at = 0, NEVER_CLOSED
        return row

    # Markers.

    def token_of(self, marker: Marker | None) -> int | None:
        """Return the token that a marker is, or that has its name."""
        if isinstance(marker, str | bytes):
            return self.vocabulary.special.get(marker if isinstance(marker, str) else marker.decode(errors="replace"))
        return marker  # type: ignore[return-value]

    def ends_with(self, marker: Marker | None) -> bool:
        """Whether the text ends with a marker. Tokens without text that it does not name are passed over."""
        if not isinstance(marker, str | bytes):
            return False
        raw = marker.encode() if isinstance(marker, str) else marker
        names = {
            name.encode(): token
            for name, token in self.vocabulary.special.items()
            if self.vocabulary.tokens[token] is None and name.encode() in raw and name.encode() != raw
        }
        kept = {FIRST_TOKEN + token for token in names.values()}
        seen = [symbol for symbol in self.text if symbol < FIRST_TOKEN or symbol in kept]
        ways: list[list[int]] = [[]]
        at = 0
        while at < len(raw):
            name = next((name for name in names if raw.startswith(name, at)), None)
            if name is None:
                ways = [[*way, raw[at]] for way in ways]
                at += 1
            else:
                ways = [[*way, *more] for way in ways for more in ([*name], [FIRST_TOKEN + names[name]])]
                at += len(name)
        return any(seen[-len(way) :] == way for way in ways)

    # Tokens.

    @property
    def is_inside(self) -> bool:
        return self.where == "open" or isinstance(self.where, int)

    def move_to(self, where: str | int) -> None:
        self.where, self.text = where, []

    def by_id(self, token: int) -> bool:
        """Whether a token is a marker by its id or its name, where the row is; then it does what the marker does."""
        options = self.options
        if self.is_inside and any(token == self.token_of(end) for end in options.end):
            self.move_to("outside")
            return True
        if self.where == "outside" and options.start is not None and token == self.token_of(options.start):
            self.move_to("open")
            return True
        if self.where == "open":
            for number, (begin, _) in reversed([*enumerate(options.pause)]):
                if token == self.token_of(begin):
                    self.move_to(number)
                    return True
        if isinstance(self.where, int) and token == self.token_of(options.pause[self.where][1]):
            self.move_to("open")
            return True
        return False

    def say(self, symbol: int) -> None:
        """Read one byte, or one token without text."""
        self.text.append(symbol)
        options = self.options
        if self.where == "outside":
            if self.ends_with(options.start):
                self.move_to("open")
        elif any(self.ends_with(end) for end in options.end):
            self.move_to("outside")
        elif self.where == "open":
            begun = [number for number, (begin, _) in enumerate(options.pause) if self.ends_with(begin)]
            if begun:
                # The longest of them, and then the first.
                self.move_to(max(begun, key=lambda number: (len(self.raw(options.pause[number][0])), -number)))
        elif self.ends_with(options.pause[self.where][1]):  # type: ignore[index]
            self.move_to("open")

    def raw(self, marker: Marker) -> bytes:
        return marker.encode() if isinstance(marker, str) else marker  # type: ignore[return-value]

    def symbols(self, token: int) -> list[int]:
        text = self.vocabulary.tokens[token] if token < len(self.vocabulary.tokens) else None
        return [FIRST_TOKEN + token] if text is None else [*text]

    def read(self, token: int) -> None:
        if self.where == "finished" or token < 0:
            return
        before, forced, over = self.where, self.is_forced, self.is_grace_over
        was_inside = self.is_inside
        if token in self.vocabulary.eos_ids:
            self.where = "finished"
            self.spent = max(self.spent, 1) if forced else 0
            self.closed_at = NEVER_CLOSED
            return
        if not self.by_id(token):
            for symbol in self.symbols(token):
                self.say(symbol)
        if was_inside and self.is_inside:
            self.closed_at = min(self.closed_at, self.spent) if over else self.closed_at
            self.spent += before == "open" and self.where == "open"
        else:
            self.spent, self.closed_at = 0, NEVER_CLOSED

    def close(self) -> None:
        if self.is_inside:
            self.closed_at = min(self.closed_at, self.spent)

    # Masks.

    @property
    def is_grace_over(self) -> bool:
        said = bytes(symbol for symbol in self.text if symbol < FIRST_TOKEN)
        at_end = any(said.endswith(text.encode()) for text in self.options.grace_at)
        return self.where == "open" and self.options.grace > 0 and at_end and self.spent >= self.options.max_tokens

    @property
    def is_forced(self) -> bool:
        late = self.spent >= self.options.max_tokens + self.options.grace or self.spent >= self.closed_at
        return self.where == "open" and (late or self.is_grace_over)

    @property
    def forced(self) -> tuple[bytes, int | None]:
        """The text that is forced, and the token after it, if the marker is one."""
        message, end = (self.options.message or "").encode(), self.options.end[0]
        token = self.token_of(end)
        return (message, token) if token is not None else (message + self.raw(end), None)

    def next_symbols(self) -> list[int]:
        """Return the bytes, or the token, that may come next while the end is forced."""
        text, token = self.forced
        said = bytes(symbol for symbol in self.text if symbol < FIRST_TOKEN)
        done = max(n for n in range(len(text) + (token is not None)) if said.endswith(text[:n]))
        symbol = text[done] if done < len(text) else FIRST_TOKEN + token  # type: ignore[operator]
        options = self.options
        continuing = continuations(said) if options.message is not None or options.grace else []
        if not continuing or symbol in continuing:
            return [symbol]
        found = []
        for byte in continuing:
            row = deepcopy(self)
            row.say(byte)
            if not isinstance(row.where, int):
                found.append(byte)
        return found

    def is_legal_while_forced(self, token: int) -> bool:
        marked = [self.token_of(end) for end in self.options.end]
        marked += [self.token_of(begin) for begin, _ in self.options.pause]
        if [FIRST_TOKEN + token] == self.next_symbols() and self.forced[1] == token:
            return True
        if token in marked or token >= len(self.vocabulary.tokens) or not self.vocabulary.tokens[token]:
            return False
        row = deepcopy(self)
        for byte in self.symbols(token):
            if row.where != "open" or byte not in row.next_symbols():
                return False
            row.say(byte)
        return row.where in ("open", "outside")

    def is_legal_while_held(self, token: int) -> bool:
        """Whether a token completes no end marker, at any of its bytes."""
        if token in [self.token_of(end) for end in self.options.end]:
            return False
        row = deepcopy(self)
        if not row.by_id(token):
            for symbol in self.symbols(token):
                row.say(symbol)
                if row.where == "outside":
                    return False
        return True

    def legal(self) -> set[int]:
        """Return the tokens that are legal next."""
        v = self.vocabulary
        if self.where == "finished":
            return {*v.eos_ids} | (set() if v.pad_id is None else {v.pad_id})
        others = [token for token in range(v.size) if token not in v.eos_ids]
        if self.is_forced:
            return {token for token in others if self.is_legal_while_forced(token)}
        if self.is_inside and self.spent < self.options.min_tokens:
            return {token for token in others if self.is_legal_while_held(token)} | {*v.eos_ids}
        return {*range(v.size)}


def continuations(said: bytes) -> list[int]:
    """Return the bytes that may continue a character of which only the beginning is there."""
    for length in (1, 2, 3):
        begun = said[-length:]
        found = [byte for byte in range(0x80, 0xC0) if _begins(begun + bytes([byte]))]
        if len(begun) == length and found:
            return found
    return []


def _begins(text: bytes) -> bool:
    """Whether bytes are a character or begin one."""
    if len(text) == 1:
        return False
    tails = [b"", b"\x80", b"\xbf", b"\x80\x80", b"\xbf\xbf", b"\x90\x80"]
    for tail in tails:
        try:
            if len((text + tail).decode()) == 1:
                return True
        except UnicodeDecodeError:
            pass
    return False
