"""The pictures of the documentation: what their scripts write, readable without colours of the page, and shown."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.docs.pages import ROOT

DOCS = ROOT / "docs"
PICTURES = sorted(DOCS.rglob("*.svg"))
SVG = "{http://www.w3.org/2000/svg}"


def test_the_pictures_are_what_their_scripts_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])  # which the script changes
    drawn: dict[Path, str] = runpy.run_path(str(ROOT / "scripts" / "draw-pictures"))["draw"]()
    assert {DOCS / path for path in drawn} == {*PICTURES} - {DOCS / "layers.svg"}
    changed = [str(path) for path, picture in drawn.items() if (DOCS / path).read_text("utf-8") != picture]
    assert changed == [], "run scripts/draw-pictures"


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_a_picture_has_a_title_and_both_modes_and_loads_nothing(path: Path) -> None:
    text = path.read_text("utf-8")
    root = ElementTree.fromstring(text)
    assert (root.findtext(f"{SVG}title") or "").strip()
    assert "prefers-color-scheme:dark" in text
    assert not re.search(r"href=|url\((?!#)|@import|<script", text)


@pytest.mark.parametrize("path", [p for p in PICTURES if p.stem != "layers"], ids=lambda path: path.stem)
def test_texts_and_boxes_are_inside_of_the_picture(path: Path) -> None:
    root = ElementTree.fromstring(path.read_text("utf-8"))
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    for box in root.iter(f"{SVG}rect"):
        x, y, w, h = (float(box.attrib[k]) for k in ("x", "y", "width", "height"))
        assert 0 <= x <= x + w <= width, box.attrib
        assert 0 <= y <= y + h <= height, box.attrib
    for text in root.iter(f"{SVG}text"):
        x, y, written = float(text.attrib["x"]), float(text.attrib["y"]), text.text or ""
        style = text.attrib["class"].split()
        size = 12 if "small" in style else 16 if "title" in style else 14
        # The average character of a wide font is about this part of its size.
        wide = len(written) * size * (0.62 if "mono" in style else 0.54)
        left = x - wide if "end" in style else x - wide / 2 if "middle" in style else x
        assert 0 <= left <= left + wide <= width, written
        assert size <= y <= height, written


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_a_page_shows_each_picture_with_a_text_in_its_place(path: Path) -> None:
    shown = [
        alt
        for page in sorted(DOCS.rglob("*.md"))
        for alt, target in re.findall(r"!\[([^\]]*)\]\(([^)\s]+)\)", page.read_text("utf-8"))
        if (page.parent / target).resolve() == path.resolve()
    ]
    assert shown
    assert all(len(alt) > 20 for alt in shown)


def test_the_readme_shows_a_picture_that_is_here() -> None:
    found = re.findall(r"!\[([^\]]+)\]\(([^)\s]+\.svg)\)", (ROOT / "README.md").read_text("utf-8"))
    assert found
    assert all((ROOT / target).is_file() for _, target in found)
