"""JSON pointers, as fragments of a URI.

Source: RFC 6901, JavaScript Object Notation (JSON) Pointer.
"""

from __future__ import annotations

from urllib.parse import unquote


def below(pointer: str, *names: str | int) -> str:
    """Return the pointer of something inside what a pointer leads to.

    Example:
        >>> below("#/properties", "a/b", 0)
        '#/properties/a~1b/0'
    """
    return "/".join([pointer, *[str(name).replace("~", "~0").replace("/", "~1") for name in names]])


def names_of(fragment: str) -> list[str]:
    """Return the names on the way that a pointer takes.

    Example:
        >>> names_of("/$defs/a~1b/%25")
        ['$defs', 'a/b', '%']
    """
    return [name.replace("~1", "/").replace("~0", "~") for name in unquote(fragment).split("/")[1:]]
