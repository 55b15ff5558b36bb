r"""Patterns with surrogates as JavaScript reads them: with the flag `u`, or over UTF-16 code units, by `re` and by node."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

from hypothesis import strategies as st

from tests.json_schema.ecma import python_pattern

NODE = shutil.which("node")

TEXTS = ["", "a", "b", "\ud7ff", "\uffff", "🌀", "🌁", "🏿", "😀", "𐀀", "🌀🌀", "🌀a", "a🌀", "😀🌁b", "🇦🇧", "\n"]

# Patterns, whether they are read with the flag u, and which of `TEXTS` match, as node 20 says. The campaign asks node again.
MATCHED: list[tuple[str, bool, str]] = [
    (r"^\ud83c\udf00$", True, "🌀"),
    (r"^\ud83c\udf00+$", True, "🌀 🌀🌀"),
    (r"^[\ud83c\udf00]+$", True, "🌀 🌀🌀"),
    (r"^[\uD800\uDC00-\uDBFF\uDFFF]$", True, "🌀 🌁 🏿 😀 𐀀"),
    (r"^[^\ud800-\udfff]$", True, "a b \ud7ff \uffff 🌀 🌁 🏿 😀 𐀀 \n"),
    ("^\ud83c\udf00{2}$", True, "🌀🌀"),
    (r"^\ud83c[\udf00-\udfff]$", False, "🌀 🌁 🏿"),
    ("^\ud83c[\udf00-\udfff]$", False, "🌀 🌁 🏿"),
    ("^\ud83c\\udf00$", False, "🌀"),
    (r"^\ud83c[\udf00-\udfff]+$", False, "🌀 🌁 🏿"),
    (r"^(?:\ud83c[\udf00-\udfff])+$", False, "🌀 🌁 🏿 🌀🌀"),
    (r"^(?:a|\ud83c[\udf00-\udfff]){2}$", False, "🌀🌀 🌀a a🌀"),
    (r"^[\ud83c\udf00-\udfff]+$", False, "🌀 🌁 🏿 🌀🌀"),
    (r"^[\ud800-\udbff][\udc00-\udfff]$", False, "🌀 🌁 🏿 😀 𐀀"),
    (r"^(?:[^\ud800-\udfff]|[\ud800-\udbff][\udc00-\udfff])$", False, "a b \ud7ff \uffff 🌀 🌁 🏿 😀 𐀀 \n"),
    (r"^(?:(?![\ud83c-\udbff][\udc00-\udfff])[^])*$", False, " a b \ud7ff \uffff 𐀀 \n"),
    (r"\udf00", False, "🌀 🌀🌀 🌀a a🌀"),
    (r"(?<=\ud83c)\udf01", False, "🌁 😀🌁b"),
    (r"^.\udf00$", False, "🌀"),
    (r"^\ud83c", False, "🌀 🌁 🏿 🌀🌀 🌀a 🇦🇧"),
    (r"^(?:😀?\ud83c[^\ud83d]|\ud800.)b?$", False, "𐀀 😀🌁b"),
]

_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_HALF = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}|[\ud800-\udfff]")

ATOMS = r"""
\ud83c \udf00 \uDF01 [\udf00-\udfff] [\ud800-\udbff] [\ud83c\udf00] [^\ud83c\udf00] [^\ud83c] [^\ud800-\udfff]
[\ud83c\udf00-\udfff] [a\ud83c] [a\ud83d-\udc00b] \ud83c\udf00 \ud83c[\udf00-\udf01] \ud83c\udf00+ 🌀 [🌀a] 😀?
a b . [^a] [^] \w \D \S ^ $ \b (?<=\ud83c) (?!\udf00) (?<!a)
"""
_COMPOSED = st.recursive(
    st.sampled_from([*ATOMS.split(), "\ud83c", "\udf00", "[\udf00-\udfff]"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"({two[0]}|{two[1]})"),
        inner.map(lambda node: f"(?:{node})*"),
        inner.map(lambda node: f"(?:{node}){{1,2}}"),
        inner.map(lambda node: f"(?={node})"),
        inner.map(lambda node: f"^{node}$"),
    ),
    max_leaves=6,
)
PATTERNS = st.one_of(_COMPOSED, _COMPOSED, _COMPOSED, st.sampled_from([pattern for pattern, _, _ in MATCHED]))


def is_without_the_flag(pattern: str) -> bool:
    r"""Whether a pattern of these atoms has a half that stands alone, not in a class that excludes it.

    Example:
        >>> is_without_the_flag(r"\ud83c\udf00[^\ud83c]"), is_without_the_flag(r"\ud83c[\udf00]")
        (False, True)
    """
    whole = _PAIR.sub("P", _joined(pattern))
    return _HALF.search(re.sub(r"\[\^[^\]]*\]", "", whole)) is not None


def found_by_re(pattern: str, text: str) -> bool:
    """Whether JavaScript finds a pattern in a text, by `re` on a text of code units or of characters."""
    if is_without_the_flag(pattern):
        return re.search(python_pattern(_units(pattern)), _units(text)) is not None
    with_flag = _PAIR.sub(lambda pair: rf"\u{{{ord(_decoded(pair[0])):x}}}", _joined(pattern))
    return re.search(python_pattern(with_flag), text) is not None


def found_by_node(cases: list[tuple[str, list[str]]]) -> list[list[bool]]:
    """Ask node, with the flag or without it, which of the texts have each pattern in them."""
    assert NODE is not None
    given = [[pattern, "" if is_without_the_flag(pattern) else "u", texts] for pattern, texts in cases]
    script = "console.log(JSON.stringify(GIVEN.map(([p, f, texts]) => texts.map(t => new RegExp(p, f).test(t)))))"
    written = f"const GIVEN = {json.dumps(given)};\n{script}"
    done = subprocess.run([NODE], input=written, capture_output=True, text=True, check=True)
    verdicts: list[list[bool]] = json.loads(done.stdout)
    return verdicts


def _joined(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _decoded(escapes: str) -> str:
    text: str = json.loads(f'"{escapes}"')
    return text


def _units(text: str) -> str:
    encoded = text.encode("utf-16-le", "surrogatepass")
    return "".join(chr(int.from_bytes(encoded[at : at + 2], "little")) for at in range(0, len(encoded), 2))
