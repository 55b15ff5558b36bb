"""`scripts/lint-prose` finds the phrases that its rules describe, and nothing else."""

from __future__ import annotations

import importlib.util
import json
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "lint-prose"


@pytest.fixture(scope="module")
def lint() -> ModuleType:
    spec = importlib.util.spec_from_loader("lint_prose", SourceFileLoader("lint_prose", str(SCRIPT)))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("sentence", "phrase"),
    [
        ("The value is no token id.", "is no token"),
        ("Of these, two are no text.", "are no text"),
        ("A row is none of the batch's.", "is none"),
        ("The hook is told the prompt.", "told"),
        ("EOS comes behind the marker.", "behind"),
        ("What follows is forced.", "What"),
        ("It stops there. What follows is forced.", "What"),
        ("Of each value one text is accepted.", "Of each"),
        ("It ends after so many tokens.", "so many"),
        ("It costs as much as a mask.", "as much as"),
        ("The constraint begins anew.", "anew"),
    ],
)
def test_finds_a_phrase_that_a_rule_describes(lint: ModuleType, sentence: str, phrase: str) -> None:
    assert phrase in [finding.phrase for finding in lint.findings(sentence, ".md")]


@pytest.mark.parametrize(
    "sentence",
    [
        "There is no limit, and there are none.",
        "The limit is no longer checked, and the result is no larger than before.",
        "The value is None.",
        "The two prompts cannot be told apart.",
        "The server runs behind a proxy.",
        "It leaves nothing behind.",
        "What does a hook see? It sees token ids.",
        "It depends on what follows.",
        "Of course it may fail.",
        "There are so many tokens that the table is sparse.",
        "`is no` and `What follows` are code.",
        "```\nWhat follows is code\n```",
    ],
)
def test_leaves_other_sentences_alone(lint: ModuleType, sentence: str) -> None:
    assert lint.findings(sentence, ".md") == []


def test_finds_a_phrase_that_continues_on_the_next_line(lint: ModuleType) -> None:
    assert lint.findings("One line.\n\nThe value is\nno token id.", ".md") == [(3, "is no token", "is not a ...")]


SOURCE = '''"""What a module does."""

# It comes
# behind the marker.
limit = 3  # is no limit


def check(value: int) -> None:
    """Check it.

    >>> check("What is told")
    'What is told'
    """
    name = "behind"
    raise ValueError(f"{value} is no id: " "it was told so")


def test_what_is_no_id() -> None: ...
'''


def test_checks_docstrings_comments_and_messages_of_python(lint: ModuleType) -> None:
    found = [(finding.line, finding.phrase) for finding in lint.findings(SOURCE, ".py")]
    assert found == [(1, "What"), (4, "behind"), (5, "is no limit"), (15, "is no id"), (15, "told"), (18, "is no id")]


def test_checks_the_cells_of_notebooks(lint: ModuleType) -> None:
    cells = [("markdown", "# Cells"), ("code", "x = 1  # is no limit"), ("markdown", "It is\nno token id.")]
    text = json.dumps({"cells": [{"cell_type": kind, "source": [source]} for kind, source in cells]})
    assert [(f.line, f.phrase) for f in lint.findings(text, ".ipynb")] == [(2, "is no limit"), (3, "is no token")]


def test_leaves_strings_of_tests_alone(lint: ModuleType) -> None:
    lines = {finding.line for finding in lint.findings(SOURCE, ".py", test=True)}
    assert lines == {1, 4, 5, 18}


def test_checks_comments_of_other_files(lint: ModuleType) -> None:
    assert [f.line for f in lint.findings("echo 'is no comment'\n# is no code\n", ".toml")] == [2]


def test_the_clean_paths_and_the_exempt_ones_exist(lint: ModuleType) -> None:
    for name in [*lint.CLEAN, *lint.EXEMPT]:
        assert (lint.ROOT / name).exists(), name
