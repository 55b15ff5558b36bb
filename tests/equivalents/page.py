"""The page of equivalents: `python -m tests.equivalents.page [FOLDER]` writes its tables again.

Names are read from the engines that are installed, and from the unpacked wheels in the folder. An engine that is in neither keeps
its table, and the version that it was read from.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.equivalents.engine_names import ENGINES
from tests.equivalents.known import KNOWN, Known

__all__ = ["PAGE", "missing", "page", "section"]

PAGE = Path(__file__).parents[2] / "docs" / "equivalents.md"


def marks(engine: str) -> tuple[str, str]:
    """Return what stands before and after the table of an engine."""
    return f"<!-- {engine} -->\n", f"<!-- end of {engine} -->\n"


def section(engine: str, version: str, names: list[str]) -> str:
    """Return the table of an engine, from the names that its source has."""
    known = KNOWN[engine]
    lines = [f"Read from version {version}.", "", "| name | here | how equal, or why not |", "|---|---|---|"]
    unrelated: dict[str, list[str]] = {}
    for name in names:
        found = known[name]
        if isinstance(found, Known):
            how = found.how if found.here else f"none: {found.how}"
            lines.append(f"| `{name}` | {found.here} | {how[0].upper()}{how[1:]} |")
        else:
            unrelated.setdefault(found.why, []).append(f"`{name}`")
    if unrelated:
        parts = (f"{', '.join(named)} ({why})" for why, named in unrelated.items())
        lines += ["", f"Without a line of their own: {'; '.join(parts)}."]
    return "\n".join(lines) + "\n"


def missing(engine: str, names: list[str]) -> list[str]:
    """Return the names of an engine that are unknown."""
    return [name for name in names if name not in KNOWN[engine]]


def page(unpacked: Path | None = None) -> str:
    """Return the page with the tables that are true now."""
    text = PAGE.read_text("utf-8")
    for name, engine in ENGINES.items():
        folder = engine.folder(unpacked)
        if folder is None:
            continue
        names = engine.names(folder)
        if unknown := missing(name, names):
            raise SystemExit(f"{name} has {', '.join(unknown)}, which tests/equivalents/known.py does not know")
        begin, end = marks(name)
        before, rest = text.split(begin)
        _, after = rest.split(end)
        text = f"{before}{begin}\n{section(name, engine.version(unpacked), names)}\n{end}{after}"
    return text


if __name__ == "__main__":
    PAGE.write_text(page(Path(sys.argv[1]) if sys.argv[1:] else None), "utf-8")
