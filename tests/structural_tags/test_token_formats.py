"""Each format of single tokens, by pieces that belong to it and pieces that do not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.structural_tags.test_formats import ANY, NUMBER, const
from tests.structural_tags.tokens import SPECIAL_IDS, accepts, made, tokens_of

TOOL = {"begin": {"type": "token", "token": "<tool>"}, "content": NUMBER, "end": {"type": "token", "token": "</tool>"}}
THINK = {"type": "tag", "begin": {"token": "<think>"}, "content": {"type": "any_tokens"}, "end": {"token": "<tool>"}}
Pieces = tuple[str | bytes, ...]
TOKENS: list[tuple[str, dict[str, Any], list[Pieces], list[Pieces]]] = [
    ("token", {"type": "token", "token": "<tool>"}, [("<tool>",)], [("<", "tool>"), (), ("<tool>", "<tool>")]),
    ("token by id", {"type": "token", "token": 97}, [("a",)], [("b",), ("aa",)]),
    (
        "exclude_token",
        {"type": "exclude_token"},
        [("a",), ("<tool>",), (b"x\xc3",), (b"\xff",)],
        [(), ("a", "b"), ("<eos>",)],
    ),
    (
        "exclude_token in a tag",
        {**THINK, "content": {"type": "exclude_token", "exclude_tokens": ["</tool>", 98]}},
        [("<think>", "a", "<tool>"), ("<think>", "ab", "<tool>"), ("<think>", "<think>", "<tool>")],
        [
            ("<think>", "<tool>"),
            ("<think>", "b", "<tool>"),
            ("<think>", "<tool>", "<tool>"),
            ("<think>", "a", "a", "<tool>"),
        ],
    ),
    (
        "at most two tokens",
        {**THINK, "content": {"type": "repeat", "min": 0, "max": 2, "content": {"type": "exclude_token"}}},
        [("<think>", "<tool>"), ("<think>", "ab", "</tool>", "<tool>")],
        [("<think>", "a", "a", "a", "<tool>"), ("<think>", "a")],
    ),
    (
        "any_tokens",
        {"type": "any_tokens", "exclude_tokens": ["<tool>", 98]},
        [(), ("<think>", "a", "</tool>"), ("ab", "<", "tool>")],
        [("<tool>",), ("a", "b")],
    ),
    (
        "any_tokens in a tag",
        THINK,
        [("<think>", "a", "<think>", "<tool>")],
        [("<think>", "<tool>", "<tool>"), ("<think>",)],
    ),
    (
        "few tokens without a tag",
        {"type": "any_text", "max_tokens": 2, "excludes": ["ab"]},
        [(), ("a", "<tool>"), ("a>", "a>")],
        [("a", "a", "a"), ("ab",)],
    ),
    ("no tokens without a tag", {"type": "any_tokens", "max_tokens": 0}, [()], [("a",)]),
    (
        "few tokens before a token",
        {
            "type": "sequence",
            "elements": [
                {"type": "any_tokens", "max_tokens": 2, "exclude_tokens": ["<tool>"]},
                {"type": "token", "token": "<tool>"},
            ],
        },
        [("<tool>",), ("ab", "</tool>", "<tool>")],
        [("a", "a", "a", "<tool>"), ("<tool>", "<tool>"), ("a", "a")],
    ),
    (
        "few tokens in a tag that may end anywhere",
        {"type": "tag", "begin": "(", "content": {"type": "any_text", "max_tokens": 1}, "end": ""},
        [("(",), ("(", "ab")],
        [("(", "a", "b"), ("a",)],
    ),
    (
        "few tokens",
        {**THINK, "content": {"type": "any_tokens", "max_tokens": 2, "exclude_tokens": [98]}},
        [("<think>", "<tool>"), ("<think>", "ab", "</tool>", "<tool>")],
        [("<think>", "a", "a", "a", "<tool>"), ("<think>", "b", "<tool>")],
    ),
    (
        "no tokens",
        {"type": "tag", "begin": "(", "content": {"type": "any_text", "max_tokens": 0}, "end": [")", ";"]},
        [("(", ")"), ("(", ";")],
        [("(", "a", ")"), ("(",)],
    ),
    (
        "text of few tokens",
        {"type": "tag", "begin": "<think>", "content": {"type": "any_text", "max_tokens": 2}, "end": "</tool>"},
        [("<think>", "</tool>"), ("<think>", "a", "</tool>")],
        [("<think>", "a", "a", "a", "</tool>"), ("<think>",)],
    ),
    (
        "text of few tokens without its end",
        {
            "type": "tag",
            "begin": "<think>",
            "content": {
                "type": "any_text",
                "max_tokens": 2,
                "max_chars": None,
                "excludes": ["</tool>", "b", "x</tool>y"],
            },
            "end": "</tool>",
        },
        [("<think>", "</tool>"), ("<think>", "a", "</tool>")],
        [("<think>", "b", "</tool>"), ("<think>", "a", "a", "a", "</tool>")],
    ),
    (
        "names in texts",
        {"type": "tag", "begin": "<tool>", "content": ANY, "end": "\n</tool>"},
        [
            ("<tool>", "x", "\n", "</tool>"),
            ("<", "tool>", "<think>", "\n</to", "ol>"),
            ("<tool>", "</tool>", "\n</", "tool>"),
        ],
        [("<tool>", "\n", "</tool>", "x"), ("<tool>", "</tool>")],
    ),
    (
        "token_triggered_tags",
        {"type": "token_triggered_tags", "trigger_tokens": ["<tool>"], "tags": [TOOL], "exclude_tokens": ["<think>"]},
        [(), ("x", "<", "tool>"), ("x", "<tool>", "1", "</tool>", "</tool>", "<tool>", "2", "</tool>")],
        [("<tool>",), ("<think>",), ("<tool>", "x", "</tool>"), ("<tool>", "1", "</", "tool>")],
    ),
    (
        "token_triggered_tags, one",
        {
            "type": "token_triggered_tags",
            "trigger_tokens": ["<tool>"],
            "tags": [TOOL],
            "at_least_one": True,
            "stop_after_first": True,
        },
        [("<tool>", "1", "</tool>")],
        [(), ("x", "<tool>", "1", "</tool>"), ("<tool>", "1", "</tool>", "x")],
    ),
    (
        "token_triggered_tags in a tag",
        {
            **THINK,
            "content": {
                "type": "token_triggered_tags",
                "trigger_tokens": ["</tool>"],
                "tags": [
                    {"begin": {"token": "</tool>"}, "content": const("x"), "end": ";"},
                ],
            },
        },
        [("<think>", "<tool>"), ("<think>", "a", "</tool>", "x;", "b", "<tool>")],
        [("<think>", "<tool>", "<tool>"), ("<think>", "</tool>", "<tool>")],
    ),
    (
        "token_dispatch",
        {
            "type": "token_dispatch",
            "rules": [["<tool>", NUMBER], [SPECIAL_IDS["<think>"], const("x")]],
            "exclude_tokens": [98],
        },
        [(), ("<tool>", "1", "a", "<think>", "x")],
        [("<tool>", "a"), ("<think>",), ("b",)],
    ),
    (
        "token_dispatch once",
        {"type": "token_dispatch", "rules": [["<tool>", NUMBER]], "loop": False},
        [("a",), ("a", "<tool>", "1")],
        [("<tool>", "1", "a")],
    ),
    (
        "a name that begins in a trigger",
        {
            "type": "triggered_tags",
            "triggers": ["!<to"],
            "tags": [{"begin": "!<tool>{", "content": NUMBER, "end": "}"}],
        },
        [("!", "<tool>", "{", "1", "}"), ("a!<to", "ol>{1}"), ("<tool>",), ("!", "<think>")],
        [("!", "<tool>"), ("!", "<tool>", "1"), ("!<to",)],
    ),
]


@pytest.mark.parametrize(("format_", "good", "bad"), [case[1:] for case in TOKENS], ids=[case[0] for case in TOKENS])
def test_tokens_of_a_format(format_: dict[str, Any], good: list[Pieces], bad: list[Pieces]) -> None:
    constraint = made(format_)
    assert [pieces for pieces in good if not accepts(constraint, tokens_of(*pieces))] == []
    assert [pieces for pieces in bad if accepts(constraint, tokens_of(*pieces))] == []
