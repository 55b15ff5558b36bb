"""Packages that may not be installed: their classes, and the error if an adapter needs one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["is_instance", "needed_for"]


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


@contextmanager
def needed_for(adapter: str, package: str, extra: str) -> Iterator[None]:
    """Import a package inside the `with` block; if that fails, the error says what to install.

    Args:
        adapter: The module of `logitkit_adapters` that needs the package.
        package: The package's name.
        extra: The extra of logitkit that installs it.

    Raises:
        ImportError: The package is not installed.
    """
    try:
        yield
    except ImportError as error:
        raise ImportError(f"logitkit_adapters.{adapter} needs {package}: pip install 'logitkit[{extra}]'") from error
