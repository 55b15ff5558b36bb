"""How much work a call does, in lines of Python: unlike a time, it is the same on every run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any


def lines_of(call: Callable[[], object], *modules: ModuleType) -> int:
    """Return how many lines of some modules a call runs."""
    files = {module.__file__ for module in modules}
    count = 0

    def line(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return line

    before = sys.gettrace()
    sys.settrace(lambda frame, _event, _argument: line if frame.f_code.co_filename in files else None)
    try:
        call()
    finally:
        sys.settrace(before)
    return count
