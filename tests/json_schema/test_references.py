"""References between documents mean what the official suite and the library `jsonschema` say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logitkit.errors import UnsupportedSchema
from tests.examples import examples
from tests.json_schema import refusals
from tests.json_schema.acceptance import acceptor
from tests.json_schema.canonical import canonical
from tests.json_schema.judge import judge
from tests.json_schema.official import DIALECTS, Group, groups

HOST = "http://localhost:1234/"
INTEGER, STRING = {"type": "integer"}, {"type": "string"}
BAR = {"$defs": {"bar": STRING}, "$ref": "#/$defs/bar"}
BASE_URIS = ("baseUriChange", "baseUriChangeFolder", "baseUriChangeFolderInSubschema")


def documents_of_the_suite(draft: str) -> dict[str, Any]:
    """Return documents that the groups of a draft refer to, as their descriptions and verdicts need them."""
    new = draft == "draft2020-12"
    defs, own, name = ("$defs" if new else "definitions"), f"{HOST}{draft}/", ("name-defs" if new else "name")
    anchor = {"draft2020-12": {"$anchor": "foo"}, "draft7": {"$id": "#foo"}, "draft4": {"id": "#foo"}}[draft]
    detached = {"draft2020-12": {"$anchor": "detached"}, "draft7": {"$id": "#detached"}, "draft4": {}}[draft]
    inner = {"properties": {"bar": STRING}}
    elements = {"type": "array", "items": {"$dynamicRef": "#elements"}}
    children = {"type": "array", "items": {"$dynamicRef": "#node"}}
    found: dict[str, Any] = {
        "integer.json": INTEGER,
        "subSchemas.json": {defs: {"integer": INTEGER, "refToInteger": {"$ref": f"#/{defs}/integer"}}},
        "locationIndependentIdentifier.json": {defs: {"refToInteger": {"$ref": "#foo"}, "a": {**anchor, **INTEGER}}},
        **{f"{folder}/folderInteger.json": INTEGER for folder in BASE_URIS},
        f"{name}.json": {defs: {"orNull": {"anyOf": [{"type": "null"}, {"$ref": "#"}]}}, **STRING},
        "ref-and-defs.json": {"$id": f"{own}ref-and-defs.json", "$defs": {"inner": inner}, "$ref": "#/$defs/inner"},
        "ref-and-definitions.json": {"definitions": {"inner": inner}, "allOf": [{"$ref": "#/definitions/inner"}]},
        "nested/foo-ref-string.json": {"type": "object", "properties": {"foo": {"$ref": "string.json"}}},
        "nested/string.json": STRING,
        "detached-ref.json": {defs: {"foo": {"$ref": "#detached"}, "detached": {**detached, **INTEGER}}},
    }
    if new:
        found |= {
            "tree.json": {
                "$dynamicAnchor": "node",
                "properties": {"data": True, "children": children},
                "type": "object",
            },
            "extendible-dynamic-ref.json": {
                "type": "object",
                "properties": {"elements": elements},
                "required": ["elements"],
                "additionalProperties": False,
                "$defs": {"elements": {"$dynamicAnchor": "elements"}},
            },
            "detached-dynamicref.json": {
                "$defs": {"foo": {"$dynamicRef": "#detached"}, "detached": {"$dynamicAnchor": "detached", **INTEGER}}
            },
        }
    others = {
        "different-id-ref-string.json": {"$id": f"{HOST}real-id-ref-string.json", **BAR},
        "urn-ref-string.json": {"$id": "urn:uuid:feebdaed-ffff-0000-ffff-0000deadbeef", **BAR},
        "nested-absolute-ref-to-string.json": {
            "$defs": {"bar": {"$id": f"{HOST}the-nested-id.json", **STRING}},
            "$ref": f"{HOST}the-nested-id.json",
        },
    }
    historic = {
        "ignore-prefixItems.json": {"$schema": DIALECTS["draft2019-09"], "prefixItems": [STRING]},
        "dependentRequired.json": {"$schema": DIALECTS["draft2019-09"], "dependentRequired": {"foo": ["bar"]}},
    }
    return {
        **{f"{own}{path}": schema for path, schema in found.items()},
        **{f"{HOST}{path}": schema for path, schema in (found | others).items()},
        **{f"{HOST}draft2019-09/{path}": schema for path, schema in historic.items()},
    }


# Groups that are refused alone, as they refer to other documents.
REFERRING = [group for group in groups() if refusals.refused().get(str(group)) == "$ref"]


@pytest.mark.parametrize("group", REFERRING, ids=str)
def test_groups_of_the_suite_that_refer_to_other_documents(group: Group) -> None:
    documents = documents_of_the_suite(group.file.split("/")[0])
    accepts = acceptor(group.schema, documents)
    validator = judge(group.schema, documents)
    for instance, valid in group.tests:
        assert accepts(canonical(instance, validator)) == valid, instance


def test_there_are_many_of_them() -> None:
    assert len(REFERRING) == 40


# `jsonschema` reads a part of a document by the draft of the schema that refers to it, so all mean the same in every draft.
LEAVES = (INTEGER, STRING, {"enum": [1, "ab"]}, {"maximum": 5}, {"minLength": 2}, {"type": ["string", "array"]}, True)
DRAFTS = ("draft4", "draft7", "draft2019-09", "draft2020-12", None)
NAMES = ("a", "b/c", "d e")
ANCHOR = {"draft4": ("id", "#n"), "draft7": ("$id", "#n")}
# The base of the schema itself, of which some documents have identifiers.
ROOT = "https://a.org/x/main"
URIS = ("one", "https://a.org/x/two", "../y/three", "urn:example:four")


@st.composite
def documents(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """Draw a schema, and the documents that it and they refer to.

    `jsonschema` finds no anchors in a document with a relative identifier by the URI of the document, so none are used there.
    """
    drafts = [draw(st.sampled_from(DRAFTS[:-1])), *[draw(st.sampled_from(DRAFTS)) for _ in URIS]]
    spoken = [draft or str(drafts[0]) for draft in drafts]
    identities = [
        ROOT,
        *[draw(st.sampled_from([None, f"https://a.org/z/{n}", f"inner/{n}"])) for n in range(len(URIS))],
    ]
    defs = ["$defs" if draft in DRAFTS[2:4] else "definitions" for draft in spoken]

    def reference(source: int) -> dict[str, Any]:
        target = draw(st.integers(0, len(URIS)))
        absolute = [ROOT, "https://a.org/x/one", "https://a.org/x/two", "https://a.org/y/three", URIS[3]][target]
        name = draw(st.sampled_from(NAMES))
        pointer = name.replace("/", "~1").replace(" ", "%20")
        anchor = f"#/{defs[target]}/{pointer}" if (identities[target] or "").startswith("inner") else "#n"
        fragment = draw(st.sampled_from([anchor, f"#/{defs[target]}/{pointer}", f"#/{defs[target]}/{pointer}"]))
        own = draw(st.booleans()) and source == target
        return {"$ref": fragment if own else absolute + fragment}

    def document(number: int) -> dict[str, Any]:
        leaf = st.sampled_from(LEAVES[:-1] if spoken[number] == "draft4" else LEAVES)

        def part() -> Any:
            return reference(number) if draw(st.integers(0, 2)) == 0 else draw(leaf)

        found: dict[str, Any] = {} if drafts[number] is None else {"$schema": DIALECTS[str(drafts[number])]}
        if identities[number]:
            found["id" if spoken[number] == "draft4" else "$id"] = identities[number]
        named = {name: {"properties": {"p": part(), "q": part()}, "allOf": [draw(leaf)]} for name in NAMES}
        key, value = ANCHOR.get(spoken[number], ("$anchor", "n"))
        found[defs[number]] = {**named, "anchored": {key: value, "items": part()}}
        return found

    main = document(0)
    main |= {"properties": {name: reference(0) for name in ("r", "s", "t")}}
    return main, {uri: document(number + 1) for number, uri in enumerate(URIS)}


SCALARS = st.sampled_from([0, 1, 7, "", "ab", None])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("pq"), inner), max_leaves=4
)


@settings(max_examples=examples(400), deadline=None)
@given(documents(), st.lists(st.dictionaries(st.sampled_from("rst"), VALUES), min_size=8, max_size=8))
def test_random_documents_mean_what_jsonschema_says(drawn: Any, values: list[Any]) -> None:
    schema, others = drawn
    by_uri = dict(
        zip(
            ("https://a.org/x/one", "https://a.org/x/two", "https://a.org/y/three", URIS[3]),
            others.values(),
            strict=True,
        )
    )
    validator = judge(schema, by_uri)
    accepts = acceptor(schema, others)
    for value in values:
        # jsonschema reads a document of a later draft, to which one of draft 4 refers, as draft 4, and fails on `items: true`.
        try:
            expected = validator.is_valid(value)
        except TypeError:
            continue
        assert accepts(canonical(value, validator)) == expected, json.dumps([schema, others])


SCOPES = {
    "strings": {"$id": "strings", "$ref": "list", "$defs": {"n": {"$dynamicAnchor": "n", "type": "string"}}},
    "list": {"$id": "list", "items": {"$dynamicRef": "#n"}, "$defs": {"n": {"$dynamicAnchor": "n"}}},
}
RECURSIVE = {
    "$schema": DIALECTS["draft2019-09"],
    "$id": "https://a.org/tree",
    "$recursiveAnchor": True,
    "type": "object",
    "properties": {"inside": {"$recursiveRef": "#"}},
}


@pytest.mark.parametrize(
    ("schema", "given"),
    [
        ({"$ref": "strings"}, SCOPES),
        ({"$ref": "list"}, SCOPES),
        ({"properties": {"a": {"$ref": "strings"}}}, SCOPES),
        ({"$dynamicRef": "list#n", "$defs": {"x": {"$id": "y", "$dynamicAnchor": "n"}}}, SCOPES),
        ({"$dynamicRef": "strings#n"}, SCOPES),
        (
            {
                "$id": "https://a.org/b",
                "$dynamicAnchor": "n",
                "type": ["array", "object"],
                "allOf": [{"$ref": "strings"}],
            },
            SCOPES,
        ),
        (RECURSIVE, {}),
        ({**RECURSIVE, "$id": "https://a.org/b", "required": ["x"], "$ref": "tree"}, {"tree": RECURSIVE}),
        ({**RECURSIVE, "$id": "https://a.org/b", "$recursiveAnchor": False, "$ref": "tree"}, {"tree": RECURSIVE}),
        ({"$schema": DIALECTS["draft2019-09"], "items": {"$ref": "tree"}}, {"tree": RECURSIVE}),
    ],
)
def test_dynamic_scopes(schema: Any, given: Any) -> None:
    root = schema.get("$id", "")
    by_uri = {root.replace("b", uri) if root else uri: document for uri, document in given.items()}
    validator, accepts = judge(schema, by_uri), acceptor(schema, given)
    inner = [1, "a", [], [1], ["a"], [["a"]], {}, {"inside": 1}, {"inside": {}}, {"x": 1, "inside": {}}]
    for value in [
        *inner,
        *[{"x": 1, "inside": value} for value in inner],
        *[{"a": value} for value in inner],
        *[[v] for v in inner],
    ]:
        assert accepts(canonical(value, validator)) == validator.is_valid(value), value


def test_a_target_that_depends_on_the_path_is_refused() -> None:
    one = {**RECURSIVE, "$id": "https://a.org/one", "$ref": "tree"}
    other = {**RECURSIVE, "$id": "https://a.org/other", "$ref": "tree"}
    schema = {
        "$schema": DIALECTS["draft2019-09"],
        "$id": "https://a.org/",
        "anyOf": [{"$ref": "one"}, {"$ref": "other"}],
    }
    with pytest.raises(UnsupportedSchema, match=r"^'\$recursiveRef' at .*: it leads to one of 2 schemas"):
        acceptor(schema, {"one": one, "other": other, "tree": RECURSIVE})
