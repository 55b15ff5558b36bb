"""XGrammar beside this library on the same documents: the same verdicts, and the same masks along random texts.

`docs/structural-tags.md` lists where they differ, and who is right. Each of these differences is checked here.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

import logitkit as lk
from logitkit.errors import LogitkitError, PatternTooLarge
from tests.structural_tags.generated import format_of
from tests.structural_tags.test_formats import CASES
from tests.structural_tags.tokens import Walk, accepts, whole
from tests.structural_tags.xgrammar_matcher import (
    EOS,
    SPECIAL,
    SPECIAL_IDS,
    TEXT,
    PeerWalk,
    peer_accepts,
    shared_vocabulary,
)

STEPS = 30
# The first tokens are single characters.
SINGLE = 96
# No marker of the generated documents contains these.
NEUTRAL = frozenset(b"qrsuvwyz0 .,")
TOKEN_LEVEL = ("any_tokens", "token_triggered_tags", "token_dispatch")

# Cases that XGrammar does not read.
UNREAD = ("no end", "json without white space")


def spelled(text: str) -> list[int] | None:
    """Return the tokens of single characters, or None if the shared vocabulary lacks one."""
    data = [character.encode() for character in text]
    return [TEXT.index(one) for one in data] if all(one in TEXT for one in data) else None


@pytest.mark.parametrize(
    ("name", "format_", "texts"), [(c[0], c[1], [*c[2], *c[3]]) for c in CASES], ids=[c[0] for c in CASES]
)
def test_verdicts(name: str, format_: dict[str, Any], texts: list[str]) -> None:
    document = whole(format_)
    constraint = lk.from_structural_tag(document, shared_vocabulary())
    if name in UNREAD:
        with pytest.raises(RuntimeError, match=r"must be (non-empty|positive)"):
            PeerWalk(document)
        return
    for text in texts:
        tokens = spelled(text)
        if tokens is not None:
            assert accepts(constraint, tokens) == peer_accepts(document, tokens), text


def parts_of(value: Any) -> list[dict[str, Any]]:
    """Return all objects in a document."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    own = [value] if isinstance(value, dict) else []
    return [*own, *(found for part in inside for found in parts_of(part))]


def has_tokens(format_: dict[str, Any]) -> bool:
    return any("token" in part or part.get("type") in TOKEN_LEVEL for part in parts_of(format_))


def lost_in_repeat(format_: dict[str, Any]) -> bool:
    """Whether a token is named in a `repeat`, which XGrammar 0.2.8 does not look up."""
    return any(part.get("type") == "repeat" and has_tokens(part) for part in parts_of(format_))


# Several free texts that begin alike take too many states.
TOO_LARGE = (42, 57, 102, 138)


@pytest.mark.parametrize("seed", TOO_LARGE)
def test_documents_that_take_too_many_states_are_refused(seed: int) -> None:
    document = whole(format_of(random.Random(seed)))
    with pytest.raises(PatternTooLarge):
        lk.from_structural_tag(document, shared_vocabulary())


@pytest.mark.parametrize(
    "seed", [s for s in range(160) if s not in TOO_LARGE and not lost_in_repeat(format_of(random.Random(s)))]
)
def test_masks_along_random_texts(seed: int) -> None:
    chance = random.Random(seed)
    format_ = format_of(chance)
    document = whole(format_)
    constraint = lk.from_structural_tag(document, shared_vocabulary())
    exact = not any(part.get("type") in TOKEN_LEVEL for part in parts_of(format_))
    for _ in range(4):
        ours, theirs, taken = Walk(constraint), PeerWalk(document), list[int]()
        for _ in range(STEPS):
            mine, others = ours.allowed(), theirs.allowed()
            # A token that begins in a text and ends in free tokens is one of the listed differences.
            crossing = {token for token in mine - others if not exact and token < len(TEXT) and len(TEXT[token]) > 1}
            assert mine - crossing == others, (document, taken)
            pending = bool(taken) and (taken[-1] >= len(TEXT) or TEXT[taken[-1]][-1] not in NEUTRAL)
            options = [t for t in sorted(others) if t < len(TEXT) or (t != EOS and (not pending or len(others) < 40))]
            options = [t for t in options if exact or not SINGLE <= t < len(TEXT)]
            if not options:
                break
            taken.append(chance.choice(options))
            assert ours.take(taken[-1])
            assert theirs.take(taken[-1])


EXACT = {"type": "exclude_token", "exclude_tokens": ["<think>"]}


def token(name: str) -> dict[str, Any]:
    return {"type": "token", "token": name}


def thought(content: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tag", "begin": token("<think>"), "content": content, "end": token("</tool>")}


NESTED = {"type": "grammar", "grammar": 'root ::= "(" root* ")" | [ab]{1,2} ";"?'}
TOKENS_AND_GRAMMARS: list[dict[str, Any]] = [
    EXACT,
    {"type": "exclude_token"},
    {
        "type": "sequence",
        "elements": [{"type": "const_string", "value": "ab"}, EXACT, {"type": "const_string", "value": "x;"}],
    },
    thought(EXACT),
    thought({"type": "star", "content": EXACT}),
    thought({"type": "plus", "content": {"type": "exclude_token", "exclude_tokens": [5]}}),
    {"type": "optional", "content": {"type": "sequence", "elements": [token("<tool>"), EXACT, token("<tool>")]}},
    {
        "type": "or",
        "elements": [
            {"type": "sequence", "elements": [EXACT, {"type": "const_string", "value": "a"}]},
            {"type": "sequence", "elements": [token("<think>"), {"type": "const_string", "value": "b"}]},
        ],
    },
    NESTED,
    {"type": "tag", "begin": "<a>", "content": NESTED, "end": "</a>"},
    {"type": "star", "content": {"type": "sequence", "elements": [NESTED, {"type": "const_string", "value": ">x"}]}},
]


@pytest.mark.parametrize("format_", TOKENS_AND_GRAMMARS, ids=range(len(TOKENS_AND_GRAMMARS)))
def test_masks_of_single_tokens_and_grammars(format_: dict[str, Any]) -> None:
    chance, document = random.Random(0), whole(format_)
    constraint = lk.from_structural_tag(document, shared_vocabulary())
    for _ in range(30):
        ours, theirs = Walk(constraint), PeerWalk(document)
        for _ in range(STEPS):
            allowed = ours.allowed()
            assert allowed == theirs.allowed()
            options = sorted(allowed - {EOS})
            if not options:
                break
            short = [t for t in options if t >= len(TEXT) or TEXT[t] in (b"<", b"<a", b">", b"(", b")", b"a", b";")]
            taken = chance.choice(short if short and chance.random() < 0.7 else options)
            assert ours.take(taken)
            assert theirs.take(taken)


def of(*pieces: str) -> list[int]:
    found = []
    for piece in pieces:
        whole_token = SPECIAL_IDS.get(piece)
        if whole_token is None and piece.encode() in TEXT:
            whole_token = TEXT.index(piece.encode())
        found.extend([whole_token] if whole_token is not None else spelled(piece) or [])
    return found


TAG = {"begin": "<a>", "content": {"type": "any_text"}, "end": ";"}
PERSON = {"type": "object", "properties": {"a": {"type": "integer"}}}
XML = {"type": "json_schema", "json_schema": {**PERSON, "required": ["a"]}, "style": "qwen_xml"}
KIMI = {"type": "json_schema", "json_schema": {"type": "object"}, "style": "kimi_k3_xml"}
COHERE = {**XML, "style": "cohere_xml"}
FIXED = {"type": "object", "properties": {"a": {"const": {"b": 1}}}, "required": ["a"]}
UNIQUE = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}
SELF = {"type": "object", "properties": {"a": {"$ref": "#"}}}
NUMBERS = {"a": {"type": "integer"}, "b": {"type": "integer"}}
ANY_ORDER = {
    "type": "json_schema",
    "json_schema": {"type": "object", "properties": NUMBERS, "required": ["a", "b"], "additionalProperties": False},
    "any_order": True,
}
RULES = [["abc", {"type": "const_string", "value": "d"}], ["ab", {"type": "const_string", "value": "e"}]]
CHANGED = {"type": "sequence", "elements": [{"type": "regex", "pattern": "[0-9]"}, {"type": "any_tokens"}]}
CUT = {"type": "star", "content": {"type": "any_text", "excludes": ["<tool>"]}}
TRIGGERED = {
    "type": "token_triggered_tags",
    "trigger_tokens": ["</tool>"],
    "tags": [{"type": "tag", "begin": {"token": "</tool>"}, "content": TAG["content"], "end": {"token": "<think>"}}],
}
IN_TAG = {"type": "tag", "begin": {"token": "<tool>"}, "content": TRIGGERED, "end": {"token": "</tool>"}}
LIMITED = {"type": "any_text", "max_tokens": 5}
NAMED = {"type": "star", "content": {"type": "const_string", "value": "</tool>x"}}
TWICE = {
    "type": "plus",
    "content": {"type": "tag", "begin": {"token": "<think>"}, "content": NAMED, "end": {"token": "</tool>"}},
}

# The lines of the page: the format, the pieces of the text, what this library says, and what XGrammar says.
LISTED: list[tuple[dict[str, Any], tuple[str, ...], bool, bool]] = [
    ({"type": "json_schema", "json_schema": PERSON}, ('{"b":1}',), True, False),
    ({"type": "json_schema", "json_schema": PERSON}, ('{ "a" : 1 }',), False, True),
    ({"type": "json_schema", "json_schema": {"type": "string"}}, (r'"\u0061"',), False, True),
    ({"type": "json_schema", "json_schema": {"type": "string"}}, ('"', "<tool>", '"'), False, True),
    ({"type": "regex", "pattern": ".*"}, ("<tool>",), False, True),
    ({"type": "any_text", "max_chars": 9}, ("<tool>",), False, True),
    ({"type": "regex", "pattern": "a.b"}, ("a\nb",), False, True),
    (XML, ("<parameter=a> 1\n</parameter>",), False, True),
    (KIMI, ('<|open|>argument key="a" type="integer"<|sep|>1<|close|>argument<|sep|>',), False, True),
    (KIMI, ('<|open|>argument key="a" type="number"<|sep|> 1<|close|>argument<|sep|>',), False, True),
    (KIMI, ('<|open|>argument key="a" type="number"<|sep|>1<|close|>argument<|sep|>',), True, True),
    (COHERE, ('<cofl:value name="a" type="json">1 </cofl:value>',), False, True),
    (COHERE, ('<cofl:value name="a" type="json">1</cofl:value>',), True, True),
    ({**COHERE, "json_schema": FIXED}, ('<cofl:value name="a" type="json">{"b":1}</cofl:value>',), False, True),
    (
        {**COHERE, "json_schema": FIXED},
        ('<cofl:value name="a" type="dict"><cofl:value name="b" type="json">1</cofl:value></cofl:value>',),
        True,
        False,
    ),
    (ANY_ORDER, ('{"b":1,"a":2}',), True, True),
    (ANY_ORDER, ('{"a":1,"a":2}',), False, True),
    (
        {**ANY_ORDER, "style": "minimax_xml"},
        ('<parameter name="b">1</parameter><parameter name="a">2</parameter>',),
        True,
        True,
    ),
    (XML, ("<parameter=a>\n1\n</parameter>",), True, True),
    ({"type": "dispatch", "rules": RULES}, ("abcd",), False, True),
    ({"type": "dispatch", "rules": RULES}, ("abe",), True, True),
    (
        {"type": "dispatch", "rules": [["ab", {"type": "const_string", "value": "c"}]]},
        ("a", "<tool>", "bz"),
        False,
        True,
    ),
    (CHANGED, ("1;",), True, False),
    (CHANGED, ("1", ";"), True, True),
    ({"type": "any_text", "excludes": ["<to"]}, ("<tool>",), True, False),
    (CUT, ("<tool>",), False, True),
    (CUT, ("<", "t", "o", "o", "l", ">"), True, True),
    (TWICE, ("<think>", "</tool>", "<think>", "</", "t", "o", "o", "l", ">", "x", "</tool>"), True, False),
    (TWICE, ("<think>", "</", "t", "o", "o", "l", ">", "x", "</tool>"), True, True),
    (IN_TAG, ("<tool>", "</tool>"), True, True),
    (IN_TAG, ("<tool>", "</tool>", "a", "<think>", "</tool>"), False, True),
]


@pytest.mark.parametrize(("format_", "pieces", "mine", "others"), LISTED, ids=range(len(LISTED)))
def test_listed_differences(format_: dict[str, Any], pieces: tuple[str, ...], mine: bool, others: bool) -> None:
    document = whole(format_)
    assert accepts(lk.from_structural_tag(document, shared_vocabulary()), of(*pieces)) is mine
    assert peer_accepts(document, of(*pieces)) is others


# Documents that only one of the two reads: whether XGrammar does.
READ: list[tuple[dict[str, Any], bool, bool]] = [
    ({"type": "tag", **TAG, "end": ""}, True, False),
    ({"type": "triggered_tags", "triggers": ["<a", "<b"], "tags": [TAG]}, True, False),
    (
        {"type": "repeat", "min": 1, "max": 1, "content": {"type": "any_tokens", "exclude_tokens": ["<tool>"]}},
        True,
        True,
    ),
    ({"type": "json_schema", "json_schema": {"type": "integer"}, "max_whitespace_cnt": 0}, True, False),
    ({"type": "or", "elements": [EXACT, {"type": "const_string", "value": "a"}]}, False, True),
    ({"type": "sequence", "elements": [NESTED, {"type": "any_text"}]}, False, True),
    ({"type": "sequence", "elements": [{"type": "optional", "content": TAG}, LIMITED]}, False, True),
    ({"type": "const_string", "value": "a", "values": 3}, False, True),
    ({**COHERE, "json_schema": UNIQUE}, False, True),
    ({**COHERE, "json_schema": SELF}, False, True),
    ({"type": "any_text", "excludes": [""]}, False, True),
]


@pytest.mark.parametrize(("format_", "mine", "others"), READ, ids=range(len(READ)))
def test_documents_that_only_one_reads(format_: dict[str, Any], mine: bool, others: bool) -> None:
    document = whole(format_)
    for reads, make in (
        (mine, lambda: lk.from_structural_tag(document, shared_vocabulary())),
        (others, lambda: PeerWalk(document)),
    ):
        if reads:
            make()
        else:
            with pytest.raises((LogitkitError, RuntimeError)):
                make()


def test_the_vocabularies_are_one() -> None:
    assert shared_vocabulary().size == len(TEXT) + len(SPECIAL)
    assert PeerWalk(whole({"type": "any_text"})).allowed() == set(range(shared_vocabulary().size))
