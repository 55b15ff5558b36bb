"""Classes of packages that may not be installed."""

from __future__ import annotations

import sys

__all__ = ["is_instance"]


def is_instance(value: object, module: str, name: str) -> bool:
    """Whether `value` is an instance of a class, without importing the class's package.

    An instance exists only after the class's module was imported, so nothing is missed.

    Args:
        value: Any object.
        module: A module that defines or exports the class.
        name: The class.

    Example:
        >>> from decimal import Decimal
        >>> (
        ...     is_instance(Decimal(1), "decimal", "Decimal"),
        ...     is_instance(1, "decimal", "Decimal"),
        ...     is_instance(1, "absent", "A"),
        ... )
        (True, False, False)
    """
    cls = getattr(sys.modules.get(module), name, None)
    return isinstance(cls, type) and isinstance(value, cls)
