"""Deltas of OpenAI's API, put together: the message that a client without a stream receives."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from logitkit_adapters.serving.answer_reader import Delta

__all__ = ["Message"]


class Message:
    """A message that grows by deltas.

    Example:
        >>> message = Message()
        >>> message.add([{"content": "Hello"}, {"content": " you"}])
        >>> message.body()
        {'role': 'assistant', 'content': 'Hello you'}
    """

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}
        self.tool_calls: list[dict[str, Any]] = []
        self._arguments: list[list[str]] = []

    def add(self, deltas: Iterable[Delta]) -> None:
        """Add deltas, in order."""
        for delta in deltas:
            for name, value in delta.items():
                if name == "tool_calls":
                    self._add_calls(value)
                else:
                    self._texts.setdefault(name, []).append(value)

    def _add_calls(self, calls: Iterable[dict[str, Any]]) -> None:
        for call in calls:
            if call["index"] == len(self.tool_calls):
                named = {"name": call["function"]["name"], "arguments": ""}
                self.tool_calls.append({"id": call["id"], "type": call["type"], "function": named})
                self._arguments.append([])
            self._arguments[call["index"]].append(call["function"]["arguments"])

    def text(self, name: str = "content") -> str:
        """Return a text of the message, such as its content."""
        return "".join(self._texts.get(name, ()))

    def body(self) -> dict[str, Any]:
        """Return the message as OpenAI's clients read it."""
        for call, arguments in zip(self.tool_calls, self._arguments, strict=True):
            call["function"]["arguments"] = "".join(arguments)
        texts = {name: self.text(name) for name in self._texts if name != "content"}
        found = {"role": "assistant", "content": self.text() or (None if self.tool_calls else ""), **texts}
        return {**found, "tool_calls": self.tool_calls} if self.tool_calls else found
