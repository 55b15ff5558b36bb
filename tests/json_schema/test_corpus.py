"""The corpus itself: what it says of each document is what `jsonschema` says."""

from __future__ import annotations

import pytest

from tests.json_schema.corpus import Case, cases
from tests.json_schema.judge import exact, judge

CASES = cases()
# Schemas that have fewer documents than three of a kind.
EVERYTHING = {"open_values/anything", "open_values/true"}
ONE_DOCUMENT = {"tool_calls/no_arguments"}


def test_there_are_enough_cases_of_all_kinds() -> None:
    assert len(CASES) >= 150
    assert len({case.name.split("/")[0] for case in CASES}) >= 20
    for case in CASES:
        assert len(case.valid) >= (1 if case.name in ONE_DOCUMENT else 3), case.name
        assert len(case.invalid) >= (0 if case.name in EVERYTHING else 3), case.name


@pytest.mark.parametrize("case", CASES, ids=str)
def test_its_verdicts(case: Case) -> None:
    validator = judge(case.schema)
    validator.check_schema(validator.schema)
    for document in case.valid:
        validator.validate(exact(document))
    for document in case.invalid:
        assert not validator.is_valid(exact(document)), document
