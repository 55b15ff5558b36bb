"""The examples of docs/servers.md, in their order, with each server."""

from __future__ import annotations

from typing import Any

import pytest

from tests.docs.pages import examples
from tests.serving.servers import Server

PAGE = "docs/servers.md"


def test_the_page(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    found = examples(PAGE)
    assert len(found) == 4
    for example, shown in found:
        code = example.replace("http://127.0.0.1:8080", server.url).replace('"default_model"', repr(server.model))
        exec(compile(code, PAGE, "exec", dont_inherit=True), names)
        assert capsys.readouterr().out == shown
    names["client"].close()
