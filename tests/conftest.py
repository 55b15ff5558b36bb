"""Fixtures for all tests: vocabularies of real tokenizers."""

from __future__ import annotations

import pytest

from logitkit.vocabulary import Vocabulary
from tests import vocabularies


@pytest.fixture(scope="session")
def tekken() -> Vocabulary:
    return vocabularies.tekken()


@pytest.fixture(scope="session")
def sentencepiece_32k() -> Vocabulary:
    return vocabularies.sentencepiece_32k()
