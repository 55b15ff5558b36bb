"""Descriptions from docstrings in Google style: that of a function, and those of its arguments."""

from __future__ import annotations

import inspect
import re

__all__ = ["described"]

_SECTION = re.compile(r"^[A-Z][A-Za-z ]*:\s*$")
_ARGUMENT = re.compile(r"^(\*{0,2}\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")


def described(text: str | None) -> tuple[str, dict[str, str]]:
    """Return the description in a docstring, and those of its arguments.

    Args:
        text: The docstring, or None.

    Example:
        >>> described('''Find a city.
        ...
        ...     Args:
        ...         name: The name of the city,
        ...             in any language.
        ...         limit (int): The most results.
        ...
        ...     Returns:
        ...         The cities.
        ...     ''')
        ('Find a city.', {'name': 'The name of the city, in any language.', 'limit': 'The most results.'})
    """
    lines = inspect.cleandoc(text or "").splitlines()
    first = next((i for i, line in enumerate(lines) if _SECTION.match(line)), len(lines))
    found: dict[str, str] = {}
    section, indent, name = "", 0, ""
    for line in lines[first:]:
        if _SECTION.match(line):
            section, indent, name = line.strip().rstrip(":"), 0, ""
            continue
        if section not in ("Args", "Arguments", "Parameters") or not line.strip():
            continue
        width = len(line) - len(line.lstrip())
        indent = indent or width
        argument = _ARGUMENT.match(line.strip()) if width <= indent else None
        if argument:
            name = argument[1].lstrip("*")
            found[name] = argument[2].strip()
        elif name:
            found[name] = f"{found[name]} {line.strip()}".strip()
    return "\n".join(lines[:first]).strip(), found
