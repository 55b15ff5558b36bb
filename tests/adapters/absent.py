"""Packages that seem to be missing, without a process of their own."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import pytest

from tests import missing_engines

__all__ = ["make_absent"]


def make_absent(
    monkeypatch: pytest.MonkeyPatch, *names: str, importers: Sequence[str] = ("logitkit_adapters",)
) -> None:
    """Let imports of modules and of all below them fail until the end of the test.

    Args:
        monkeypatch: Restores the modules.
        names: The missing modules.
        importers: Packages to import again, because they may have imported the missing modules.
    """
    for module in [*sys.modules]:
        if module.partition(".")[0] in importers:
            monkeypatch.delitem(sys.modules, module)
    pretended = missing_engines.PRETENDED.union(name.partition(".")[0] for name in names)
    monkeypatch.setattr(missing_engines, "PRETENDED", pretended)
    for name in names:
        for module in [name, *(other for other in sys.modules if other.startswith(f"{name}."))]:
            monkeypatch.setitem(sys.modules, module, None)
