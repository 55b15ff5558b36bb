"""Where the demo writes: results on one stream, progress on the other, colour on terminals that want it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TextIO

__all__ = ["Console"]

_STYLES = {"good": "32", "bad": "31", "title": "1", "faint": "2"}
_ERASE_LINE = "\r\x1b[K"


class Console:
    """Two streams, each perhaps a terminal.

    Args:
        out: For results.
        err: For progress, which on a terminal takes one line that vanishes.
        environ: Of the process: `NO_COLOR` with any value, or `TERM=dumb`, turns colour off.
    """

    def __init__(self, out: TextIO, err: TextIO, environ: Mapping[str, str] = os.environ) -> None:
        self._out, self._err = out, err
        plain = bool(environ.get("NO_COLOR")) or environ.get("TERM") == "dumb"
        self._colour = out.isatty() and not plain
        self._transient = err.isatty() and environ.get("TERM") != "dumb"
        ticks = self._shown("✓✗") == "✓✗"
        self.good, self.bad = ("✓", "✗") if ticks else ("ok", "no")

    def styled(self, text: str, style: str) -> str:
        """Return a text in a style: good, bad, title, faint, or none with an empty name."""
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self._colour and style else text

    def results(self, lines: Iterable[str]) -> None:
        """Write lines of results at once."""
        self._clear()
        self._out.write(self._shown("".join(f"{line}\n" for line in lines)))
        self._out.flush()

    def progress(self, text: str) -> None:
        """Say what is being done now."""
        self._clear()
        self._err.write(f"{text} ..." if self._transient else f"{text} ...\n")
        self._err.flush()

    def step(self, text: str) -> None:
        """Say it on a terminal only, where it takes no room."""
        if self._transient:
            self.progress(text)

    def done(self) -> None:
        """Leave no progress behind."""
        self._clear()

    def _clear(self) -> None:
        if self._transient:
            self._err.write(_ERASE_LINE)
            self._err.flush()

    def _shown(self, text: str) -> str:
        """Return the text with what the stream's encoding lacks escaped."""
        encoding = self._out.encoding or "utf-8"
        return text.encode(encoding, "backslashreplace").decode(encoding)
