"""Pairs of ends of values between tags, languages and formats with them, and an independent reader of their texts."""

from __future__ import annotations

from typing import Any

from logitkit import ToolFormat
from logitkit.languages import Language, xml_arguments

__all__ = ["ENDS", "form_of", "language_of", "plain_reading", "tool"]

# The end that is written, the other end, and the text between two members.
ENDS = {
    "short too": ("\n</parameter>", "</parameter>", "\n"),
    "long too": ("</parameter>", "\n</parameter>", "\n"),
    "line feed after": ("\n</parameter>\n", "</parameter>\n", ""),
    "much longer too": ("</parameter>", "\n\n</parameter>\n", "\n"),
    "unlike": (" </parameter>", "\n</parameter>", "\n"),
}


def language_of(schema: Any, ends: str) -> Language:
    end, also, separator = ENDS[ends]
    return xml_arguments(schema, end=end, end_also=also, separator=separator)


def form_of(ends: str) -> ToolFormat:
    end, also, _ = ENDS[ends]
    return ToolFormat(
        name="own",
        call_begin="<call>",
        name_end="\n",
        call_end="</call>",
        trigger="<call>",
        arguments="xml",
        parameter_end=end,
        parameter_end_also=also,
    )


def tool(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return {"type": "function", "function": {"name": "f", "description": "A function.", "parameters": schema}}


def plain_reading(text: str, ends: str) -> list[tuple[str, str]] | None:
    """Read the members of a call with `str.split`; None if there is something else."""
    end, also, _ = ENDS[ends]
    members = []
    while text:
        if not text.startswith("<parameter=") or ">\n" not in text or "</parameter>" not in text:
            return None
        name, text = text.removeprefix("<parameter=").split(">\n", 1)
        value, text = text.split("</parameter>", 1)
        for one in sorted((end, also), key=lambda one: one.index("<"), reverse=True):
            before, after = one.split("</parameter>")
            if value.endswith(before):
                break
        else:
            return None
        if not text.startswith(after):
            return None
        members.append((name, value.removesuffix(before)))
        text = text.removeprefix(after)
    return members
