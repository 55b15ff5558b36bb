"""Syntax trees are as small as the order of the search allows, with flags and groups resolved."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from logitkit.patterns import (
    ANY,
    Alternate,
    Anchor,
    Atomic,
    Characters,
    CharSet,
    Concat,
    Empty,
    Look,
    Node,
    Repeat,
    parse,
    perl_class,
)


def _one(characters: str) -> Characters:
    return Characters(CharSet.from_string(characters))


A, B, C = _one("a"), _one("b"), _one("c")


@pytest.mark.parametrize(
    ("pattern", "tree"),
    [
        ("", Empty()),
        ("()", Empty()),
        ("a", A),
        ("(((a)))", A),
        ("ab", Concat((A, B))),
        ("a(?:bc)", Concat((A, B, C))),
        ("a()b", Concat((A, B))),
        ("a|", Alternate((A, Empty()))),
        ("a|b|c", _one("abc")),
        ("a|b|cc|(?:a|b)", Alternate((_one("ab"), Concat((C, C)), _one("ab")))),
        ("cc|(?:aa|b)", Alternate((Concat((C, C)), Concat((A, A)), B))),
        ("a*", Repeat(A, 0, None)),
        ("a+?", Repeat(A, 1, None, "lazy")),
        ("a{2}", Repeat(A, 2, 2)),
        ("a{,3}", Repeat(A, 0, 3)),
        ("a{,}", Repeat(A, 0, None)),
        ("a{1}", A),
        ("a{0}", Empty()),
        ("(?:){3,}", Empty()),
        ("a{1000000}", Repeat(A, 1000000, 1000000)),
        ("(?:a*)*", Repeat(Repeat(A, 0, None), 0, None)),
        ("a*+", Atomic(Repeat(A, 0, None), 1)),
        ("(?:ab)?+", Atomic(Repeat(Atomic(Concat((A, B)), 6), 0, 1), 6)),
        ("(?:ab){2}+", Repeat(Atomic(Concat((A, B)), 6), 2, 2)),
        ("(?>a)", A),
        ("x(?>ab)", Concat((_one("x"), Atomic(Concat((A, B)), 1)))),
        ("(?=a)", Look(A, behind=False, negative=False, position=0)),
        ("(?!a)", Look(A, behind=False, negative=True, position=0)),
        ("(?<=a)", Look(A, behind=True, negative=False, position=0)),
        ("b(?<!a)", Concat((B, Look(A, behind=True, negative=True, position=1)))),
        ("(?=)", Empty()),
        ("(?!)", Characters(CharSet())),
        ("(?=a)*", Empty()),
        ("(?=a){2,}", Look(A, behind=False, negative=False, position=0)),
        ("(?:^$)+", Concat((Anchor("text_start", 3), Anchor("final", 4)))),
        (r"\A\Z", Concat((Anchor("text_start", 0), Anchor("text_end", 2)))),
        ("(?m)^$", Concat((Anchor("line_start", 4), Anchor("line_end", 5)))),
        ("(?m:^)$", Concat((Anchor("line_start", 4), Anchor("final", 6)))),
        (r"\b", Anchor("boundary", 0, perl_class("w", ascii_only=False))),
        (r"(?a)\B", Anchor("not_boundary", 4, perl_class("w", ascii_only=True))),
        (".", Characters(~CharSet.from_string("\n"))),
        ("(?s).", Characters(ANY)),
        ("(?s)(?-s:.)", Characters(~CharSet.from_string("\n"))),
        ("(?x) a  b # c", Concat((A, B))),
        (r"(?x)a\ [ ]", Concat((A, _one(" "), _one(" ")))),
        ("(?x:a b)c ", Concat((A, B, C, _one(" ")))),
        ("a(?#b)c", Concat((A, C))),
        ("a(?#b)*", Repeat(A, 0, None)),
        ("(?x)a *", Repeat(A, 0, None)),
        ("a{x", Concat((A, _one("{"), _one("x")))),
        ("(?ia)k", _one("kK")),
        ("(?i)k", _one("kK\u212a")),
        ("(?i:a)a", Concat((_one("aA"), A))),
        (r"\x61\u0062\U00000063\141\N{DIGIT ONE}", Concat((A, B, C, A, _one("1")))),
        (r"\0\07\a[\b]", Concat((_one("\0"), _one("\x07"), _one("\x07"), _one("\b")))),
    ],
)
def test_tree(pattern: str, tree: Node) -> None:
    assert parse(pattern) == tree


def test_ascii_space_has_no_separators() -> None:
    r"""`\s` holds the separators 1C to 1F in Unicode, but not under `(?a)`, though they are ASCII."""
    assert parse(r"(?a)\s") == _one(" \t\n\r\f\v")
    assert 0x1C in perl_class("s", ascii_only=False)


def test_a_thousand_words() -> None:
    words = [f"word{number}" for number in range(1000)]
    tree = parse("|".join(words))
    assert isinstance(tree, Alternate)
    assert tree.options == tuple(parse(word) for word in words)


def test_unicode_tables_wait_for_their_first_use() -> None:
    script = (
        "from logitkit.patterns import parser, case_folding, unicode_classes as u\n"
        "caches = (u.perl_class, u.category_class, u._categories, case_folding.case_table)\n"
        "assert [c.cache_info().currsize for c in caches] == [0] * 4\n"
        "parser.parse('[a-c]{2}|x')\n"
        "assert [c.cache_info().currsize for c in caches] == [0] * 4\n"
        r"parser.parse(r'(?i)\p{Lu}\d')" + "\n"
        "assert all(c.cache_info().currsize for c in caches)\n"
    )
    root = Path(__file__).resolve().parents[2] / "processors"
    subprocess.run([sys.executable, "-c", script], check=True, cwd=root)
