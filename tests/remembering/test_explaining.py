"""An explanation names uniqueItems for items that are equal in another spelling."""

from __future__ import annotations

import pytest

import logitkit as lk
from tests.remembering.test_masks import array, vocabulary


@pytest.mark.parametrize("text", ["[1.5,1.50]", '[{"a":1,"b":2},{"b":2,"a":1.0}]', '[["a"],["a"]]', "[10,1e1]"])
def test_equal_items_in_another_spelling_are_named(text: str) -> None:
    explained = str(lk.explain(lk.JsonSchema(array({}), vocabulary()), vocabulary(), [], text))
    assert "uniqueItems: true, at /uniqueItems" in explained
