"""The cost of hostile schemas: each is compiled or refused in little time and memory, on any machine that runs the tests."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from logitkit.budget import one_budget, spent
from logitkit.constraints.json_schema import SCHEMA_LIMITS
from logitkit.json_schema.compile import schema_grammar
from logitkit.json_schema.document import load
from tests.counted_calls import calls
from tests.examples import selected
from tests.json_schema.hostile_schemas import SCHEMAS

# Two seconds of a processor and 500 MB are promised. Here processors are shared, and slower ones are allowed for.
MOST_SECONDS, MOST_MEGABYTES = 6, 500

# Those that are compiled; the others are refused.
COMPILED = {
    "arrays in arrays",
    "negations in negations",
    "3,000 names that need each other",
    "60 names of which each needs all",
    "needs that cross",
    "many members of any kind",
    "a huge bound",
    "excluded numbers",
    "fine multiples",
    "a long string",
    "a string of 100,000 characters",
    "many counted strings",
    "many lengths",
    "formats with lengths",
    "formats but others",
    "items without number",
    "50,000 items",
    "counts in counts",
    "objects among any others",
    "many items of any kind",
    "prefixes that grow together",
    "different items",
    "one of 1,000 objects",
    "one of 200 open objects",
    "the same 20,000 times",
    "a long chain",
    "members that double",
    "exclusive unions that double",
    "each refers to all",
    "recursive conjunctions",
    "recursion under many conditions",
    "recursion in a union",
}

# In a process of its own: memory that once was taken tells of all that came before.
SCRIPT = """
import json, sys, time
import logitkit as lk
from logitkit.errors import ConfigurationError, UnsupportedSchema
from tests.json_schema.hostile_schemas import SCHEMAS
from tests.peak_memory import peak_megabytes
from tests.vocabularies import tekken

vocabulary = tekken()
lk.JsonSchema(True, vocabulary)
before = peak_megabytes()
for name in sys.argv[1:]:
    begin = time.process_time()
    try:
        lk.JsonSchema(SCHEMAS[name], vocabulary)
        said = "compiled"
    except (UnsupportedSchema, ConfigurationError) as error:
        said = type(error).__name__
    seconds = time.process_time() - begin
    print(json.dumps([name, said, seconds, peak_megabytes() - before]))
"""


@pytest.fixture(scope="module")
def costs(request: pytest.FixtureRequest) -> dict[str, tuple[str, float, float]]:
    """The result of each schema of the tests that run, its seconds, and the peak memory so far in megabytes."""
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", SCRIPT, *selected(request, "name")]
    output = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    found: list[Any] = [json.loads(line) for line in output.splitlines()]
    return {name: (said, seconds, megabytes) for name, said, seconds, megabytes in found}


pytestmark = pytest.mark.timeout(1800)
"""The first test of this file compiles the schemas of all of them."""


def test_those_that_are_compiled_are_among_them() -> None:
    assert set(SCHEMAS) > COMPILED


@pytest.mark.parametrize("name", SCHEMAS)
def test_it_is_compiled_or_refused_soon(name: str, costs: dict[str, tuple[str, float, float]]) -> None:
    said, seconds, megabytes = costs[name]
    refused = "ConfigurationError" if name == "exclusive unions of unions" else "UnsupportedSchema"
    assert said == ("compiled" if name in COMPILED else refused)
    assert seconds < MOST_SECONDS
    assert megabytes < MOST_MEGABYTES


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
