"""How many tokens a text takes."""

from __future__ import annotations

from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["fewest_tokens"]


def fewest_tokens(vocabulary: Vocabulary, text: bytes) -> int | None:
    """Return the fewest tokens that contain a text together; None: no tokens do.

    The first token may begin before the text, and the last one may end after it.

    Args:
        vocabulary: The tokens.
        text: The text, at least one byte.

    Example:
        >>> vocabulary = Vocabulary([b"a", b"b", b"xa", b"bc", b"cd", None], eos_ids=[5])
        >>> fewest_tokens(vocabulary, b"abc"), fewest_tokens(vocabulary, b"acb")
        (2, None)
    """
    trie, size = vocabulary.trie, len(text)
    # The fewest tokens that end within the text, by the number of its bytes before that end.
    fewest = {0: 0}
    # The places where a token that begins before the text may end, by the byte before them.
    ends_in: dict[int, list[int]] = {}
    for end in range(1, min(size, trie.depth)):
        ends_in.setdefault(text[end - 1], []).append(end)
    for token in filter(None, vocabulary.tokens):
        if len(token) >= size and text in token:
            return 1
        fewest.update((end, 1) for end in ends_in.get(token[-1], ()) if token.endswith(text[:end]))
    for at in range(size):
        if at not in fewest:
            continue
        count = fewest[at] + 1
        for end, node in enumerate(trie.path(text[at : at + trie.depth]), at + 1):
            # A token that begins with the whole rest of the text may end after it.
            if trie.own[node] or end == size:
                fewest[end] = min(count, fewest.get(end, count))
    return fewest.get(size)
