"""Every decode mode of every engine gives what plain greedy decoding gives, or does in each call what the core does."""

from __future__ import annotations

import pytest

from tests.adapters.demo import tokenizer
from tests.conformance import matrix, modes_transformers
from tests.conformance.cases import processors, prompts
from tests.conformance.families import FAMILIES, family

PROMPTS = prompts("record, told not to repeat itself")[0][:3]


@pytest.mark.parametrize(("engine", "mode", "kind"), matrix.cases())
def test_a_mode_changes_nothing(engine: str, mode: str, kind: str) -> None:
    processor = family(kind)
    for prompt in PROMPTS:
        found = getattr(matrix.ENGINES[engine][1], mode)(prompt, processor)
        if found is None:
            continue  # compared call by call
        wanted = modes_transformers.greedy(prompt, processor)
        if isinstance(found, str):
            shown = tokenizer().decode(wanted, skip_special_tokens=engine == "llama.cpp")
            assert found == shown
        else:
            assert found == wanted


def test_the_table_in_the_documentation_is_the_one_that_is_tested() -> None:
    assert matrix.PAGE.read_text() == matrix.page(), "write it anew: python -m tests.conformance.matrix"


def test_the_processors_of_the_modes_matter() -> None:
    """Each changes what the model says to at least one of the prompts."""
    bare = processors()["empty chain"]
    for kind in FAMILIES:
        if kind != "distribution":  # which changes no greedy choice
            texts = [modes_transformers.greedy(prompt, family(kind)) for prompt in PROMPTS]
            assert texts != [modes_transformers.greedy(prompt, bare) for prompt in PROMPTS], kind
