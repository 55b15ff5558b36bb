"""XGrammar on the documents and the vocabularies of these tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest

import logitkit as lk

xgrammar: Any = pytest.importorskip(
    "xgrammar", reason="needs XGrammar: pip install -c constraints.txt apache-tvm-ffi, then --no-deps xgrammar"
)

# Only whole characters: where XGrammar searches for triggers, it takes bytes that are not UTF-8.
PIECES = (
    *(
        b"<a",
        b">x",
        b"</a>",
        b"</",
        b"ab",
        b"abc",
        b'{"',
        b'":',
        b"</a>z",
        b"a>",
        b"1;",
        b";,",
        b"<f=",
        b"<f",
        b"=g>{",
        b"}}",
    ),
    *(b"aa", b"aaa", b"</a", b"a>1", b"x<f=h", b'{"b":"x', b"<to", b"ol>", b"</to", b"x;x", "é".encode()),
)
TEXT = (b"\n", *(bytes([byte]) for byte in range(32, 127)), *PIECES)
SPECIAL = ("<tool>", "</tool>", "<think>", "<eos>")
SPECIAL_IDS = {name: len(TEXT) + number for number, name in enumerate(SPECIAL)}
SIZE, EOS = len(TEXT) + len(SPECIAL), len(TEXT) + len(SPECIAL) - 1


@cache
def shared_vocabulary() -> lk.Vocabulary:
    """Return the vocabulary that both have. In XGrammar, special tokens have their names as text."""
    return lk.Vocabulary([*TEXT, *[None] * len(SPECIAL)], eos_ids=[EOS], special=SPECIAL_IDS)


@cache
def compiler() -> Any:
    """Return the compiler of XGrammar."""
    tokens = [*TEXT, *(name.encode() for name in SPECIAL)]
    info = xgrammar.TokenizerInfo(tokens, xgrammar.VocabType.RAW, vocab_size=SIZE, stop_token_ids=[EOS])
    return xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)


class PeerWalk:
    """One text that XGrammar follows."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.matcher = xgrammar.GrammarMatcher(compiler().compile_structural_tag(json.dumps(document)))
        self.mask = xgrammar.allocate_token_bitmask(1, SIZE)

    def allowed(self) -> set[int]:
        """Return the tokens that are allowed now."""
        self.matcher.fill_next_token_bitmask(self.mask)
        words = self.mask[0].tolist()
        return {token for token in range(SIZE) if words[token // 32] >> token % 32 & 1}

    def take(self, token: int) -> bool:
        """Go on with a token, and return whether it is allowed."""
        return bool(self.matcher.accept_token(token))


def peer_accepts(document: dict[str, Any], tokens: Sequence[int]) -> bool:
    """Whether tokens are a complete text by XGrammar."""
    walk = PeerWalk(document)
    return all(walk.take(token) for token in tokens) and EOS in walk.allowed()
