"""What was read out of a tokenizer, and how it is refused when nothing certain can be read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from logitkit.errors import VocabularyError

__all__ = ["Reading", "refusal"]

_SUPPORTED = (
    "supported are `tokenizers` backends whose decoder is ByteLevel, Metaspace, WordPiece, or Replace with "
    "or without ByteFallback, Fuse and a leading Strip; SentencePiece models; Tekken; and tiktoken encodings"
)
_REMEDY = "build it yourself: logitkit.Vocabulary(tokens, eos_ids), with the bytes that each id adds to the text"


@dataclass(frozen=True)
class Reading:
    """The token bytes of one tokenizer, with what is needed to check them and to end a sequence.

    Args:
        name: The tokenizer in an error message, such as its class and decoder.
        tokens: Bytes by id; None for an id without text.
        encode: Text to token ids, without special tokens; None where encoding loses too much of a text to
            compare.
        normalise: The form of a text that the encoder splits, with spaces as spaces.
        unknown_id: Id that stands for what the vocabulary cannot spell; None where the encoder has no such
            token.
        is_layout_kept: Whether runs of spaces, tabs and line ends survive encoding.
        eos_id: Id that ends a sequence, as far as the tokenizer knows.
        pad_id: Id that fills finished rows, as far as the tokenizer knows.
    """

    name: str
    tokens: list[bytes | None]
    encode: Callable[[str], Sequence[int]] | None
    normalise: Callable[[str], str]
    unknown_id: int | None
    is_layout_kept: bool
    eos_id: int | None
    pad_id: int | None


def refusal(name: str, found: str) -> VocabularyError:
    """Build the error for a tokenizer whose bytes are not certain: what was found, and what to do.

    Args:
        name: The tokenizer, such as its class.
        found: What makes its bytes uncertain.
    """
    return VocabularyError(f"cannot recover the token bytes of {name}: {found}; {_SUPPORTED}; otherwise {_REMEDY}")
