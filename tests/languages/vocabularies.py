"""Small vocabularies whose tokens cross the borders of markers, JSON and free text."""

from __future__ import annotations

import logitkit as lk

__all__ = ["BYTES", "GAPS", "JSON", "NAMED", "ONE_END", "SECOND_END", "SHOWN", "SPELLED", "TWO_ENDS"]

TEXT = [b"a", b"b", b"<", b"t", b">", b"<t", b"t>", b"a<", b">b", b"b<t>a", b"\xc3", b"\xa9", b"\xc3\xa9<"]
# Special tokens without text; an id without text and without a name.
NAMED = lk.Vocabulary([*TEXT, None, None, None, None], eos_ids=[14], special={"<t>": 13, "<e>": 14, "<o>": 15})
# The special token has its name as text, like Qwen3's `</think>`; another one does, but is not special.
SPELLED = lk.Vocabulary([*TEXT, b"<t>", None, b"<o>", None], eos_ids=[14], special={"<t>": 13, "<e>": 14})
# Some texts cannot be spelled: a `t` follows `<` only, `é` and `>` come with others only.
GAPS = lk.Vocabulary(
    [b"a", b"b", b"<t", b"<t>", b">b", b"ab", b"\xc3", b"\xa9a", None, None, None],
    eos_ids=[9],
    special={"<t>": 8, "<e>": 9, "<o>": 10},
)
VALUES = [b"[", b"]", b"{", b"}", b",", b":", b'"', b"true", b"null", b"false"]
CROSSING = [b'"a', b'":', b"[[", b"]]", b"],", b"]}", b"{}", b'{"', b'"a"', b"<[", b"]<", b"}>", b'b"}', b"a[]b", b"]>"]
JSON = lk.Vocabulary([*TEXT[:8], *VALUES, *CROSSING, None, None, None], eos_ids=[34], special={"<t>": 33, "<o>": 35})
# All bytes are tokens, so that no text is a dead end.
CROSSED = [token for token in (*TEXT, *VALUES, *CROSSING) if len(token) > 1]
BYTES = lk.Vocabulary(
    [*(bytes([b]) for b in range(256)), *CROSSED, None, None, None],
    eos_ids=[257 + len(CROSSED)],
    special={"<t>": 256 + len(CROSSED), "<o>": 258 + len(CROSSED)},
)
SHOWN = [0, 1, *b'ab<t>[]{},:"\xc3\xa9truefalsnoe', *range(256, BYTES.size)]
# EOS ids whose names languages use: one, and two.
ONE_END = lk.Vocabulary([*TEXT[:8], None, None, None], eos_ids=[8], pad_id=10, special={"<t>": 8, "<o>": 9})
TWO_ENDS = lk.Vocabulary([*TEXT[:8], None, None, None], eos_ids=[8, 9], special={"<t>": 8, "<o>": 9, "<e>": 10})
SECOND_END = lk.Vocabulary([*TEXT[:8], None, None, None], eos_ids=[9, 10], special={"<t>": 8, "<o>": 9, "<e>": 10})
