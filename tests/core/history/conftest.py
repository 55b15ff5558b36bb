"""Every test of a rule runs with the code for the CPU and with that for devices."""

from __future__ import annotations

import pytest

from logitkit.tracking import DeviceRows, row_group


@pytest.fixture(autouse=True, params=["host", "device"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run every test with the code for the CPU and with that for devices."""
    if request.param == "device":
        monkeypatch.setattr(row_group, "keep_rows", DeviceRows)
    return str(request.param)
