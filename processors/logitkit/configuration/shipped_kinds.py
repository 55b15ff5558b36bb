"""The kinds of this package's processors: each class declares its own when its module is imported, which happens here."""

from __future__ import annotations

from importlib import import_module

from logitkit.protocol.kind import KINDS
from logitkit.public_names import MODULES

__all__ = ["KINDS"]

# The packages of the processors.
PACKAGES = {
    "constraints",
    "penalties",
    "reasoning",
    "sampling",
    "stopping",
    "structural_tags",
    "tokens",
    "tools",
    "watermarks",
}

for module in dict.fromkeys(MODULES.values()):
    if module.partition(".")[0] in PACKAGES:
        import_module(f"logitkit.{module}")
