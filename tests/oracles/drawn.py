"""Random grammars and schemas."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from tests.oracles.described import text
from tests.oracles.nodes import Alt, Call, Chars, Node, Repeat, Seq, Text

__all__ = ["gbnf_of", "grammars", "palindromes", "schemas"]


def gbnf_of(node: Node) -> str:
    """Return a node in the syntax of GBNF."""
    match node:
        case Text(symbols):
            return json.dumps(bytes(symbols).decode())  # type: ignore[arg-type]
        case Chars(of, negated):
            return f"[{'^' * negated}{of}]"
        case Seq(parts):
            return " ".join(map(gbnf_of, parts)) or '""'
        case Alt(options):
            return "(" + " | ".join(map(gbnf_of, options)) + ")"
        case Repeat(item, least, most):
            return f"({gbnf_of(item)}){{{least},{'' if most is None else most}}}"
        case Call(rule):
            return rule
    raise AssertionError(node)


@st.composite
def grammars(draw: st.DrawFn) -> dict[str, Node]:
    """Return the rules of a grammar; before a rule is called, something is written, so that none begins with itself."""
    names = ("root", *(f"r{number}" for number in range(1, 1 + draw(st.integers(0, 2)))))
    literal: st.SearchStrategy[Node] = st.sampled_from(["a", "b", "<", ">", "ab"]).map(text)
    letter = literal | st.builds(Chars, st.text("abé", min_size=1, max_size=2), st.booleans())
    called: st.SearchStrategy[Node] = st.sampled_from(names).map(Call)
    bodies = st.one_of(
        letter,
        st.just(text("")),
        st.builds(Repeat, letter, st.integers(0, 2), st.just(2) | st.none()),
        *(
            st.tuples(*shape).map(Seq)
            for shape in ((letter, called), (letter, called, letter), (letter, called, called))
        ),
    )
    return {name: Alt((*draw(st.lists(bodies, min_size=1, max_size=3)), draw(letter))) for name in names}


def palindromes() -> st.SearchStrategy[dict[str, Node]]:
    """Return the rules of palindromes: a letter may open another pair, or close one."""

    def rules(letters: set[str], middle: str) -> dict[str, Node]:
        pairs = [Seq((text(letter), Call("root"), text(letter))) for letter in sorted(letters)]
        return {"root": Alt((*pairs, text(middle)))}

    return st.builds(rules, st.sets(st.sampled_from(["a", "b", "<", "ab"]), min_size=1), st.sampled_from(["", "", "a"]))


@st.composite
def schemas(draw: st.DrawFn) -> Any:
    """Return a schema of any depth, which may refer to itself, and whose strings may count their characters."""

    def larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        optional = st.dictionaries(st.sampled_from(["a", "b", "ab"]), inner, min_size=1, max_size=3)
        return (
            st.builds(array, inner, st.integers(0, 2), st.none() | st.integers(0, 2))
            | st.builds(record, optional, st.integers(0, 3))
            | st.lists(inner, min_size=1, max_size=2).map(lambda options: {"anyOf": options})
        )

    leaf = st.sampled_from([{"enum": ["a", None]}, {"type": "boolean"}, {"const": "ab"}, {"$ref": "#"}]) | strings()
    found = draw(st.recursive(leaf, larger, max_leaves=4))
    assume(found != {"$ref": "#"})
    return draw(st.sampled_from([found, found, True]))


def array(items: Any, least: int, more: int | None) -> Any:
    found = {"type": "array", "items": items, "minItems": least}
    return found if more is None else found | {"maxItems": least + more}


def record(properties: dict[str, Any], required: int) -> Any:
    found = {"type": "object", "properties": properties, "additionalProperties": False}
    return found | {"required": list(properties)[:required]}


def strings() -> st.SearchStrategy[Any]:
    """Strings, of which some are so long that their characters are counted."""
    return st.builds(
        lambda least, more: (
            {"type": "string", "minLength": least} | ({} if more is None else {"maxLength": least + more})
        ),
        st.sampled_from([0, 0, 1, 2, 3]),
        st.sampled_from([None, 0, 2, 70]),
    )
