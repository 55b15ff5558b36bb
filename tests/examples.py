"""How many examples a property test draws that asks for more than its profile gives."""

from __future__ import annotations

import os


def examples(many: int) -> int:
    """Return half of them in CI, and a quarter in a run by hand."""
    return -(-many // (2 if os.environ.get("CI") else 4))
