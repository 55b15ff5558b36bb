"""The schemas of SchemaStore, with the documents of its tests, on which `jsonschema` gives the verdict.

They are read from a clone that the user names, and are not copied into this repository:

    git clone https://github.com/SchemaStore/schemastore

A schema may refer to the others, which are files beside it. The documents of a schema are in the folder of its name, those that
its authors take for valid under `src/test`, the others under `src/negative_test`; what they take them for does not count. Files
in YAML are read by the rules of YAML 1.2, and values that JSON does not have are left out.
"""

from __future__ import annotations

import json
import random
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import yaml

from logitkit.errors import LogitkitError
from logitkit.json_schema.document import load
from logitkit.json_schema.left_out import LeftOut
from logitkit.json_schema.resources import documents_of
from tests.json_schema.canonical import canonical
from tests.json_schema.corpus import Case
from tests.json_schema.judge import exact, judge, parse

SCHEMAS = "src/schemas/json"
# That of the order of the schemas.
SEED = 2026
DOCUMENTS = ("src/test", "src/negative_test")


def schemas(path: Path, count: int | None = None, seed: int = SEED) -> list[Case]:
    """Return schemas in a random order, which depends on the seed alone. The documents of all are still to be read.

    Args:
        path: A folder that holds `src/schemas/json`.
        count: The number of schemas; None: all.
        seed: The seed of the order.

    Raises:
        FileNotFoundError: The path holds no schemas.
    """
    files = sorted((path / SCHEMAS).glob("*.json"))
    if not files:
        raise FileNotFoundError(f"{path} holds no {SCHEMAS}/*.json; give a clone of schemastore")
    random.Random(seed).shuffle(files)
    return [Case(file.stem, json.loads(file.read_text("utf-8-sig")), (), ()) for file in files[:count]]


def texts_of(case: Case, path: Path) -> list[tuple[str, bool]]:
    """Return the documents of a schema as `JsonSchema` writes them, each with whether it is valid.

    Raises:
        Exception: Whatever `jsonschema` raises if it cannot read the schema.
    """
    values = [value for folder in DOCUMENTS for value in _values(path / folder / case.name)]
    if not values:
        return []
    try:
        resources = documents_of(load(case.schema), path / SCHEMAS, LeftOut())
    except LogitkitError:
        resources = {}
    validator = judge(case.schema, resources)
    return [(canonical(value, validator), validator.is_valid(value)) for value in values]


def _values(folder: Path) -> Iterator[Any]:
    for file in sorted(folder.rglob("*")):
        try:
            value = _read(file)
        except (ValueError, TypeError, yaml.YAMLError):
            continue
        if value is not None:
            yield value[0]


def _read(file: Path) -> tuple[Any] | None:
    """Return the value of a file, None if it is of another kind."""
    if file.suffix == ".json":
        return (parse(file.read_text("utf-8-sig")),)
    if file.suffix in (".yaml", ".yml"):
        found = yaml.load(file.read_text("utf-8-sig"), _Yaml)
    elif file.suffix == ".toml":
        found = tomllib.loads(file.read_text("utf-8-sig"))
    else:
        return None
    return (exact(json.loads(json.dumps(found, allow_nan=False))),)


class _Yaml(yaml.SafeLoader):  # type: ignore[misc]
    """YAML 1.2, in which `on`, `2026-01-01` and `12:30` are texts."""

    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = {
        first: [(tag, pattern) for tag, pattern in found if tag.rpartition(":")[2] not in ("bool", "int", "timestamp")]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


_Yaml.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^(?:true|True|TRUE|false|False|FALSE)$"), [*"tTfF"])
_Yaml.add_implicit_resolver("tag:yaml.org,2002:int", re.compile("^[-+]?(?:0|[1-9][0-9]*)$"), [*"-+0123456789"])
