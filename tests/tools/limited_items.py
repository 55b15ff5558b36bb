r"""The kinds of items of which a pattern may limit the number: what each is, how patterns write it, and what is not counted.

A further kind is an entry in `ITEMS`; a separator that no token crosses yet, a line of `CROSSING` in `raw_text.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from logitkit.languages import limited_items

__all__ = ["ITEMS", "Items", "count_few"]


class Items(NamedTuple):
    """A kind of items.

    Args:
        separator: The character between two of them.
        item: The pattern of one, as `re` reads it.
        spellings: Patterns of texts of at most some of them, for `%` with their number less one.
        pieces: Parts of texts.
        others: Patterns that are counted as well.
        uncounted: Patterns like them that have states for each number.
    """

    separator: str
    item: str
    spellings: tuple[str, ...]
    pieces: tuple[str, ...]
    others: tuple[str, ...]
    uncounted: tuple[str, ...]

    def most(self, number: int, spelling: int = 0) -> dict[str, Any]:
        """Return the schema of texts of at most some items."""
        return {"type": "string", "pattern": self.spellings[spelling] % (number - 1)}

    def holds(self, text: str, number: int) -> bool:
        """Return whether a text has at most some items, and nothing else."""
        items = text.split(self.separator)
        return len(items) <= number and all(re.fullmatch(self.item, item) for item in items)


ITEMS = {
    "lines": Items(
        "\n",
        r"[^\n]*",
        (r"^[^\n]*(\n[^\n]*){0,%d}$", r"^([^\n]*\n){0,%d}[^\n]*$", r"^(?!([^\n]*\n){%d}\n?[^\n]*\n)[\s\S]*$"),
        (*"\na\r> é\U0001f600", "\n\n", "</par", "</parameter", "\n</parameter", "<parameter=x>\n"),
        # Without white space, and not empty.
        (r"^[^\n\r\t ]*(\n[^\n\r\t ]*){0,3}$", r"^[^\n]+(\n[^\n]+){0,5}$"),
        # A least number, a line unlike the others, and two separators.
        (
            r"^[^\n]*(\n[^\n]*){2,5}$",
            r"^[^\n]*(\n[0-9]*(\n[^\n]*){0,4})?$",
            r"^[^\r\n]*([\r\n][^\r\n]*){0,5}$",
        ),
    ),
    "words": Items(
        " ",
        r"\S+",
        (r"^\S+(?: \S+){0,%d}$", r"^(\S+ ){0,%d}\S+$", r"^(?!(\S+ ){%d}\S+ )\S+( \S+)*$"),
        (*" a\xa0é\n\U0001f600", "a b", "  ", "</par", "\n</parameter"),
        # Maybe empty, in several lines, of two states, and items that end.
        (
            r"^\S*( \S*){0,3}$",
            r"^[^ ]+( [^ ]+){0,3}$",
            r"^[a\n][b<\n]+( [a\n][b<\n]+){0,3}$",
            r"^[ab]{2}(,[ab]{2}){0,3}$",
        ),
        # A least number, an empty text, several separators, one of two bytes, any white space, and words unlike the others.
        (
            r"^\S+( \S+){2,5}$",
            r"^(\S+( \S+){0,5})?$",
            r"^[ab]+([ \n][ab]+){0,5}$",
            r"^[^é]+(é[^é]+){0,5}$",
            r"^\S+(\s+\S+){0,5}$",
            r"^[ab]+ [ab]+( [ab]+ [ab]+){0,5}$",
            r"^a+( a+( a+( b+( a+( a+)?)?)?)?)?$",
            r"^[ab]+( [ab]+( [ab]+( [ab]+( [ab]+( [abc]+)?)?)?)?)?$",
        ),
    ),
}


def count_few() -> Iterator[None]:
    """Count few items while a fixture is in use, so that texts often have all that are allowed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limited_items, "COUNTED_ITEMS_FROM", 3)
        yield
