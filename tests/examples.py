"""How many examples a property test draws that asks for more than its profile gives."""

from __future__ import annotations

import os


def examples(many: int) -> int:
    """Return `many` in CI, and a quarter of them in a run by hand."""
    return many if os.environ.get("CI") else -(-many // 4)
