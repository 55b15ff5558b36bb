"""Random documents, in which XGrammar and this library mean the same by every format.

Schemas have no objects, lists and free strings, which have more spellings in XGrammar. Patterns have no `.`, no
trigger or end contains another one, and no text ends where a special token could go on, as XGrammar knows these by their text.
"""

from __future__ import annotations

import random
from typing import Any

BEGINS = ("<a>", "<ab>", "<f=g>{", "x<f=h>", "<tool>", "<think>\n", "(")
ENDS = ("</a>", ";", "}", "aa", "</tool>", ")!")
WORDS = ("a", "b", ";", "ab;", "<a", "1", "<tool>", "</tool>x", "\n")
PATTERNS = ("[0-9]+", "a{1,3}b?", "(x|;)*", "[a-c]*!", "[^;<]{0,2}", "ab|a")
TOKENS = ("<tool>", "</tool>", "<think>")
SCHEMAS: tuple[Any, ...] = (
    {"type": "integer"},
    {"enum": ["a", "ab", 1, None]},
    {"const": "ab;"},
    {"type": "boolean"},
)


def format_of(chance: random.Random, depth: int = 3, level: str = "text") -> dict[str, Any]:
    """Return a random format.

    Args:
        chance: The source of randomness.
        depth: The most formats inside each other.
        level: `text`, or `tokens` where free tokens may stand, as in a tag that ends with a token.
    """
    plain = ("const_string", "json_schema", "regex", "any_text")
    nested: tuple[str, ...] = (
        "sequence",
        "or",
        "optional",
        "plus",
        "star",
        "repeat",
        "tag",
        "triggered_tags",
        "tags_with_separator",
    )
    nested = (*nested, "dispatch", "token_triggered_tags", "token_dispatch", "token tag")
    kind = chance.choice(nested if depth and chance.random() < 0.75 else plain)
    if kind == "any_text" and level == "tokens":
        kind = "any_tokens"

    def inside(level: str = level) -> dict[str, Any]:
        return format_of(chance, depth - 1, level)

    def tag(begin: str, level: str = "text") -> dict[str, Any]:
        end: Any = chance.choice([*ENDS, chance.sample(ENDS, 2)])
        return {"begin": begin, "content": inside(level), "end": end}

    def token_tag(begin: str) -> dict[str, Any]:
        ends = [token for token in TOKENS if token != begin]
        return {"begin": {"token": begin}, "content": inside("tokens"), "end": {"token": chance.choice(ends)}}

    def flags() -> dict[str, Any]:
        return {"at_least_one": chance.random() < 0.4, "stop_after_first": chance.random() < 0.4}

    fields: dict[str, Any]
    match kind:
        case "const_string":
            fields = {"value": chance.choice(WORDS)}
        case "json_schema":
            fields = {"json_schema": chance.choice(SCHEMAS)}
        case "regex":
            fields = {"pattern": chance.choice(PATTERNS)}
        case "any_text":
            fields = {"excludes": chance.sample(("<a", ";", "ab", "x"), chance.randrange(3))}
        case "any_tokens":
            fields = {"exclude_tokens": chance.sample(TOKENS, chance.randrange(3))}
        case "sequence" | "or":
            fields = {"elements": [inside() for _ in range(chance.randint(1, 3))]}
        case "optional" | "plus" | "star":
            fields = {"content": inside()}
        case "repeat":
            least = chance.randrange(3)
            fields = {"min": least, "max": chance.choice((-1, least, least + 1, least + 2)), "content": inside()}
        case "tag":
            fields = tag(chance.choice(BEGINS))
        case "token tag":
            kind, fields = "tag", token_tag(chance.choice(TOKENS))
        case "tags_with_separator":
            tags = [tag(begin) for begin in chance.sample(BEGINS, chance.randint(1, 2))]
            fields = {"tags": tags, "separator": chance.choice(("", ",", ";", "</tool>")), **flags()}
        case "triggered_tags":
            begins = chance.sample(("<a>", "<ab>", "<f=g>{", "<f=h>", "(", "<tool>"), chance.randint(1, 3))
            triggers = sorted({{"<a": "<a", "<f": "<f=", "(": "(", "<t": "<tool>"}[begin[:2]] for begin in begins})
            excludes = chance.sample(("!", "}"), chance.randrange(2))
            fields = {"triggers": triggers, "tags": [tag(begin) for begin in begins], "excludes": excludes, **flags()}
        case "dispatch":
            patterns = chance.sample(("<a>", "<f=", "x;", "(", "<tool>"), chance.randint(1, 3))
            fields = {"rules": [[pattern, inside()] for pattern in patterns], "loop": chance.random() < 0.6}
            fields["excludes"] = chance.sample(("!", "}"), chance.randrange(2))
        case "token_triggered_tags":
            begins = chance.sample(TOKENS, chance.randint(1, 2))
            others = [token for token in TOKENS if token not in begins]
            fields = {"trigger_tokens": begins, "tags": [token_tag(begin) for begin in begins], **flags()}
            fields["exclude_tokens"] = chance.sample(others, chance.randrange(2))
        case _:
            begins = chance.sample(TOKENS, chance.randint(1, 2))
            fields = {"rules": [[begin, inside()] for begin in begins], "loop": chance.random() < 0.6}
    return {"type": kind, **fields}
