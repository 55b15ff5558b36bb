r"""Ids and numbers of calls, which stand in the markers around names and arguments.

`{id}` in a marker stands for an id that the model makes up, and `{number}` for the number of a call, as in

    <|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>

where the text after the name is `:{number}<|tool_call_argument_begin|>`. A marker is cut into pieces, so that its text and what
varies in it are written, generated and read alike.
"""

from __future__ import annotations

import re

from logitkit.errors import ConfigurationError

__all__ = ["ID", "NUMBER", "allowed_ids", "check_pieces", "has_ids", "pieces_of", "run_of", "written_piece"]

ID, NUMBER = "{id}", "{number}"

# Numbers go on from one turn to the next in some formats, so any number may stand at any call.
_NUMBERS = "0|[1-9][0-9]{0,4}"
_LONGEST_NUMBER = 5
_LONGEST_ID = 64
_VARYING = re.compile(r"(\{id\}|\{number\})")
_DIGITS = re.compile("[0-9]*")
_PLAIN, _FREE = re.compile("[A-Za-z0-9]*"), re.compile("[A-Za-z0-9_.-]*")


def pieces_of(marker: str) -> list[str]:
    """Return the pieces of a marker: texts, `ID` and `NUMBER`.

    Example:
        >>> pieces_of(":{number}<|begin|>")
        [':', '{number}', '<|begin|>']
    """
    return [piece for piece in _VARYING.split(marker) if piece]


def has_ids(marker: str) -> bool:
    """Whether something varies in a marker."""
    return _VARYING.search(marker) is not None


def allowed_ids(piece: str, length: int | None) -> str:
    """Return the pattern of an id or a number.

    Args:
        piece: `ID` or `NUMBER`.
        length: The length of ids, which are then letters and digits; None: 1 to 64 letters, digits and characters of `_.-`.
    """
    if piece == NUMBER:
        return _NUMBERS
    return f"[A-Za-z0-9_.-]{{1,{_LONGEST_ID}}}" if length is None else f"[A-Za-z0-9]{{{length}}}"


def run_of(piece: str, length: int | None, text: str, start: int) -> tuple[int, bool]:
    """Return where an id or a number ends that begins at `start`, and whether it is one.

    Args:
        piece: `ID` or `NUMBER`.
        length: The length of ids, as in `allowed_ids`.
        text: The text.
        start: Its first character.
    """
    characters = _DIGITS if piece == NUMBER else _FREE if length is None else _PLAIN
    found = characters.match(text, start)
    assert found is not None
    size = found.end() - start
    if piece == NUMBER:
        allowed = 0 < size <= _LONGEST_NUMBER and (size == 1 or text[start] != "0")
    else:
        allowed = 0 < size <= _LONGEST_ID if length is None else size == length
    return found.end(), allowed


def written_piece(piece: str, number: int, given: str | None, length: int | None) -> str:
    """Return what stands for an id or a number.

    Args:
        piece: `ID` or `NUMBER`.
        number: The number of the call.
        given: Its id; None: one is made from the number.
        length: The length of ids, as in `allowed_ids`.

    Raises:
        ConfigurationError: The id is not allowed in the format.
    """
    if piece == NUMBER:
        return str(number)
    made = f"call{number:05}" if length is None else f"{number:0{length}}"[-length:]
    found = made if given is None else given
    if run_of(ID, length, found, 0) != (len(found), True):
        raise ConfigurationError(
            f"the id of a call is {given!r}; allowed in this format are None and a text that matches {allowed_ids(ID, length)}"
        )
    return found


def check_pieces(name: str, marker: str, length: int | None) -> None:
    """Refuse a marker in which it would not be clear where an id or a number ends.

    Raises:
        ConfigurationError: An id or a number is not followed by another character.
    """
    pieces = pieces_of(marker)
    for at, piece in enumerate(pieces):
        if piece not in (ID, NUMBER):
            continue
        after = pieces[at + 1] if at + 1 < len(pieces) else ""
        characters = _DIGITS if piece == NUMBER else _FREE if length is None else _PLAIN
        found = characters.match(after)
        if not at or after in ("", ID, NUMBER) or (found is not None and found.end()):
            raise ConfigurationError(
                f"{name} is {marker!r}; allowed is a text in which {piece!r} stands between other texts, of which the one after "
                "it does not begin with a letter, a digit or one of '_.-', so that it is clear where it ends"
            )
