"""The examples of the documentation."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]

# A block of Python, indented where it stands in a tab, and the block after it that says what it prints.
BLOCK = re.compile(r"^( *)```python\n(.*?)^\1```\n(?:\n*\1```text\n(.*?)^\1```)?", re.DOTALL | re.MULTILINE)


class Example(NamedTuple):
    """A block of code and, if the page shows it, what it prints."""

    code: str
    printed: str | None


def examples(page: str) -> list[Example]:
    """Return the examples of a page, a path below the root."""
    found = []
    for block in BLOCK.finditer((ROOT / page).read_text("utf-8")):
        printed = None if block[3] is None else textwrap.dedent(block[3])
        found.append(Example(textwrap.dedent(block[2]), printed))
    return found


def pages() -> list[str]:
    """Return all pages that have examples."""
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    names = [path.relative_to(ROOT).as_posix() for path in paths]
    return [name for name in names if examples(name)]
