"""The official suite: every schema is refused by name, or judged as the suite does."""

from __future__ import annotations

import json

import pytest
import referencing.exceptions

from logitkit.errors import UnsupportedSchema
from tests.json_schema import refusals
from tests.json_schema.acceptance import acceptor
from tests.json_schema.canonical import canonical
from tests.json_schema.judge import judge
from tests.json_schema.official import Group, groups

REFUSED = refusals.refused()
# A host name with A-labels, which are valid, and are not written.
NARROWER = {'"xn--4gbwdl.xn--wgbh1c"'}


def verdicts(group: Group) -> dict[str, tuple[bool, bool]]:
    """Return what is said of each instance, and what the suite says.

    Raises:
        UnsupportedSchema: The schema is refused.
    """
    accepts = acceptor(group.schema)
    validator = judge(group.schema)
    found = {}
    for instance, valid in group.tests:
        try:
            text = canonical(instance, validator)
        except referencing.exceptions.Unresolvable:
            text = canonical(instance)
        found[text] = accepts(text), valid
    return found


@pytest.mark.parametrize("group", groups(), ids=str)
def test_group(group: Group) -> None:
    why, found = None, dict[str, tuple[bool, bool]]()
    try:
        found = verdicts(group)
    except UnsupportedSchema as error:
        if error.pointer is None:
            raise
        why = error.keyword or "the whole"
    assert why == REFUSED.get(str(group)), "write it anew: python -m tests.json_schema.refusals"
    wrong = {text: valid for text, (accepted, valid) in found.items() if accepted != valid and text not in NARROWER}
    assert not wrong, json.dumps(group.schema)


def test_the_table_in_the_documentation_is_the_one_that_is_tested() -> None:
    assert refusals.PAGE.read_text("utf-8") == refusals.page(), "write it anew: python -m tests.json_schema.refusals"
    assert set(REFUSED) <= set(map(str, groups()))
