"""The cost of hostile schemas: each is compiled or refused in little time and memory, on any machine that runs the tests."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from logitkit.budget import one_budget, spent
from logitkit.constraints.json_schema import SCHEMA_LIMITS
from logitkit.json_schema.compile import schema_grammar
from logitkit.json_schema.document import load
from tests.counted_calls import calls
from tests.json_schema.hostile_schemas import tried

# Two seconds of a processor and 500 MB are promised. Here processors are shared, and slower ones are allowed for.
MOST_SECONDS, MOST_MEGABYTES = 6, 500

# In a process of its own: memory that once was taken tells of all that came before.
SCRIPT = """
import json, time
import logitkit as lk
from logitkit.errors import ConfigurationError, UnsupportedSchema
from tests.json_schema.hostile_schemas import SCHEMAS, tried
from tests.peak_memory import peak_megabytes
from tests.vocabularies import tekken

vocabulary = tekken()
lk.JsonSchema(True, vocabulary)
before = peak_megabytes()
for name in tried():
    begin = time.process_time()
    try:
        lk.JsonSchema(SCHEMAS[name], vocabulary)
        said = "compiled"
    except (UnsupportedSchema, ConfigurationError) as error:
        said = type(error).__name__
    seconds = time.process_time() - begin
    print(json.dumps([name, said, seconds, peak_megabytes() - before]))
"""


@cache
def costs() -> dict[str, tuple[str, float, float]]:
    """The result of each schema, its seconds, and the peak memory so far in megabytes."""
    root = Path(__file__).parents[2]
    output = subprocess.run([sys.executable, "-c", SCRIPT], cwd=root, check=True, capture_output=True, text=True).stdout
    found: list[Any] = [json.loads(line) for line in output.splitlines()]
    return {name: (said, seconds, megabytes) for name, said, seconds, megabytes in found}


pytestmark = pytest.mark.timeout(1800)
"""The first test of this file compiles all of them."""


@pytest.mark.parametrize("name", tried())
def test_it_is_compiled_or_refused_soon(name: str) -> None:
    said, seconds, megabytes = costs()[name]
    assert said in {"compiled", "UnsupportedSchema"} or name == "exclusive unions of unions", said
    assert seconds < MOST_SECONDS
    assert megabytes < MOST_MEGABYTES


def test_some_are_compiled() -> None:
    assert sum(said == "compiled" for said, _, _ in costs().values()) >= len(tried()) // 6


def test_steps_keep_up_with_the_schemas_that_are_joined() -> None:
    conditions = [
        {
            "if": {"properties": {"type": {"const": f"n{i}"}}},
            "then": {"properties": {"v": {"properties": {f"p{i}": {"type": "integer"}, "q": {"minimum": i}}}}},
        }
        for i in range(60)
    ]
    schema = load(
        {"type": "object", "properties": {"type": {"type": "string"}}, "required": ["type"], "allOf": conditions}
    )
    with one_budget(SCHEMA_LIMITS.work):
        made = calls(lambda: schema_grammar(schema, SCHEMA_LIMITS))
        assert made < 0.8 * spent()
