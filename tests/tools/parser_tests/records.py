"""Stand-ins for requests and results in the tests of other projects, for texts around calls, and for tokenizers."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar


class AnyText(str):
    """A text that is equal to any text, and contains any text: to judge the calls alone."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return other is None or isinstance(other, str)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __contains__(self, part: object) -> bool:
        return True

    def __add__(self, other: object) -> AnyText:
        return self

    __radd__ = __add__

    def strip(self, characters: str | None = None) -> AnyText:
        return self

    lstrip = rstrip = strip

    def startswith(self, *_: object) -> bool:
        return True

    endswith = startswith


class JsonText(str):
    """A text of JSON, equal to another that says the same."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, str):
            return False
        try:
            return same_json(json.loads(self), json.loads(other))
        except ValueError:
            return str(self) == str(other)

    def __ne__(self, other: object) -> bool:
        return not self == other


def same_json(first: Any, second: Any) -> bool:
    """Whether two values are the same in JSON; true is not 1."""
    return json.dumps(first, sort_keys=True) == json.dumps(second, sort_keys=True)


_IDS = itertools.count()


def fresh_id() -> str:
    """Return an id of a call, such as servers make up."""
    return f"chatcmpl-tool-{next(_IDS):016x}"


class Record:
    """A class of requests or results: it has the members that it is given, and the others are None."""

    defaults: ClassVar[dict[str, Any]] = {}

    def __init__(self, *_: Any, **members: Any) -> None:
        self.__dict__.update(self.defaults | members)
        if type(self).__name__ == "ToolCall":
            self.__dict__.setdefault("id", fresh_id())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    __hash__ = object.__hash__

    def __class_getitem__(cls, _: Any) -> type:
        return cls

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.__dict__})"

    @classmethod
    def model_validate(cls, given: Any) -> Record:
        """Return a record with the members of a dict."""
        return cls(**given)


_DEFAULTS: dict[str, dict[str, Any]] = {
    "ToolCall": {"type": "function"},
    "StreamingParseResult": {"normal_text": "", "calls": []},
    "DeltaMessage": {"tool_calls": []},
}


@cache
def record(name: str) -> type[Record]:
    """Return the class of requests or results with a name, the same for all modules."""
    return type(name, (Record,), {"defaults": _DEFAULTS.get(name, {})})


class Characters:
    """A tokenizer whose tokens are characters."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    @classmethod
    def from_pretrained(cls, *_: Any, **__: Any) -> Characters:
        """Return the tokenizer, for any model."""
        return cls()

    def encode(self, text: str, **_: Any) -> list[int]:
        """Return the code points of a text."""
        return [*map(ord, text)]

    def decode(self, ids: Sequence[int] | int, **_: Any) -> str:
        """Return the text of code points."""
        return "".join(map(chr, [ids] if isinstance(ids, int) else ids))

    def tokenize(self, text: str, **_: Any) -> list[str]:
        """Return the characters of a text."""
        return [*text]

    def get_vocab(self) -> dict[str, int]:
        """Return no tokens: parsers look here for special tokens."""
        return {}

    def add_tokens(self, tokens: Sequence[str], **_: Any) -> int:
        """Add nothing: texts hold special tokens by name."""
        return 0

    vocab = property(get_vocab)
