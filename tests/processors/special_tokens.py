"""A small vocabulary with special tokens, which tests of markers, stops and bans share."""

from __future__ import annotations

import logitkit as lk

THINK, EOS, OTHER = 8, 9, 10
NAME = "<t>"
PIECES: list[bytes | None] = [b"a", b"b", b"<", b"t", b">", b"<t", b"t>", b"a<", None, None, None]
TOKENS = lk.Vocabulary(PIECES, eos_ids=[EOS], special={NAME: THINK, "<e>": EOS, "<o>": OTHER})
# Each name is the text of its token too, as of Qwen3's `</think>`.
WITH_TEXT = lk.Vocabulary([*PIECES[:8], NAME.encode(), None, None], eos_ids=[EOS], special={NAME: THINK})
