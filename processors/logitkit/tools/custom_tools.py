"""Custom tools, as OpenAI has them: one argument, a text, which a grammar or a pattern may describe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from logitkit.errors import ConfigurationError, GrammarError
from logitkit.languages.grammars import GrammarText, grammar

__all__ = ["INPUT", "custom_input"]

# The name of the argument.
INPUT = "input"

_ALLOWED = (
    '{"type": "text"} and {"type": "grammar", "grammar": {"syntax": "lark", "definition": ...}}, where the syntax may also be '
    '"regex"'
)


def custom_input(tool: Mapping[Any, Any], place: str) -> tuple[dict[str, Any], str, GrammarText | None]:
    """Return the schema of the arguments of a custom tool, what to add to its description, and its grammar if it has one.

    Args:
        tool: The value of `custom`, or a whole tool whose fields are not in such a value.
        place: Its path, for errors.

    Raises:
        ConfigurationError: Its format is not such a format.
        GrammarError: Its grammar is not valid.
    """
    form, place = tool.get("format") or {"type": "text"}, f"{place}['format']"
    text: dict[str, Any] = {"type": "string"}
    about, rules = "", None
    if not isinstance(form, Mapping) or form.get("type") not in ("text", "grammar"):
        raise ConfigurationError(f"{place} is {str(form)[:200]}; allowed are {_ALLOWED}")
    if form["type"] == "grammar":
        inside = form.get("grammar", form)
        syntax, definition = (
            (inside.get("syntax"), inside.get("definition")) if isinstance(inside, Mapping) else (None, None)
        )
        if syntax not in ("lark", "regex") or not isinstance(definition, str):
            raise ConfigurationError(f"{place} is {str(form)[:200]}; allowed are {_ALLOWED}")
        about = f"The {INPUT} matches this {'pattern' if syntax == 'regex' else 'Lark grammar'}:\n{definition}"
        if syntax == "regex":
            text["pattern"] = f"^(?:{definition})$"
        else:
            try:
                rules = grammar(definition, "lark")
            except GrammarError as error:
                raise GrammarError(f"{place}: {error.reason}", error.grammar, error.position) from None
    parameters = {"type": "object", "properties": {INPUT: text}, "required": [INPUT], "additionalProperties": False}
    return parameters, about, rules
