"""Build the description of the project on PyPI from README.md: its links and pictures get whole addresses.

In the repository, links name files. PyPI would look for these files on its own server.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

# A link or a picture of Markdown whose target is neither an address nor a place on the same page.
RELATIVE = re.compile(r"(!?)(\[[^\]]*\])\((?![a-z]+:|#)([^)\s]+)\)")


def absolute(text: str, repository: str) -> str:
    """Return the text with whole addresses: of the page on GitHub for a link, and of the file itself for a picture."""
    files = repository.replace("https://github.com/", "https://raw.githubusercontent.com/")
    roots = {"": f"{repository}/blob/main", "!": f"{files}/main"}
    return RELATIVE.sub(lambda found: f"{found[1]}{found[2]}({roots[found[1]]}/{found[3]})", text)


class Readme(MetadataHookInterface):
    """Fills in `readme`, which pyproject.toml declares as dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the description to the metadata of the project."""
        text = Path(self.root, "README.md").read_text("utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": absolute(text, metadata["urls"]["Repository"]),
        }
