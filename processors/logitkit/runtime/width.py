"""The check that logits and a vocabulary belong together, by the number of columns."""

from __future__ import annotations

from logitkit.errors import VocabularyError

__all__ = ["check_width"]

# Models pad their vocabularies for speed, by at most this many columns or this share of all columns.
MOST_PADDING = 1024
SHARE = 64


def check_width(size: int, columns: int) -> None:
    """Raise `VocabularyError` if logits have fewer columns than a vocabulary has ids, or more than padding explains.

    Args:
        size: The number of ids of the vocabulary.
        columns: The number of columns of the logits.
    """
    if columns < size:
        raise VocabularyError(
            f"the logits have {columns} columns, but the vocabulary has {size} ids: it belongs to another model"
        )
    if columns - size > MOST_PADDING and (columns - size) * SHARE > columns:
        raise VocabularyError(
            f"the logits have {columns} columns, but the vocabulary has {size} ids; the other {columns - size} are too many to "
            "be padding, so it belongs to another model. If this model has that many unused ids, build the vocabulary with "
            f"size={columns}"
        )
