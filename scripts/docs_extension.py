"""Prepare docstrings for the reference on the site: examples as highlighted code, and a link to the source.

mkdocstrings shows a section `Examples:` as code. Our docstrings say `Example:`, which it shows as prose, with each `>>>` as three
nested quotations.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import griffe

ROOT = Path(__file__).resolve().parents[1]
REPOSITORY = "https://github.com/logitkit/logitkit"
EXAMPLE = re.compile(r"^Example:$", re.MULTILINE)
SOURCE = re.compile(r"^Source: (.*(?:\n +.*)*)", re.MULTILINE)


class DocstringExtension(griffe.Extension):
    """Rewrites the docstring of every documented object before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Mark examples as such, and link to the code of a class or function."""
        if obj.docstring is None:
            return
        text = EXAMPLE.sub("Examples:", obj.docstring.value)
        # Made a paragraph, since the parser takes "Source:" for the title of a box.
        text = SOURCE.sub(lambda found: "*Source:* " + " ".join(found[1].split()), text)
        if isinstance(obj, griffe.Class | griffe.Function) and obj.lineno and isinstance(obj.filepath, Path):
            path = obj.filepath.resolve().relative_to(ROOT).as_posix()
            first, *rest = text.split("\n\n", 1)
            link = f"[source]({REPOSITORY}/blob/main/{path}#L{obj.lineno}-L{obj.endlineno}){{ .source }}"
            text = "\n\n".join([first, link, *rest])
        obj.docstring.value = text
