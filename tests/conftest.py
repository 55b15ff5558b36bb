"""For all tests: one torch thread, hypothesis profiles, Triton's interpreter, vocabularies of real tokenizers."""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest
import torch
from hypothesis import settings

from logitkit.vocabulary import Vocabulary
from tests import vocabularies

# Deadlines measure the machine, not the code. The campaigns (`scripts/fuzz`) draw many more examples, and others each time.
settings.register_profile("dev", deadline=None, max_examples=10)
settings.register_profile("ci", deadline=None, max_examples=50, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")

# Read when Triton is imported, which may be in any test. vLLM's processes would inherit it.
if find_spec("vllm") is None:
    os.environ["TRITON_INTERPRET"] = "1"


@pytest.fixture(scope="session", autouse=True)
def one_torch_thread() -> None:
    """Keep test workers from taking each other's cores; results do not depend on it."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tekken() -> Vocabulary:
    return vocabularies.tekken()


@pytest.fixture(scope="session")
def sentencepiece_32k() -> Vocabulary:
    return vocabularies.sentencepiece_32k()
