"""Where each project keeps the tests of its parsers, and what stands in for its modules there."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

from tests.tools.parser_tests.stand_in_modules import StandIns, attributes_of
from tests.tools.parser_tests.watched_responses import watched
from tests.tools.parser_tests.watching import Watch

# The folders and files with tests, and the packages that are replaced.
PLACES = {
    "vllm": ("tests/tool_parsers", "tests/tool_use"),
    "sglang": ("test/registered/unit/function_call", "test/registered/function_call"),
    "mlx-lm": ("tests/test_tool_parsing.py",),
    "transformers": ("tests/utils/test_chat_parsing.py",),
}
PACKAGES = {
    "vllm": ("vllm", "openai", "partial_json_parser", "transformers", "xgrammar"),
    "sglang": ("sglang", "openai", "transformers", "xgrammar"),
    "mlx-lm": ("mlx_lm",),
    "transformers": (),
}


def test_files(suite: str, folder: Path) -> list[Path]:
    """Return the files with tests of a project."""
    found: list[Path] = []
    for place in (folder / one for one in PLACES[suite]):
        found += [place] if place.is_file() else sorted(place.glob("test_*.py"))
    return found


def prepare(suite: str, folder: Path, watch: Watch) -> None:
    """Put modules in the place of those of a project."""
    sys.meta_path.insert(0, StandIns(PACKAGES[suite], attributes_of(watch, suite, folder)))
    # vLLM's tests import each other as `tests.tool_parsers`.
    import tests

    tests.__path__.append(str(folder / "tests"))
    if suite == "transformers":
        # Tests that ask for a tokenizer of the hub fail at once.
        os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
        parsing: Any = importlib.import_module("transformers.utils.chat_parsing")
        parsing.parse_response = watched(parsing.parse_response, watch)
