"""JSON pointers: of schemas as fragments of a URI, of values as plain text.

Source: RFC 6901, JavaScript Object Notation (JSON) Pointer.
"""

from __future__ import annotations

from urllib.parse import quote, unquote


def below(fragment: str, *names: str | int) -> str:
    r"""Return the fragment of something inside what a fragment leads to.

    Characters that do not print, such as line ends, are written as `%0A`: the fragment stands in messages.

    Example:
        >>> below("#/properties", "a/b", 0, "50%\n")
        '#/properties/a~1b/0/50%25%0A'
    """
    return "/".join([fragment, *[_printable(_escaped(name)) for name in names]])


def step(path: str, name: str | int) -> str:
    """Return the plain pointer of a member or an item of the value that a plain pointer leads to.

    Example:
        >>> step("/a~1b", "50%")
        '/a~1b/50%'
    """
    return f"{path}/{_escaped(name)}"


def plain(fragment: str) -> str:
    """Return the plain pointer that a fragment holds.

    Example:
        >>> plain("#/properties/50%25")
        '/properties/50%'
    """
    return unquote(fragment[1:])


def names_of(fragment: str) -> list[str]:
    """Return the names on the way that a pointer takes.

    Example:
        >>> names_of("/$defs/a~1b/%25")
        ['$defs', 'a/b', '%']
    """
    return [name.replace("~1", "/").replace("~0", "~") for name in unquote(fragment).split("/")[1:]]


def _escaped(name: str | int) -> str:
    return str(name).replace("~", "~0").replace("/", "~1")


def _printable(name: str) -> str:
    if name.isprintable() and "%" not in name:
        return name
    return "".join([c if c.isprintable() and c != "%" else quote(c, errors="surrogatepass") for c in name])
