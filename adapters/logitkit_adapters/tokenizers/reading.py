"""The result of reading a tokenizer, and the error if its bytes are uncertain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from logitkit.errors import VocabularyError

__all__ = ["Reading", "is_special", "refusal"]

_SUPPORTED = (
    "supported are `tokenizers` backends whose decoder is ByteLevel, Metaspace, WordPiece, or Replace with "
    "or without ByteFallback, Fuse and a leading Strip; SentencePiece models; Tekken; and tiktoken encodings"
)
# The characters that names of special tokens begin and end with.
BRACKETS = {("<", ">"), ("[", "]")}

_REMEDY = "build it yourself: logitkit.Vocabulary(tokens, eos_ids), with the bytes that each id adds to the text"


@dataclass(frozen=True)
class Reading:
    """The token bytes of a tokenizer, with everything needed to verify them and to end a sequence.

    Args:
        name: The tokenizer in error messages, such as its class and decoder.
        tokens: Bytes by id; None for an id without text.
        special: The ids of special tokens by name, and of added tokens named like them.
        encode: Converts a text to token ids, without special tokens; None if encoding loses too much of a text to compare it.
        normalise: Converts a text to the form that the encoder splits, with spaces as spaces.
        unknown_id: The id for text that the vocabulary cannot spell; None if the encoder has none.
        is_layout_kept: Whether encoding preserves runs of spaces, tabs and line ends.
        eos_id: The id that ends a sequence, if the tokenizer defines one.
        pad_id: The id that pads finished rows, if the tokenizer defines one.
    """

    name: str
    tokens: list[bytes | None]
    special: Mapping[str, int]
    encode: Callable[[str], Sequence[int]] | None
    normalise: Callable[[str], str] = str
    unknown_id: int | None = None
    is_layout_kept: bool = False
    eos_id: int | None = None
    pad_id: int | None = None


def is_special(name: str, token: bytes | None) -> bool:
    """Whether a token is special: it has no text, or a name like `<think>`, even if the tokenizer does not declare it as special.

    Args:
        name: The token's name.
        token: Its bytes.
    """
    has_brackets = len(name) > 2 and (name[0], name[-1]) in BRACKETS and not any(map(str.isspace, name))
    return token is None or (has_brackets and token == name.encode())


def refusal(name: str, found: str) -> VocabularyError:
    """Return the error for a tokenizer whose bytes are uncertain: the problem, and what to do.

    Args:
        name: The tokenizer, such as its class.
        found: The reason why its bytes are uncertain.
    """
    return VocabularyError(f"cannot recover the token bytes of {name}: {found}; {_SUPPORTED}; otherwise {_REMEDY}")
