"""The messages and tools with which a chat template is asked how it writes calls."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "ANSWER",
    "FIRST",
    "FOLLOWING",
    "FULL",
    "IDS",
    "LONG_IDS",
    "MARKUP",
    "NAMED_IDS",
    "NAMES",
    "PREAMBLE",
    "REASONING",
    "SECOND",
    "STRING",
    "TOOLS",
    "UPPER",
    "USER",
    "VALUES",
    "Conversation",
    "ProbeCall",
]

# Words that no template has in it.
USER, ANSWER, PREAMBLE, REASONING, FOLLOWING = "Zuser7q", "Zanswer7q", "Zbefore7q", "Zthought7q", "Znext7q"
NAMES = ("zq_alpha", "vk_beta", "wj_gamma")
# The third comes after the first in an order that ignores case, and before it otherwise.
FIRST, SECOND, UPPER = "pxa", "pyb", "Pzc"
STRING = "Zv\"1'\\é"
# A value of each kind other than strings, by the name of the argument.
VALUES: Mapping[str, Any] = {
    "pobject": {"zk": [1, None, True, "Zw"], "zf": 0.5},
    "plist": ["Zé", 5, False],
    "pinteger": 170141,
    "pnumber": -2.5,
    "ptrue": True,
    "pfalse": False,
    "pnull": None,
}
# Mistral's templates take ids of nine letters and digits only.
IDS = ("Zi5Qq0KxA", "Zi5Qq0KxB", "Zi5Qq0KxC")
LONG_IDS = ("call_Zi5Qq0Kx-A77", "call_Zi5Qq0Kx-B77", "call_Zi5Qq0Kx-C77")
# An id from which some templates take the name, as Kimi's do.
NAMED_IDS = tuple(f"functions.{name}:{number}" for number, name in enumerate(NAMES))
# Characters for which templates may put a string into a CDATA section.
MARKUP = ("<", ">", "&", "\n")
FULL: Mapping[str, Any] = {FIRST: STRING, **VALUES}

# Templates that describe tools know few keywords of schemas, and some need those that they know.
_SCHEMAS: Mapping[str, Any] = {
    "pobject": {
        "type": "object",
        "properties": {"zk": {"type": "array", "items": {"type": "string"}}},
        "additionalProperties": {"type": "string"},
    },
    "plist": {"type": "array", "items": {"type": "string"}},
    "pinteger": {"type": "integer"},
    "pnumber": {"type": "number"},
    "ptrue": {"type": "boolean"},
    "pfalse": {"type": "boolean"},
    "pnull": {"type": "integer"},
}
_MEMBERS = {
    FIRST: {"type": "string", "description": "A text."},
    SECOND: {"type": "string", "description": "Another text."},
    UPPER: {"type": "string", "description": "One more text."},
    **{name: {**schema, "description": "A value."} for name, schema in _SCHEMAS.items()},
}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "A tool.",
            "parameters": {"type": "object", "properties": _MEMBERS, "required": []},
        },
    }
    for name in NAMES
]


@dataclass(frozen=True)
class ProbeCall:
    """A call that is rendered."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Conversation:
    """A question and a turn of the assistant, as the variables of a template.

    Args:
        calls: The calls of the turn.
        content: Its text.
        reasoning: Its reasoning.
        reasoning_key: The key of the reasoning in a message.
        ids: The ids of the calls.
        is_prompt: Whether the turn is still to be written.
        as_parts: Whether texts are lists of parts, as for models that read pictures.
        is_flat: Whether a call has its name and arguments directly, not in a `function`.
        is_followed: Whether another question follows. Some templates take a turn that comes last for one that is to be continued.
        tools: The tools.
    """

    calls: Sequence[ProbeCall] = ()
    content: str | None = ""
    reasoning: str | None = None
    reasoning_key: str = "reasoning_content"
    ids: Sequence[str] = IDS
    is_prompt: bool = False
    as_parts: bool = False
    is_flat: bool = False
    is_followed: bool = False
    tools: Sequence[Mapping[str, Any]] = field(default_factory=lambda: TOOLS, repr=False)

    def variables(self, as_text: bool, special: Mapping[str, str]) -> dict[str, Any]:
        """Return the variables of a template.

        Args:
            as_text: Whether arguments are given as JSON text, as in OpenAI's interface, or as a dict.
            special: `bos_token` and `eos_token`.
        """
        messages: list[dict[str, Any]] = [{"role": "user", "content": self._content(USER)}]
        if not self.is_prompt:
            turn: dict[str, Any] = {"role": "assistant", "content": self._content(self.content)}
            if self.calls:
                turn["tool_calls"] = [
                    self._call(call, self.ids[number % len(self.ids)], as_text)
                    for number, call in enumerate(self.calls)
                ]
            if self.reasoning is not None:
                turn[self.reasoning_key] = self.reasoning
            messages.append(turn)
            if self.is_followed:
                messages.append({"role": "user", "content": self._content(FOLLOWING)})
        return {
            "messages": messages,
            "tools": list(self.tools),
            # Older templates have another name for them, and take a text; some ask for the time.
            "functions": json.dumps(list(self.tools)),
            "datetime": "2025-01-01",
            "add_generation_prompt": self.is_prompt,
            **special,
        }

    def _content(self, text: str | None) -> Any:
        return [{"type": "text", "text": text or ""}] if self.as_parts else text

    def _call(self, call: ProbeCall, id_: str, as_text: bool) -> dict[str, Any]:
        given = dict(call.arguments)
        arguments: Any = json.dumps(given, ensure_ascii=False) if as_text else given
        function = {"name": call.name, "arguments": arguments}
        return {"id": id_, **function} if self.is_flat else {"id": id_, "type": "function", "function": function}
