"""Classes of packages that may not be installed."""

from __future__ import annotations

import sys

__all__ = ["is_instance"]


def is_instance(value: object, module: str, name: str) -> bool:
    """Whether `value` is an instance of a class of a package, without importing the package.

    An object of a class exists only once the module of the class was imported, so nothing is missed.

    Args:
        value: Any object.
        module: Module that defines or exports the class.
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
