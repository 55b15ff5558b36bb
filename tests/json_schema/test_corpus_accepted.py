"""The corpus against the automata: no schema is refused but those named, no document is judged wrongly."""

from __future__ import annotations

import pytest

from logitkit.errors import UnsupportedSchema
from tests.json_schema.acceptance import acceptor
from tests.json_schema.canonical import canonical
from tests.json_schema.corpus import Case, cases
from tests.json_schema.judge import judge

# The refused schemas, and the keyword that the error names.
REFUSED: dict[str, str] = {}
# Valid documents that are not written: no automaton tells whether an A-label is valid.
NOT_WRITTEN = {"formats/hostname": ["xn--bcher-kva.example"]}


@pytest.mark.parametrize("case", cases(), ids=str)
def test_documents(case: Case) -> None:
    if case.name in REFUSED:
        with pytest.raises(UnsupportedSchema) as error:
            acceptor(case.schema)
        assert error.value.keyword == REFUSED[case.name]
        return
    accepts, validator = acceptor(case.schema), judge(case.schema)
    for document in case.valid:
        expected = document not in NOT_WRITTEN.get(case.name, [])
        assert accepts(canonical(document, validator)) == expected, canonical(document, validator)
    for document in case.invalid:
        assert not accepts(canonical(document, validator)), canonical(document, validator)
