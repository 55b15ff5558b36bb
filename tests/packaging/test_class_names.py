"""A class name means one thing in the whole project."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Folders in which a name may stand twice: these are compared with the other folders only.
REBUILT = ("processors/logitkit/compiler/", "processors/logitkit/json_schema/")
# To be renamed: this list only shrinks.
KNOWN = {"Moves", "Place", "State"}
# vLLM's sessions share the interface of the other engines, and the public name.
SHARED = {"Session"}


def files_of_classes() -> dict[str, list[str]]:
    """Return where each class name is defined."""
    found = defaultdict(list)
    for root in ("processors", "adapters"):
        for path in sorted((ROOT / root).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.ClassDef):
                    found[node.name].append(path.relative_to(ROOT).as_posix())
    return found


def test_no_class_name_is_used_twice() -> None:
    files = {name: paths for name, paths in files_of_classes().items() if len(paths) > 1}
    twice = {name for name, paths in files.items() if not all(path.startswith(REBUILT) for path in paths)}
    assert twice <= KNOWN | SHARED, "rename one of these classes: " + str({n: files[n] for n in twice - KNOWN - SHARED})
    assert twice >= KNOWN, f"remove {KNOWN - twice} from KNOWN"
