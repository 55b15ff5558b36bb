"""The page docs/mlx-vlm.md, whose examples run with a tiny model in the place of one that would be downloaded."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from mlx_vlm.utils import load

from tests.adapters.vision_models import image, loaded
from tests.docs.pages import examples

PAGE = "docs/mlx-vlm.md"


def test_its_examples(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(
        "mlx_vlm.load", lambda path: loaded("qwen2_vl") if path.startswith("mlx-community/") else load(path)
    )
    monkeypatch.chdir(tmp_path)
    image(1).save("invoice.png")
    names: dict[str, Any] = {"__name__": "__main__"}
    for code, shown in examples(PAGE):
        exec(compile(code, PAGE, "exec", dont_inherit=True), names)
        assert capsys.readouterr().out == (shown or ""), code
    assert isinstance(names["invoice"], names["Invoice"])
    assert date.fromisoformat(names["found"].text.strip('"')).year
    assert names["second"].rows[0].text in ("Yes.", "No.")
    assert names["second"].rows[0].cached_tokens > 0
