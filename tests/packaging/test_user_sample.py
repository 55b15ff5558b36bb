"""The sample that type checkers read as a user's code also runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from logitkit import Vocabulary
from tests.packaging import user_sample


@pytest.mark.parametrize("part", user_sample.CORE, ids=lambda part: part.__name__)
def test_core(part: Callable[[Vocabulary], None]) -> None:
    part(user_sample.small_vocabulary())


@pytest.mark.parametrize("part", user_sample.ENGINES, ids=lambda part: part.__name__)
def test_engine(part: Callable[[], None]) -> None:
    part()
