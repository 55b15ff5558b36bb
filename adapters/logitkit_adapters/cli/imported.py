"""Python types that commands take as arguments, as `package.module:Name`."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from logitkit_adapters.cli.usage import UsageError

__all__ = ["imported", "names_type"]

_FORM = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*):([^\W\d]\w*(?:\.[^\W\d]\w*)*)")


def names_type(given: str) -> bool:
    """Whether an argument has the form `package.module:Name`, and is not the path of a file.

    Args:
        given: The argument.

    Example:
        >>> names_type("shop.models:Invoice"), names_type("schema.json")
        (True, False)
    """
    return _FORM.fullmatch(given) is not None and not Path(given).exists()


def imported(given: str) -> Any:
    """Import a module, also from the current folder, and return what has the name in it.

    Args:
        given: An argument of the form `package.module:Name`.

    Raises:
        UsageError: The module cannot be imported, or has no such name.
    """
    module_name, _, path = given.partition(":")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        found: Any = import_module(module_name)
    except Exception as error:  # a module may raise anything
        raise UsageError(
            f"the module {module_name!r} cannot be imported: {type(error).__name__}: {error}; install its package, or run the "
            "command in the folder that contains it"
        ) from error
    for name in path.split("."):
        if not hasattr(found, name):
            raise UsageError(
                f"{module_name!r} has no {path!r}; give the name of a type that is defined or imported there"
            )
        found = getattr(found, name)
    return found
