"""The styles in which each value says its type, against a plain writer and reader, `jsonschema`, and XGrammar."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.errors import UnsupportedSchema
from tests.examples import examples

VOCABULARY = lk.Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_ids=[256])
LONGEST, WALKS = 250, 4
TEXTS = st.text('ab<&"{é \n', max_size=4)


def scalars() -> st.SearchStrategy[Any]:
    return st.one_of(
        st.just({"type": "string"}),
        st.just({"type": "string", "maxLength": 2}),
        st.just({"type": "integer", "minimum": -3, "maximum": 20}),
        st.just({"type": "boolean"}),
        st.just({"type": ["string", "null"], "maxLength": 3}),
        st.just({"enum": ["a", "b<", 7, None]}),
        st.just({"const": True}),
    )


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(inner.flatmap(arrays), objects(inner), st.tuples(inner, inner).map(lambda two: {"anyOf": [*two]}))


def arrays(items: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from([(0, 2), (1, 1), (2, 3)]).map(
        lambda bounds: {"type": "array", "items": items, "minItems": bounds[0], "maxItems": bounds[1]}
    )


def objects(inner: st.SearchStrategy[Any], names: str = "xyz") -> st.SearchStrategy[Any]:
    return st.lists(st.sampled_from(names), unique=True, max_size=3).flatmap(
        lambda own: st.tuples(*[inner] * len(own), st.lists(st.sampled_from(own or ["-"]), unique=True)).map(
            lambda drawn: {
                "type": "object",
                "properties": dict(zip(own, drawn[:-1], strict=True)),
                "required": [name for name in own if name in drawn[-1]],
                "additionalProperties": False,
            }
        )
    )


SCHEMAS = objects(st.recursive(scalars(), nested, max_leaves=4))


def type_of(value: Any) -> str:
    """Return the type of a value, as JSON Schema names it."""
    names = {bool: "boolean", int: "number", float: "number", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "null")


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def kimi(members: dict[str, Any]) -> str:
    """Write members as Kimi-K3's chat template does."""
    return "".join(
        f'<|open|>argument key="{name}" type="{type_of(value)}"<|sep|>'
        f"{value if isinstance(value, str) else compact(value)}<|close|>argument<|sep|>"
        for name, value in members.items()
    )


def cohere(members: dict[str, Any]) -> str:
    """Write members as Cohere's chat template does."""
    return "".join(cohere_value(f' name="{name}"', value) for name, value in members.items())


def cohere_value(name: str, value: Any) -> str:
    kind = {"string": "raw", "object": "dict", "array": "list"}.get(type_of(value), "json")
    match value:
        case str():
            inside = value
        case dict():
            inside = cohere(value)
        case list():
            inside = "".join(cohere_value("", item) for item in value)
        case _:
            inside = compact(value)
    return f'<cofl:value{name} type="{kind}">{inside}</cofl:value>'


def read_kimi(text: str) -> dict[str, Any]:
    """Read members; a value of the wrong type is an error."""
    found, end = {}, 0
    member = re.compile(
        r'<\|open\|>argument key="([^"]*)" type="(\w+)"<\|sep\|>(.*?)<\|close\|>argument<\|sep\|>', re.DOTALL
    )
    while end < len(text):
        match = member.match(text, end)
        assert match, text
        value = match[3] if match[2] == "string" else json.loads(match[3])
        assert type_of(value) == match[2]
        assert match[1] not in found
        found[match[1]] = value
        end = match.end()
    return found


def read_cohere(text: str) -> dict[str, Any]:
    """Read members between nested tags."""
    parts = iter([*re.split(r'(<cofl:value(?: name="[^"]*")? type="\w+">|</cofl:value>)', text), None])
    found = [*read_tags(parts, None)]
    assert all(name for name, _ in found)
    assert len(dict(found)) == len(found)
    return dict(found)


def read_tags(parts: Iterator[str | None], closing: str | None) -> Iterator[tuple[str, Any]]:
    """Read values up to an end tag, with their names, which are empty for items."""
    while True:
        assert next(parts) == ""
        tag = next(parts)
        if tag == closing:
            return
        match = re.fullmatch(r'<cofl:value(?: name="([^"]*)")? type="(\w+)">', tag or "")
        assert match, tag
        if match[2] in ("dict", "list"):
            inner = [*read_tags(parts, "</cofl:value>")]
            assert all(bool(name) == (match[2] == "dict") for name, _ in inner)
            value: Any = dict(inner) if match[2] == "dict" else [item for _, item in inner]
        else:
            inside = next(parts) or ""
            assert next(parts) == "</cofl:value>"
            value = inside if match[2] == "raw" else json.loads(inside)
            assert isinstance(value, str) == (match[2] == "raw")
        yield match[1] or "", value


STYLES: dict[str, tuple[Callable[[dict[str, Any]], str], Callable[[str], dict[str, Any]]]] = {
    "kimi_k3_xml": (kimi, read_kimi),
    "cohere_xml": (cohere, read_cohere),
}


def document(schema: Any, style: str) -> dict[str, Any]:
    return {"type": "structural_tag", "format": {"type": "json_schema", "json_schema": schema, "style": style}}


def accepts(constraint: lk.StructuralTag, text: str) -> bool:
    state = constraint.init_state(lk.Context.of([[]], vocabulary_size=257))
    if text:
        state = constraint.advance(state, torch.tensor([[*text.encode()]]))
    return bool(constraint.allowed_tokens(state)[0, 256]) and not bool(constraint.is_dead(state)[0])


def written(constraint: lk.StructuralTag, chance: random.Random) -> str | None:
    """Return a random text, or None if it becomes long."""
    state, found = constraint.init_state(lk.Context.of([[]], vocabulary_size=257)), bytearray()
    while len(found) < LONGEST:
        legal = constraint.allowed_tokens(state)[0].nonzero().flatten().tolist()
        assert legal
        # Ends and tags come more often than other characters.
        often = [token for token in legal if token in (256, ord("<"), ord('"'), ord("a"))]
        token = chance.choice(often if often and chance.random() < 0.7 else legal)
        if token == 256:
            return found.decode()
        found.append(token)
        state = constraint.advance(state, torch.tensor([token]))
    return None


def values(schema: Any, draw: Callable[[st.SearchStrategy[Any]], Any]) -> Any:
    """Return a value that a schema may allow, with members in its order; some values are of another type."""
    other = draw(st.sampled_from([None, True, 3, "a", "b<", [], {}])) if draw(st.integers(0, 12)) == 0 else ...
    if other is not ...:
        return other
    match schema:
        case {"anyOf": options}:
            return values(draw(st.sampled_from(options)), draw)
        case {"enum": allowed}:
            return draw(st.sampled_from(allowed))
        case {"const": value}:
            return value
        case {"type": "object", "properties": properties, "required": required}:
            own = [name for name in properties if name in required or draw(st.booleans())]
            return {name: values(properties[name], draw) for name in own if draw(st.integers(0, 12))}
        case {"type": "array", "items": items}:
            return [values(items, draw) for _ in range(draw(st.integers(0, 3)))]
        case {"type": "integer"}:
            return draw(st.integers(-4, 21))
        case {"type": "boolean"}:
            return draw(st.booleans())
    return draw(TEXTS)


@pytest.mark.parametrize("style", STYLES)
@given(SCHEMAS, st.data(), st.integers(0, 99))
@settings(max_examples=examples(160))
def test_the_texts_of_random_schemas(style: str, schema: Any, data: st.DataObject, seed: int) -> None:
    write, read = STYLES[style]
    constraint = lk.from_structural_tag(document(schema, style), VOCABULARY)
    validator = jsonschema.Draft202012Validator(schema)
    for _ in range(3):
        value = values(schema, data.draw)
        if isinstance(value, dict):
            assert accepts(constraint, write(value)) == validator.is_valid(value), (schema, value)
    chance = random.Random(seed)
    for text in filter(None, (written(constraint, chance) for _ in range(WALKS))):
        validator.validate(read(text))


@pytest.mark.parametrize("style", STYLES)
@given(SCHEMAS, st.data())
@settings(max_examples=examples(80))
def test_xgrammar_accepts_the_same_values(style: str, schema: Any, data: st.DataObject) -> None:
    xgrammar = pytest.importorskip("xgrammar", reason="needs XGrammar: pip install -c constraints.txt xgrammar")
    testing = pytest.importorskip("xgrammar.testing")
    theirs = xgrammar.Grammar.from_structural_tag(json.dumps(document(schema, style)))
    write, _ = STYLES[style]
    constraint = lk.from_structural_tag(document(schema, style), VOCABULARY)
    for _ in range(4):
        value = values(schema, data.draw)
        # XGrammar takes no escapes in a JSON string of limited length.
        if isinstance(value, dict) and "\\" not in write(value) and accepts(constraint, write(value)):
            assert testing._is_grammar_accept_string(theirs, write(value)), (schema, value)


def test_names_are_escaped_for_kimi() -> None:
    schema = {
        "properties": {'we"ird&key': {"type": "string"}},
        "required": ['we"ird&key'],
        "additionalProperties": False,
    }
    constraint = lk.from_structural_tag(document(schema, "kimi_k3_xml"), VOCABULARY)
    escaped, plain = kimi({"we&quot;ird&amp;key": "v"}), kimi({'we"ird&key': "v"})
    assert [accepts(constraint, text) for text in (escaped, plain)] == [True, False]


def test_values_without_a_schema() -> None:
    open_ = {"type": "object", "properties": {"x": {}, "y": {"type": "array"}}, "required": ["x"]}
    texts = {
        "kimi_k3_xml": [kimi({"x": "a"}), kimi({"x": [1], "y": ["b"], "z": None})],
        # As in XGrammar, what a schema says nothing of is JSON.
        "cohere_xml": [
            '<cofl:value name="x" type="json">"a"</cofl:value>',
            (
                '<cofl:value name="x" type="json">{"b":[1]}</cofl:value><cofl:value name="y" type="list">'
                '<cofl:value type="json">"b"</cofl:value></cofl:value><cofl:value name="z" type="json">null</cofl:value>'
            ),
        ],
    }
    wrong = {"kimi_k3_xml": kimi({"y": ["b"]}), "cohere_xml": cohere({"x": "a"})}
    for style, good in texts.items():
        constraint = lk.from_structural_tag(document(open_, style), VOCABULARY)
        assert [text for text in good if not accepts(constraint, text)] == []
        assert not accepts(constraint, wrong[style])


def test_what_cohere_s_tags_cannot_hold_is_refused() -> None:
    item = {"type": "object", "properties": {"next": {"$ref": "#/$defs/item"}}}
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/item"}}, "$defs": {"item": item}}
    with pytest.raises(UnsupportedSchema, match="the value contains itself"):
        lk.from_structural_tag(document(schema, "cohere_xml"), VOCABULARY)
    unique = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}
    with pytest.raises(UnsupportedSchema, match="items between tags are not compared"):
        lk.from_structural_tag(document(unique, "cohere_xml"), VOCABULARY)


def test_values_between_cohere_s_tags_nest_so_deep_at_most() -> None:
    def nested(depth: int) -> dict[str, object]:
        defs = {f"d{i}": {"type": "object", "properties": {"a": {"$ref": f"#/$defs/d{i + 1}"}}} for i in range(depth)}
        last = {f"d{depth}": {"type": "integer"}}
        return {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": defs | last}

    lk.from_structural_tag(document(nested(20), "cohere_xml"), VOCABULARY)
    with pytest.raises(UnsupportedSchema, match="nest at most 32 deep"):
        lk.from_structural_tag(document(nested(500), "cohere_xml"), VOCABULARY)
