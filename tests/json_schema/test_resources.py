"""Documents that a schema refers to: which ones are found, what they mean, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import logitkit as lk
from logitkit.errors import ConfigurationError, LogitkitError, UnsupportedSchema
from logitkit.json_schema import document, resources
from tests.json_schema.acceptance import BYTES

NUMBER, TEXT = {"type": "integer"}, {"type": "string"}
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"


def means_integer(schema: Any, given: Any, **options: Any) -> lk.JsonSchema:
    """Compile a schema, and check that it means any integer."""
    found = lk.JsonSchema(schema, BYTES, resources=given, **options)
    dfa = found.nested_dfa()
    assert [dfa.accepts(text) for text in (b"1", b"-20", b'"a"', b"1.5", b"{}")] == [True, True, False, False, False]
    return found


def written(folder: Path, files: dict[str, Any]) -> Path:
    for name, schema in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(schema if isinstance(schema, str) else json.dumps(schema), "utf-8")
    return folder


@pytest.mark.parametrize(
    ("schema", "given"),
    {
        "a URI": ({"$ref": "https://a.org/b"}, {"https://a.org/b": NUMBER}),
        "an empty fragment": ({"$ref": "https://a.org/b#"}, {"https://a.org/b#": NUMBER}),
        "a URN": ({"$ref": "urn:example:b"}, {"urn:example:b": NUMBER}),
        "a relative one": ({"$ref": "b.json"}, {"b.json": NUMBER}),
        "written with dots": ({"$ref": "./c/../b.json"}, {"b.json": NUMBER}),
        "relative to the identifier": ({"$id": "https://a.org/c/d", "$ref": "b"}, {"https://a.org/c/b": NUMBER}),
        "a key relative to it": ({"$id": "https://a.org/c/d", "$ref": "../b"}, {"../b": NUMBER}),
        "the identifier of draft 4": (
            {"$schema": "http://json-schema.org/draft-04/schema#", "id": "https://a.org/c", "allOf": [{"$ref": "b"}]},
            {"https://a.org/b": NUMBER},
        ),
        "an identifier inside": (
            {"$id": "https://a.org/", "allOf": [{"$id": "inner/", "$ref": "b"}]},
            {"https://a.org/inner/b": NUMBER},
        ),
        "JSON text": ({"$ref": "b"}, {"b": '{"type": "integer"}'}),
        "a bool": ({"allOf": [NUMBER, {"$ref": "b"}]}, {"b": True}),
        "a Python type": ({"$ref": "b"}, {"b": int}),
        "a document's identifier": ({"$ref": "https://a.org/b"}, {"c": {"$id": "https://a.org/b", **NUMBER}}),
        "that of a text": ({"$ref": "https://a.org/b"}, {"c": '{"$id": "https://a.org/b", "type": "integer"}'}),
        "one inside of a document": (
            {"allOf": [{"$ref": "d"}, {"$ref": "b"}]},
            {"b": {"$defs": {"x": {"$id": "d", **NUMBER}}}},
        ),
        "a pointer": ({"$ref": "b#/$defs/a%25~1%22c"}, {"b": {"$defs": {'a%/"c': NUMBER}}}),
        "a pointer through an identifier": (
            {"$ref": "b#/$defs/x/properties/y"},
            {"b": {"$defs": {"x": {"$id": "c/", "properties": {"y": {"$ref": "d"}}}}}, "c/d": NUMBER},
        ),
        "an anchor": ({"$ref": "b#n"}, {"b": {"$id": "https://a.org/", "$defs": {"x": {"$anchor": "n", **NUMBER}}}}),
        "an anchor of draft 7": (
            {"$ref": "b#n"},
            {"b": {"$schema": DRAFT_7, "definitions": {"x": {"$id": "#n", **NUMBER}}}},
        ),
        "a dynamic anchor": ({"$ref": "b#n"}, {"b": {"$defs": {"x": {"$dynamicAnchor": "n", **NUMBER}}}}),
        "a dynamic reference": ({"$dynamicRef": "b#n"}, {"b": {"$defs": {"x": {"$dynamicAnchor": "n", **NUMBER}}}}),
        "back to the schema": (
            {"$id": "https://a.org/a", "$ref": "b", "$defs": {"x": NUMBER}},
            {"b": {"$ref": "a#/$defs/x"}},
        ),
        "each other": ({"$ref": "b"}, {"b": {"$ref": "c", "$defs": {"y": NUMBER}}, "c": {"$ref": "b#/$defs/y"}}),
        "a meta-schema": (
            {"$ref": "https://json-schema.org/draft/2020-12/meta/validation#/properties/maximum", **NUMBER},
            {},
        ),
        "a meta-schema that is given": ({"$ref": DRAFT_7}, {DRAFT_7: NUMBER}),
        "the draft of the schema": (
            {"$schema": DRAFT_7, "$ref": "b"},
            {"b": {**NUMBER, "dependentRequired": 1, "$ref": "#/definitions/n", "definitions": {"n": NUMBER}}},
        ),
        "a draft of its own": (
            {"$schema": DRAFT_7, "$ref": "b"},
            {"b": {"$schema": DRAFT_2020, "$ref": "#/$defs/n", "$defs": {"n": {}}, **NUMBER}},
        ),
        "an older draft": (
            {"$schema": DRAFT_2020, "$ref": "b"},
            {"b": {"$schema": DRAFT_7, "$ref": "#/definitions/n", "definitions": {"n": NUMBER}, "type": "string"}},
        ),
    }.values(),
)
def test_the_document_is_found(schema: Any, given: Any) -> None:
    means_integer(schema, given)


FILES = {
    "b.json": NUMBER,
    "sub/c.json": {"$ref": "d.json#/$defs/x"},
    "sub/d.json": {"$defs": {"x": {"$ref": "../b.json"}}},
    "e.json": {"$id": "https://a.org/v/other", "$ref": "sub/c.json"},
    "sub/f.json": {"$id": "https://a.org/w/sub/f", "$ref": "../b.json"},
    "sub/g.json": {"$id": "https://a.org/elsewhere/g", "$ref": "d.json#/$defs/x"},
    "a b%.json": NUMBER,
    "with identifier.json": {
        "definitions": {"https://a.org/v/other": {"$id": "https://a.org/v/inner"}},
        "$id": "urn:n:1",
        **NUMBER,
    },
    "not utf-8.txt": "\0",
}


@pytest.mark.parametrize(
    "reference",
    [
        *(
            "b.json",
            "b",
            "./b.json",
            "sub/../b.json",
            "sub/c.json",
            "e.json",
            "sub/f.json",
            "sub/g.json",
            "a%20b%25.json",
        ),
        *("https://a.org/v/other", "https://a.org/w/sub/f", "https://a.org/elsewhere/g", "urn:n:1"),
    ],
)
def test_a_file_is_found_by_its_path_and_its_identifier(reference: str, tmp_path: Path) -> None:
    written(tmp_path, FILES)
    found = means_integer({"$ref": reference}, tmp_path)
    assert found.resources
    # The files are read once, so they may change, and a configuration has their contents.
    config = json.loads(json.dumps(lk.to_config(found)))
    assert lk.from_config(config, BYTES) == found
    assert config["json_schema"]["resources"] == found.resources
    if reference != "urn:n:1":
        # Also if the schema has an identifier, which stands for one in the folder.
        means_integer({"$id": "https://b.org/x/main.json", "$ref": reference}, tmp_path)


def test_only_what_is_referred_to_is_read(tmp_path: Path) -> None:
    written(tmp_path, {**FILES, "broken.json": "{", "deep/broken.json": "[" * 1000})
    schema = {"$ref": "b.json", "$defs": {"unused": {"$ref": "broken.json"}}}
    found = means_integer(schema, tmp_path)
    assert found.resources == {"b.json": NUMBER}
    assert found == means_integer(schema, {"b.json": NUMBER, "c.json": TEXT, "d": lambda: None})
    assert found != lk.JsonSchema(schema, BYTES, resources={"b.json": {"type": "integer", "minimum": 1}})
    assert means_integer(NUMBER, tmp_path) == means_integer(NUMBER, {}) == means_integer(NUMBER, None)
    assert lk.JsonSchema(NUMBER, BYTES, resources=tmp_path).resources is None


@pytest.mark.parametrize(
    "reference", ["../out.json", "sub/../../out.json", "%2e%2e/out.json", "link.json", "folder/out.json", "/out.json"]
)
def test_nothing_outside_of_the_folder_is_read(reference: str, tmp_path: Path) -> None:
    folder = written(tmp_path / "in", FILES)
    written(tmp_path, {"out.json": {"$id": "https://a.org/out", **NUMBER}})
    (folder / "link.json").symlink_to(tmp_path / "out.json")
    (folder / "folder").symlink_to(tmp_path)
    (folder / "inside.json").symlink_to(folder / "b.json")
    means_integer({"$ref": "inside.json"}, folder)
    for name in (reference, (tmp_path / "out.json").as_uri(), "https://a.org/out"):
        with pytest.raises(UnsupportedSchema, match="in another document, and nothing is fetched"):
            lk.JsonSchema({"$ref": name}, BYTES, resources=folder)


@pytest.mark.parametrize(
    "name",
    [
        "a" * 5000,
        "%00",
        "b.json/c",
        "sub",
        "sub/",
        "C:b",
        "..%5cb",
        "https://",
        "//",
        "?",
        "http://[",
        "http://[#a",
        "[:",
    ],
)
def test_odd_references_lead_to_nothing(name: str, tmp_path: Path) -> None:
    with pytest.raises(LogitkitError):
        lk.JsonSchema({"$ref": name}, BYTES, resources=written(tmp_path, FILES))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {},
            r"^'\$ref' at #/items: 'b#/x' is in another document, .*; pass JsonSchema\(..., resources=\{'b': schema\}",
        ),
        ({"b": {"x": {"minLength": "1"}}}, "'minLength' at b#/x is '1'; allowed is"),
        ({"b": {"x": {"items": 1}}}, "b#/x/items is of type int; a schema is"),
        ({"b": {"x": {"type": "number", "multipleOf": 0.123456789}}}, "^'multipleOf' at b#/x: "),
        ({"b": {"x": {"$ref": "c"}}}, r"^'\$ref' at b#/x: 'c' is in another document"),
        ({"b": {"y": {}}}, "'b#/x' points to nothing: there is no 'x'"),
        ({"b": "{"}, "^resources, 'b': schema is a string, but not JSON text"),
        ({"b": 3}, "^resources, 'b': schema is of type int"),
        ({"b": {"$schema": "https://a.org"}}, r"^'\$schema' at b#: 'https://a.org' is unknown"),
        (
            {"b": {"x": {"$schema": DRAFT_7}, "$schema": DRAFT_2020}},
            r"^'\$schema' at b#/x: .* not the draft of the whole",
        ),
        ({"b#x": {}}, "^resources has the key 'b#x'; allowed are URIs without a fragment"),
        ({3: {}}, "^resources has the key 3; allowed are URIs"),
        ({"": {}}, "^resources has the key ''; allowed are URIs"),
        ({"b": {}, "./b": {}}, r"^resources, 'b' and '\./b': both are the URI 'b'"),
        ("b", r"^resources is 'b'; allowed are a dict of schemas by URI and a pathlib\.Path"),
        (["b"], r"^resources is \['b'\]; allowed are"),
        (Path("nowhere"), "^resources is 'nowhere', which is not a folder"),
        ({n: {"$id": "b"} for n in ("y", "z")}, "^resources, 'y' and 'z': both have the identifier 'b'"),
        ({"b": {"a": [0] * 200_000}}, "^the schema at b#: the schema has more than 200000 values"),
        ({"b": {"x": {"$ref": "c"}}, "c": [1] * 2}, "^resources, 'c': schema is of type list"),
    ],
)
def test_errors_name_the_document(given: Any, message: str) -> None:
    with pytest.raises((ConfigurationError, UnsupportedSchema), match=message):
        lk.JsonSchema({"items": {"$ref": "b#/x"}}, BYTES, resources=given)


def test_sizes_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "LONGEST_TEXT", 1000)
    monkeypatch.setattr(resources, "MOST_FILES", 10)
    written(tmp_path, {**FILES, "long.json": {"title": "a" * 1000}})
    with pytest.raises(UnsupportedSchema, match=r"^the schema at long\.json#: the file has more than 1000 bytes"):
        lk.JsonSchema({"$ref": "long.json"}, BYTES, resources=tmp_path)
    (tmp_path / "latin.json").write_bytes(b'"\xe9"')
    with pytest.raises(ConfigurationError, match=r"^resources, latin\.json: the file is not UTF-8"):
        lk.JsonSchema({"$ref": "latin.json"}, BYTES, resources=tmp_path)
    written(tmp_path, {f"{n}.json": True for n in range(10)})
    with pytest.raises(ConfigurationError, match=r"^resources is a folder with more than 10 JSON files"):
        lk.JsonSchema({"$ref": "https://a.org/unknown"}, BYTES, resources=tmp_path)
    # All documents count together, those that are not needed do not.
    monkeypatch.setattr(resources, "MOST_VALUES", 100)
    assert document.MOST_VALUES > 100
    many = {f"d{n}": {"title": "a", "default": [0] * 40, "$ref": f"d{n + 1}"} for n in range(5)}
    means_integer({"$ref": "d3"}, many | {"d5": NUMBER})
    with pytest.raises(UnsupportedSchema, match=r"^the schema at d2#: "):
        lk.JsonSchema({"$ref": "d0"}, BYTES, resources=many | {"d5": NUMBER})


def test_many_documents_cost_steps() -> None:
    chain = {f"d{n}": {"$ref": f"d{n + 1}", "$defs": {"x": {"$id": f"e{n}"}}} for n in range(500)}
    schema = {"allOf": [{"$ref": f"e{n}"} for n in reversed(range(500))], "items": {"$ref": "d0"}}
    with pytest.raises(UnsupportedSchema, match="more than 1000 steps"):
        lk.JsonSchema(schema, BYTES, resources=chain, limits=lk.Limits(work=1000))


def test_lax_leaves_out_what_is_missing(tmp_path: Path) -> None:
    schema = {"type": "array", "items": {"$ref": "b.json"}, "minItems": 1}
    sources: list[Any] = [{}, {"c.json": {}}, tmp_path, {"b.json": {"$ref": "c.json"}}]
    for given in sources:
        with pytest.warns(UserWarning, match="'c.json'|'b.json' is in another document"):
            found = lk.JsonSchema(schema, BYTES, resources=given, lax=True).nested_dfa()
        assert found.accepts(b'["a"]')
        assert not found.accepts(b"[]")


def test_a_configuration_reads_no_files(tmp_path: Path) -> None:
    config: dict[str, Any]
    for given in (str(tmp_path), tmp_path, ["a"], None):
        config = {"json_schema": {"schema": {"$ref": "b.json"}, "resources": given}}
        with pytest.raises(
            ConfigurationError, match=r"\['resources'\] is .*allowed is an object of JSON Schemas by URI; a fol"
        ):
            lk.from_config(config, BYTES)
    config = {"json_schema": {"schema": {}, "resources": {"b.json": 3}}}
    with pytest.raises(ConfigurationError, match=r"\['resources'\]\['b.json'\] is 3; allowed is a JSON Schema"):
        lk.from_config(config, BYTES)
    config = {"json_schema": {"schema": {"$ref": "b.json"}, "resources": {"b.json": '{"type": "integer"}', "c": True}}}
    assert lk.to_config(lk.from_config(config, BYTES)) == {
        "json_schema": {"schema": {"$ref": "b.json"}, "resources": {"b.json": NUMBER}}
    }


def test_odd_identifiers_do_no_harm() -> None:
    means_integer(
        {"$id": "http://[", "$ref": "#/$defs/x", "$defs": {"x": {"$id": "//[", **NUMBER}}}, {"http://[a": NUMBER}
    )
    means_integer({"$ref": "http://[a"}, {"http://[a": NUMBER})


def test_tools_name_a_meta_schema() -> None:
    both = [{"$ref": f"{DRAFT_7}/definitions/stringArray"}, {"type": "array", "contains": {}, "prefixItems": [{}]}]
    tool = {"name": "f", "parameters": {"properties": {"a": {"allOf": both}}}}
    with pytest.raises(
        UnsupportedSchema, match=r"^'uniqueItems' at http://json-schema\.org/draft-07/schema#/definitions/"
    ):
        lk.Tools([tool], format="hermes").constraint(BYTES)


def test_explanations_name_the_document() -> None:
    found = lk.JsonSchema(
        {"items": {"$ref": "b.json#/$defs/x"}, "type": "array"}, BYTES, resources={"b.json": {"$defs": {"x": NUMBER}}}
    )
    told = str(lk.explain(found, BYTES, "", '["a"]'))
    assert "type" in told
    assert "b.json#/$defs/x/type" in told
