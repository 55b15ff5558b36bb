"""The generated part of the documentation on configurations: `python -m tests.configuration.published` rewrites it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import logitkit as lk
from logitkit.configuration import KINDS

DOCS = Path(__file__).parents[2] / "docs"
SCHEMA = DOCS / "config.schema.json"
PAGE = DOCS / "configuration.md"
# JSON in a description. As code, or Markdown takes a last {...} of a cell for attributes of the cell, and does not show it.
JSON = re.compile(r"\{(?:[^{}]|\{[^{}]*\})*\}")
BEGIN, END = "<!-- kinds -->\n", "<!-- end of kinds -->\n"


def schema() -> str:
    """Return the schema as it is published."""
    return json.dumps(lk.config_schema(), indent=2) + "\n"


def table() -> str:
    """Return the table of all kinds."""
    lines = ["| key and class | parameters |", "|---|---|"]
    for kind in KINDS.values():
        assert kind.made is not None
        parameters = []
        for name, form in kind.parameters.items():
            left_out = f" (default: `{json.dumps(kind.defaults[name])}`)" if name in kind.defaults else ""
            allowed = JSON.sub(r"`\g<0>`", form.allowed)
            parameters.append(f"`{name}`: {allowed}{left_out}")
        alone = f"; `{kind.main}` may be written alone" if kind.main and not kind.bare else ""
        lines.append(f"| `{kind.name}`<br>`{kind.made.__name__}` | {'; '.join(parameters)}{alone} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """Return the page with the table that is true now."""
    before, rest = PAGE.read_text().split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    SCHEMA.write_text(schema())
    PAGE.write_text(page())
