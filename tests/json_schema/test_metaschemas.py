"""The meta-schemas that are built in say what those of the specifications say."""

from __future__ import annotations

from typing import Any

import jsonschema_specifications
import pytest

from logitkit.json_schema.metaschemas import metaschema
from tests.json_schema.judge import LISTS, NAMED, ONE

PUBLISHED = {
    uri.rstrip("#"): jsonschema_specifications.REGISTRY.contents(uri)
    for uri in jsonschema_specifications.REGISTRY
    if "/draft-03/" not in uri
}
# They say nothing about which values are valid. `$vocabulary` says which keywords a schema may use.
ANNOTATIONS = {"$comment", "$vocabulary", "default", "deprecated", "description", "examples", "title"}


def rules(schema: Any) -> Any:
    """Return a schema without its annotations."""
    if not isinstance(schema, dict):
        return schema
    found: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in NAMED:
            found[keyword] = {name: rules(inside) for name, inside in value.items()}
        elif keyword in LISTS and isinstance(value, list):
            found[keyword] = [rules(inside) for inside in value]
        elif keyword in ONE:
            found[keyword] = rules(value)
        elif keyword not in ANNOTATIONS:
            found[keyword] = value
    return found


@pytest.mark.parametrize("uri", sorted(PUBLISHED))
def test_it_has_the_rules_of_the_specification(uri: str) -> None:
    assert rules(metaschema(uri)) == rules(PUBLISHED[uri])


def test_all_are_known_by_both_schemes_and_nothing_else_is() -> None:
    assert len(PUBLISHED) == 19
    for uri in PUBLISHED:
        scheme, _, rest = uri.partition(":")
        assert metaschema(f"{'http' if scheme == 'https' else 'https'}:{rest}") is metaschema(uri)
    for uri in (
        "",
        "draft-07/schema",
        "http://json-schema.org/draft-03/schema",
        "ftp://json-schema.org/draft-07/schema",
    ):
        assert metaschema(uri) is None
