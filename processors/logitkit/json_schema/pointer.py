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
    """Return the plain pointer that a fragment holds; one in another document is left as it is, with the URI.

    Example:
        >>> plain("#/properties/50%25"), plain("a.json#/properties/50%25")
        ('/properties/50%', 'a.json#/properties/50%25')
    """
    return unquote(fragment[1:]) if fragment.startswith("#") else fragment


def is_document(fragment: str) -> bool:
    """Whether a fragment leads to a whole document.

    Example:
        >>> is_document("https://example.org/a.json#"), is_document("#/properties/a#")
        (True, False)
    """
    return not fragment.partition("#")[2]


def root_of(uri: str) -> str:
    r"""Return the fragment of the document with a URI.

    Example:
        >>> root_of("a b\n.json")
        'a b%0A.json#'
    """
    return _printable(uri, kept="%") + "#"


def names_of(fragment: str) -> list[str]:
    """Return the names on the way that a pointer takes.

    Example:
        >>> names_of("/$defs/a~1b/%25")
        ['$defs', 'a/b', '%']
    """
    return [name.replace("~1", "/").replace("~0", "~") for name in unquote(fragment).split("/")[1:]]


def _escaped(name: str | int) -> str:
    return str(name).replace("~", "~0").replace("/", "~1")


def _printable(name: str, kept: str = "") -> str:
    if name.isprintable() and "%" not in name:
        return name
    keep = [c.isprintable() and (c != "%" or c == kept) for c in name]
    return "".join([c if k else quote(c, errors="surrogatepass") for c, k in zip(name, keep, strict=True)])
