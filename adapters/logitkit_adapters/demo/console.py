"""The demo's output: results on one stream, progress on the other, in colour on terminals that support it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TextIO

__all__ = ["Console"]

_STYLES = {"good": "32", "bad": "31", "title": "1", "faint": "2"}
_ERASE_LINE = "\r\x1b[K"


class Console:
    """Two output streams, each possibly a terminal.

    Args:
        out: The stream for results.
        err: The stream for progress; on a terminal, progress is one line that disappears.
        environ: The environment of the process: `NO_COLOR` with any value, or `TERM=dumb`, turns colour off.
    """

    def __init__(self, out: TextIO, err: TextIO, environ: Mapping[str, str] = os.environ) -> None:
        self._out, self._err = out, err
        plain = bool(environ.get("NO_COLOR")) or environ.get("TERM") == "dumb"
        self._colour = out.isatty() and not plain
        self._transient = err.isatty() and environ.get("TERM") != "dumb"
        ticks = self._shown("✓✗") == "✓✗"
        self.good, self.bad = ("✓", "✗") if ticks else ("ok", "no")

    def styled(self, text: str, style: str) -> str:
        """Return a text in a style: good, bad, title or faint; an empty name means no style."""
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self._colour and style else text

    def results(self, lines: Iterable[str]) -> None:
        """Write lines of results at once."""
        self.done()
        self._out.write(self._shown("".join(f"{line}\n" for line in lines)))
        self._out.flush()

    def progress(self, text: str) -> None:
        """Show the current activity."""
        self.done()
        self._err.write(f"{text} ..." if self._transient else f"{text} ...\n")
        self._err.flush()

    def step(self, text: str) -> None:
        """Show it only on a terminal, where it leaves no trace."""
        if self._transient:
            self.progress(text)

    def done(self) -> None:
        """Remove the progress line."""
        if self._transient:
            self._err.write(_ERASE_LINE)
            self._err.flush()

    def _shown(self, text: str) -> str:
        """Return the text, with characters escaped that the stream's encoding does not support."""
        encoding = self._out.encoding or "utf-8"
        return text.encode(encoding, "backslashreplace").decode(encoding)
