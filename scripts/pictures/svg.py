"""Shapes and text of SVG, in one style, readable on light and on dark pages.

A picture has a ground of its own, so it is also readable where the page does not follow the colours of the system.
"""

from __future__ import annotations

from html import escape

__all__ = ["MARGIN", "WIDTH", "Picture"]

WIDTH = 1000
MARGIN = 20

# Light and dark, for each class that a shape may have.
FILLS = {
    "k0": ("#eceff1", "#343a46"),
    "k1": ("#bbdefb", "#0d4a80"),
    "k2": ("#c8e6c9", "#1f5a24"),
    "k3": ("#ffe0b2", "#7a4a00"),
    "k4": ("#e1bee7", "#5c2370"),
    "k5": ("#f8bbd0", "#7d1c40"),
    "k6": ("#fff59d", "#615800"),
    "box": ("#eef0fa", "#2a2e45"),
    "off": ("none", "none"),
    "bad": ("#fde4e1", "#541d18"),
    "m0": ("#c62828", "#ff7f7f"),
    "m1": ("#1565c0", "#7ab8ff"),
    "m2": ("#2e7d32", "#7fd184"),
    "m3": ("#b26a00", "#ffc261"),
}
LIGHT = (
    "text{font:14px system-ui,-apple-system,'Segoe UI',sans-serif;fill:#212121}.small{font-size:12px}.faint{fill:#5f6368}"
    ".title{font-weight:600;font-size:16px}.wrong{font-weight:600;fill:#b42318}"
    ".name{font-weight:600;fill:#303f9f}.mono{font-family:ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace}"
    ".middle{text-anchor:middle}.end{text-anchor:end}.ground{fill:#fff;stroke:#e0e0e0}"
    "rect,circle{stroke:#9fa8da}.off{stroke:#bdbdbd}.bad{stroke:#b42318}.line{stroke:#5c6bc0;stroke-width:1.6;fill:none}"
    ".grid{stroke:#e0e0e0}.head{fill:#5c6bc0}"
    ".m0,.m1,.m2,.m3{stroke:none}"
)
DARK = (
    "text{fill:#e6e6e6}.faint{fill:#a9afb8}.name{fill:#a9b4f5}.wrong{fill:#ff9b92}.ground{fill:#1e2129;stroke:#3a4048}.off{stroke:#555b66}"
    ".bad{stroke:#ff8b80}.line{stroke:#8c9bea}.grid{stroke:#383d48}.head{fill:#8c9bea}"
)


class Picture:
    """A picture that grows as shapes are added; its height follows from the lowest one."""

    def __init__(self, title: str, description: str) -> None:
        self._title, self._description = title, description
        self._parts: list[str] = []
        self._bottom = 0.0

    def text(self, x: float, y: float, text: str, style: str = "") -> None:
        """Write a line; `y` is that of its letters' feet."""
        self._reach(y + 4)
        self._parts.append(f'<text class="{style}" x="{x:.1f}" y="{y:.1f}" xml:space="preserve">{escape(text)}</text>')

    def box(self, x: float, y: float, width: float, height: float, style: str = "box") -> None:
        """Draw a rectangle with round corners."""
        self._reach(y + height)
        self._parts.append(
            f'<rect class="{style}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="5"/>'
        )

    def chip(self, x: float, y: float, width: float, text: str, style: str, height: float = 24) -> None:
        """Draw a box with a short text in its middle."""
        self.box(x, y, width, height, style)
        self.text(x + width / 2, y + height / 2 + 5, text, "mono middle" + (" faint" if style == "off" else ""))

    def circle(self, x: float, y: float, radius: float, style: str = "box") -> None:
        """Draw a circle."""
        self._reach(y + radius)
        self._parts.append(f'<circle class="{style}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"/>')

    def path(self, path: str, style: str = "line", *, arrow: bool = False) -> None:
        """Draw a path, as in SVG's attribute `d`, with an arrow at its end or without."""
        self._parts.append(f'<path class="{style}" d="{path}"' + (' marker-end="url(#head)"/>' if arrow else "/>"))

    def raw(self, text: str) -> None:
        """Add SVG."""
        self._parts.append(text)

    def finish(self, style: str = "") -> str:
        """Return the SVG."""
        height = int(self._bottom) + MARGIN
        fills = ["".join(f".{name}{{fill:{pair[i]}}}" for name, pair in FILLS.items()) for i in range(2)]
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">'
            f"<title>{escape(self._title)}</title><desc>{escape(self._description)}</desc>\n"
            f"<style>{LIGHT}{fills[0]}{style}@media(prefers-color-scheme:dark){{{DARK}{fills[1]}}}</style>\n"
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
            '<path class="head" d="M0 0 8 4 0 8z"/></marker></defs>\n'
            f'<rect class="ground" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>\n'
            + "\n".join(self._parts)
            + "\n</svg>\n"
        )

    def _reach(self, y: float) -> None:
        self._bottom = max(self._bottom, y)
