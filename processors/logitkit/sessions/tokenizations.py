"""All tokenizations of texts, and the log-probabilities that a model gives them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import Tensor

from logitkit.errors import ConfigurationError
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["contexts_of", "log_probs_of", "tokenizations"]

Row = tuple[int, ...]


def tokenizations(texts: Sequence[str], vocabulary: Vocabulary, limit: int) -> list[list[Row]]:
    """Return all sequences of tokens whose bytes are the text, for each text: those that `Choice` allows.

    Args:
        texts: The texts.
        vocabulary: The tokens.
        limit: The maximum number of sequences of all texts. A text of n bytes has up to 2^(n - 1), if all its parts are tokens.

    Raises:
        ConfigurationError: A text has none, or there are more than `limit`; they are counted before they are listed.

    Example:
        >>> import logitkit as lk
        >>> vocabulary = lk.Vocabulary([b"n", b"o", b"no", None], eos_ids=[3])
        >>> tokenizations(["no", "on"], vocabulary, limit=3)
        [[(2,), (0, 1)], [(1, 0)]]
    """
    data = [text.encode() for text in texts]
    # For each position of each text, the tokens that may follow, and the number of tokenizations of the rest.
    follow = [[vocabulary.trie.tokens_at(one, at) for at in range(len(one))] for one in data]
    counts = [_counts(edges) for edges in follow]
    for text, count in zip(texts, counts, strict=True):
        if not count[0]:
            raise ConfigurationError(f"the vocabulary has no tokens that spell {text!r}; give texts that it can spell")
    total = sum(count[0] for count in counts)
    if total > limit:
        most = max(range(len(texts)), key=lambda i: counts[i][0])
        raise ConfigurationError(
            f"the texts have {total} tokenizations, {counts[most][0]} of them of {texts[most]!r}; at most {limit} are allowed: "
            "give shorter texts, or a higher max_tokenizations"
        )
    return [_listed(edges, count) for edges, count in zip(follow, counts, strict=True)]


def _counts(follow: Sequence[Sequence[tuple[int, int]]]) -> list[int]:
    counts = [0] * len(follow) + [1]
    for i in reversed(range(len(follow))):
        counts[i] = sum(counts[j] for j, _ in follow[i])
    return counts


def _listed(follow: Sequence[Sequence[tuple[int, int]]], counts: Sequence[int]) -> list[Row]:
    found, begun = list[Row](), [(0, Row())]
    while begun:
        at, row = begun.pop()
        if at == len(follow):
            found.append(row)
        else:
            begun += [(end, (*row, token)) for end, token in follow[at] if counts[end]]
    return found


def contexts_of(rows: Iterable[Row]) -> list[Row]:
    """Return the tokens to feed to a model for the probabilities of rows: all but the last of each, without repetitions.

    They are sorted, so neighbours share long prefixes, and none is the beginning of another.
    """
    begins = sorted({row[:-1] for row in rows})
    return [
        one for one, after in zip(begins, [*begins[1:], None], strict=True) if after is None or after[: len(one)] != one
    ]


def log_probs_of(rows: Sequence[Row], contexts: Sequence[Row], logits: Iterable[Tensor]) -> list[float]:
    """Return the sum of the log-probabilities of the tokens of each row.

    Args:
        rows: The rows.
        contexts: Their contexts, by `contexts_of`.
        logits: For each context, the logits before its first token and after each, [1 + tokens, V]; read one at a time.
    """
    wanted: dict[Row, dict[int, None]] = {}
    for row in rows:
        for n, token in enumerate(row):
            wanted.setdefault(row[:n], {})[token] = None
    found: dict[Row, float] = {}
    for context, scores in zip(contexts, logits, strict=True):
        for n in range(len(context) + 1):
            tokens = [*wanted.pop(context[:n], ())]
            if tokens:
                likelihood = scores[n].double().log_softmax(0)[tokens].tolist()
                found |= {(*context[:n], token): value for token, value in zip(tokens, likelihood, strict=True)}
    return [sum(found[row[:n]] for n in range(1, len(row) + 1)) for row in rows]
