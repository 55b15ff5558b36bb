"""Attributes that are computed on first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

__all__ = ["lazy"]

T = TypeVar("T")


class lazy(Generic[T]):  # noqa: N801 - used as a decorator, like `property`
    """Compute an attribute on first use, and keep it in the object.

    Unlike `functools.cached_property`, it takes no lock in Python 3.11, which a graph of torch.compile cannot take. Threads may
    compute the value more than once; all get the same object.

    Example:
        >>> class Circle:
        ...     radius = 2
        ...
        ...     @lazy
        ...     def area(self) -> float:
        ...         return 3 * self.radius**2
        >>> circle = Circle()
        >>> circle.area, vars(circle)
        (12, {'area': 12})
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> Self | T:
        """Return the value; from then on, Python finds it in the object before it asks here."""
        if instance is None:
            return self
        value: T = instance.__dict__.setdefault(self._name, self._compute(instance))
        return value
