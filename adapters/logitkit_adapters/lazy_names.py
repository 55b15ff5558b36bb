"""Names of a package that are imported when they are first used, so that a hook loads nothing that only sessions need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["OF_SESSIONS", "lazy_names"]

# The names of sessions and generators, which each engine's package has.
OF_SESSIONS = dict.fromkeys(
    ("Session", "continuous", "generate_typed", "probabilities", "trace"), "logitkit_adapters.sessions"
)


def lazy_names(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the function `__getattr__` of a package.

    Args:
        package: The package.
        modules: For each name, the module that defines it. No module of the package may have such a name, since Python would
            find the module in its place.

    Example:
        >>> found = lazy_names("logitkit_adapters", {"Decimal": "decimal"})("Decimal")
        >>> found(3)
        Decimal('3')
    """

    def find(name: str) -> Any:
        if name in modules:
            return getattr(import_module(modules[name]), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return find
