"""Put the official suite into one file: `python -m tests.json_schema.pack_suite FOLDER/json/tests`."""

from __future__ import annotations

import json
import lzma
import sys
from pathlib import Path

from tests.json_schema.official import DRAFTS, SUITE


def main(folder: Path) -> None:
    """Read the drafts' folders and write `SUITE`."""
    content = {
        file.relative_to(folder).with_suffix("").as_posix(): json.loads(file.read_text("utf-8"))
        for draft in DRAFTS
        for file in sorted((folder / draft).rglob("*.json"))
    }
    SUITE.write_bytes(lzma.compress(json.dumps(content, separators=(",", ":")).encode(), preset=9))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
