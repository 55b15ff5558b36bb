"""Tools, vocabularies and token ids for the tests of turns."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

from logitkit import ToolCall, ToolFormat, Tools, Vocabulary
from logitkit.tools.formats import TOOL_FORMATS

EOS = 256


def get_weather(city: str, days: int = 1, unit: Literal["C", "F"] = "C") -> str:
    """Tell the weather.

    Args:
        city: The city.
        days: How many days.
        unit: Celsius or Fahrenheit.
    """
    return f"{city} {days} {unit}"


def ping() -> None:
    """Do nothing."""


def save(note: dict[str, Any], tags: list[str], title: str | None = None) -> None:
    """Save a note."""


TOOLS = [get_weather, ping, save]


@cache
def vocabulary(form: ToolFormat) -> Vocabulary:
    """All bytes, EOS, and the special tokens of a format."""
    tokens = [*(bytes([byte]) for byte in range(256)), None, *[None] * len(form.tokens)]
    return Vocabulary(tokens, eos_ids=[EOS], special={name: EOS + 1 + i for i, name in enumerate(form.tokens)})


def ids_of(text: str, form: ToolFormat) -> list[int]:
    """The ids of a text, in which names of special tokens stand for the tokens."""
    found: list[int] = []
    while text:
        name = next((name for name in form.tokens if text.startswith(name)), None)
        if name is not None:
            found.append(vocabulary(form).special[name])
        else:
            found.extend(text[0].encode())
        text = text.removeprefix(name) if name is not None else text[1:]
    return found


@cache
def tools_of(name: str, choice: str = "auto", parallel: bool = True) -> Tools:
    """The tools in a format, so that each is compiled once."""
    return Tools(TOOLS, TOOL_FORMATS[name], choice=choice, parallel=parallel)


def same(calls: tuple[ToolCall, ...], expected: list[ToolCall]) -> bool:
    """Whether calls are equal, but for where they stand."""
    return [(c.name, c.arguments) for c in calls] == [(c.name, c.arguments) for c in expected]


def accepts(tools: Tools, form: ToolFormat, text: str) -> bool:
    """Whether a text is a complete turn."""
    turn = tools.parse([*ids_of(text, form), EOS], vocabulary(form))
    return turn.outside_at is None
