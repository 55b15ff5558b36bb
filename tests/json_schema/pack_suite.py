"""Put the official suite, or its cases of formats, into one file.

`python -m tests.json_schema.pack_suite FOLDER/json/tests`, or with `--formats` and the folder `tests` of a checkout.
"""

from __future__ import annotations

import json
import lzma
import sys
from pathlib import Path

from tests.json_schema.official import DRAFTS, FORMAT_DRAFTS, FORMATS, SUITE


def main(folder: Path, formats: bool) -> None:
    """Read the drafts' folders and write `SUITE` or `FORMATS`."""
    drafts, inside, target = (FORMAT_DRAFTS, "optional/format", FORMATS) if formats else (DRAFTS, "", SUITE)
    content = {
        file.relative_to(folder).with_suffix("").as_posix(): json.loads(file.read_text("utf-8"))
        for draft in drafts
        for file in sorted((folder / draft / inside).rglob("*.json"))
    }
    target.write_bytes(lzma.compress(json.dumps(content, separators=(",", ":")).encode(), preset=9))


if __name__ == "__main__":
    main(Path(sys.argv[-1]), "--formats" in sys.argv)
