r"""Cuts text into atoms, so that what two renderings share ends where a marker ends.

`<|calls_begin|>` and `<|calls_fin|>` share their last characters, which say nothing about either. As atoms (a tag, a word, one
space, one other character), they share nothing.
"""

from __future__ import annotations

import re

__all__ = ["atoms", "first_tag", "is_tag", "shared_end", "shared_start", "turn_end"]

# A tag in angle or square brackets, a word, or any other character.
_ATOM = re.compile(r"</?[^<>\s\"'{}]{1,80}>|\[/?[A-Z][A-Z_]*\]|\w+|.", re.DOTALL)


def atoms(text: str) -> list[str]:
    r"""Return the atoms of a text.

    Example:
        >>> atoms('<tool_call>\n{"name": 5')
        ['<tool_call>', '\n', '{', '"', 'name', '"', ':', ' ', '5']
    """
    return _ATOM.findall(text)


def is_tag(atom: str) -> bool:
    """Whether an atom is a tag."""
    return len(atom) > 2 and atom[0] in "<[" and atom[-1] in ">]"


def shared_start(first: str, second: str) -> str:
    r"""Return the atoms that both texts begin with.

    Example:
        >>> shared_start("<|call_end|>\n", "<|calls_end|>\n")
        ''
    """
    found = ""
    for one, other in zip(atoms(first), atoms(second), strict=False):
        if one != other:
            break
        found += one
    return found


def shared_end(first: str, second: str) -> str:
    """Return the atoms that both texts end with."""
    found = ""
    for one, other in zip(reversed(atoms(first)), reversed(atoms(second)), strict=False):
        if one != other:
            break
        found = one + found
    return found


def first_tag(text: str) -> str | None:
    """Return the tag that a text begins with, if any."""
    found = atoms(text[:200])
    return found[0] if found and is_tag(found[0]) else None


def turn_end(answer_end: str, calls: str) -> str | None:
    """Return the text that ends a turn with calls.

    Args:
        answer_end: The text after an answer.
        calls: A turn with calls, up to the end of the rendering.

    Returns:
        The end of `calls` that is not part of the calls; None if that is not clear.
    """
    if calls.endswith(answer_end):
        return answer_end
    shared = atoms(shared_end(answer_end, calls))
    # A turn ends with a tag; what is shared before the first one belongs to both by chance.
    while shared and not is_tag(shared[0]):
        del shared[0]
    if shared:
        return "".join(shared)
    # A turn with calls may end with a tag of its own.
    last, other = atoms(calls[-200:]), atoms(answer_end)
    space = [atom for atom in last if not atom.isspace()]
    if space and is_tag(space[-1]) and any(map(is_tag, other)):
        return calls[calls.rindex(space[-1]) :]
    return None if answer_end.strip() else ""
