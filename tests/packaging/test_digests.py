"""Nothing is merged by a digest without comparing: a whole SHA-256 may decide, and every other digest only proposes.

Input may come from an attacker, who can find two different inputs with the same short digest or the same sum. So each place in
the code that uses another digest is listed here, with the reason why it decides nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.docs.pages import ROOT

SOURCES = (ROOT / "processors/logitkit", ROOT / "adapters/logitkit_adapters")

# Functions whose results are short, weak, or sums.
WEAK = {"adler32", "blake2b", "blake2s", "checksum", "crc32", "digest_of_pairs", "hash", "md5", "sha1", "sums_by_run"}

ALLOWED = {
    "compiler/tokens/fragments/fragment_tokens.py digest_of_pairs": "`distinct_sets` compares the sets",
    "compiler/tokens/fragments/fragment_tokens.py sums_by_run": "`distinct_sets` compares the sets",
    "compiler/tokens/linking/linked_classes.py digest_of_pairs": "`distinct_sets` compares the sets",
    "compiler/tokens/linking/linked_classes.py sums_by_run": "`distinct_sets` compares the sets",
    "compiler/tokens/linking/linked_fragment.py digest_of_pairs": "`distinct_sets` compares the sets",
    "compiler/tokens/linking/joined_tables.py digest_of_pairs": "`distinct_sets` compares the sets",
    "compiler/tokens/tables/token_automaton.py hash": "`equals` compares all arrays of automata whose sizes are equal",
    "constraints/dfa.py hash": "only asks whether a state can be hashed",
    "patterns/charset.py hash": "the hash of an object, which dictionaries compare by its ranges",
    "runtime/row_mask.py hash": "masks with equal samples are compared in full",
    "tokens/bias.py hash": "the hash of an object, which dictionaries compare by its bias",
    "tokens/sequence_bias.py hash": "the hash of an object, which dictionaries compare by its bias",
    "tracking/requests.py blake2b": "the number of a random stream",
    "vocabulary/vocabulary.py hash": "the hash of an object, which dictionaries compare by its SHA-256",
    "demo/cached_files.py part of a digest": "the name of a file that the user's process writes and compares with its content",
    "mlx/weights.py checksum": "against mistakes, since a state's file is not signed: see `sessions.checksum`",
    "transformers/model.py checksum": "against mistakes, since a state's file is not signed: see `sessions.checksum`",
    "vllm/requests.py blake2b": "the number of a random stream",
}


def weak_digests(tree: ast.AST) -> Iterator[str]:
    """Yield the name of each weak digest that a program calls, and "part of a digest" where it cuts one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in WEAK:
                yield called
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Call):
            called = getattr(node.value.func, "attr", "")
            if called in ("digest", "hexdigest"):
                yield "part of a digest"


def found() -> set[str]:
    return {
        f"{path.relative_to(source)} {name}"
        for source in SOURCES
        for path in source.rglob("*.py")
        for name in weak_digests(ast.parse(path.read_text("utf-8")))
    }


def test_every_weak_digest_has_a_reason() -> None:
    assert found() == {*ALLOWED}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import hashlib; hashlib.sha256(b'').digest()", []),
        ("import hashlib; hashlib.sha256(b'').hexdigest()[:8]", ["part of a digest"]),
        ("from zlib import crc32; crc32(b'')", ["crc32"]),
        ("import zlib; {zlib.adler32(b''): 1}", ["adler32"]),
        ("hash((1, 2))", ["hash"]),
    ],
)
def test_weak_digests_are_found(code: str, expected: list[str]) -> None:
    assert list(weak_digests(ast.parse(code))) == expected


def test_a_random_number_for_each_pair_is_in_one_place() -> None:
    """Sums of pseudorandom numbers need multipliers of 64 bits, which no other file of the compiler has."""
    long = {
        str(path.relative_to(SOURCES[0]))
        for path in (SOURCES[0] / "compiler").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value > 2**63
    }
    assert long == {"compiler/tokens/effects/distinct_sets.py"}
