"""A process finds the automata that another one compiled, and nothing else."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load, save

import logitkit as lk
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.languages import (
    Language,
    LanguageConstraint,
    any_text,
    any_token,
    choice,
    dispatch,
    either,
    grammar,
    json_schema,
    regex,
    repeat,
    sequence,
    special,
    tag,
)
from logitkit.limits import DEFAULT_LIMITS
from logitkit.runtime import automaton_files
from logitkit.runtime.automaton_files import CHECKSUM, AutomatonFiles
from logitkit.runtime.shared import shared_by
from logitkit.tools import Tools
from logitkit.tools.formats import TOOL_FORMATS

TOKENS = [b"a", b"b", b"[", b"]", b"ab", b"[[", b'"', None]

OTHER = """
import sys
from pathlib import Path
import logitkit as lk
from logitkit.runtime.automaton_files import AutomatonFiles
from logitkit.runtime.shared import shared_by
vocabulary = lk.Vocabulary({tokens!r}, eos_ids=[7])
shared_by(vocabulary).files = AutomatonFiles(Path(sys.argv[1]), vocabulary.content_key)
print(lk.Regex("(ab)*", vocabulary).automaton.content_key)
"""


# One of each kind, and some that differ in one field.
LANGUAGES: list[Language] = [
    sequence("a", regex("b*")),
    sequence("a", regex("b*", exclude="bb")),
    sequence("a", regex("b+")),
    either("a", choice(["ab", "b"])),
    repeat("ab", 1, 3),
    repeat("ab", 1, 3, separator="b"),
    any_text(until="b"),
    any_text(until="b", max_tokens=2),
    any_text(until="b", max_tokens=3),
    any_text(until="ab"),
    dispatch({"b": tag("b", "a", "b")}),
    dispatch({"b": tag("b", "a", "b")}, stop_after_first=True),
    sequence("[", json_schema({"type": "array", "items": {"const": "a"}})),
    sequence("[", json_schema({"type": "array", "items": {"const": "b"}})),
    sequence("[", json_schema({"type": "array", "items": {"const": "b"}}, whitespace="spaced")),
    grammar('root ::= "a" "b"*'),
    sequence(grammar('root ::= "a" "b"*'), "a"),
    any_token(),
    any_token(exclude=special(0)),
]


def test_languages_are_told_apart(files: AutomatonFiles, vocabulary: lk.Vocabulary) -> None:
    keys = [(LanguageConstraint, language, 32, False, DEFAULT_LIMITS) for language in LANGUAGES]
    paths = [files.path(key) for key in keys]
    assert None not in paths
    assert len({*paths}) == len(LANGUAGES)
    assert [files.path(key) for key in copy.deepcopy(keys)] == paths


def test_tools_come_back_as_they_were(files: AutomatonFiles, vocabulary: lk.Vocabulary) -> None:
    bytes_ = lk.Vocabulary([*(bytes([b]) for b in range(256)), None], eos_ids=[256])
    shared_by(bytes_).files = AutomatonFiles(files.folder, bytes_.content_key)
    schema = {"type": "object", "properties": {"a": {"type": "string", "format": "nobody"}}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": schema}}]
    found = []
    for name in ("hermes", "qwen_coder"):
        for _ in range(2):
            compiled_again(bytes_)
            found.append(Tools(tools, TOOL_FORMATS[name]).constraint(bytes_).automaton)
    shared_by(bytes_).files = None
    assert len([*files.folder.iterdir()]) == 2
    for first, second in (found[:2], found[2:]):
        assert second is not first
        assert second.content_key == first.content_key
        assert list(second.ignored) == list(first.ignored) != []


@pytest.fixture
def vocabulary() -> lk.Vocabulary:
    return lk.Vocabulary(TOKENS, eos_ids=[7])


@pytest.fixture
def files(vocabulary: lk.Vocabulary, tmp_path: Path) -> Iterator[AutomatonFiles]:
    shared = shared_by(vocabulary)
    shared.files = AutomatonFiles(tmp_path / "files", vocabulary.content_key)
    yield shared.files
    shared.files = None


def compiled_again(vocabulary: lk.Vocabulary) -> None:
    shared = shared_by(vocabulary)
    shared._automata.clear()
    shared._bytes = 0


def mask(processor: Any, context: lk.Context) -> torch.Tensor:
    found: torch.Tensor = processor.process_logits(processor.init_state(context), torch.zeros(1, 8), context)[1]
    return found


def test_every_kind_comes_back_as_it_was(vocabulary: lk.Vocabulary, files: AutomatonFiles) -> None:
    nesting = {"type": "array", "items": {"$ref": "#"}}
    for make in (
        lambda: lk.Regex("(ab)*b", vocabulary),
        lambda: lk.Choice(["a", "ab"], vocabulary),
        lambda: lk.BannedStrings(["ab"], vocabulary),
        lambda: lk.JsonSchema(nesting, vocabulary),
        lambda: lk.JsonSchema(nesting, vocabulary, closing=True),
        lambda: lk.ThinkingBudget(4, "b", vocabulary),
        *(lambda low=low: lk.Regex(f"(a?b){{{low},90}}", vocabulary) for low in (0, 1, 89, 90)),
        *(lambda language=language: language.constraint(vocabulary) for language in LANGUAGES),
        lambda: sequence("a", json_schema(nesting)).constraint(vocabulary, closing=True),
    ):
        compiled_again(vocabulary)
        first = make()
        compiled_again(vocabulary)
        second = make()
        assert second.automaton is not first.automaton
        assert type(second.automaton) is type(first.automaton)
        assert second.automaton.content_key == first.automaton.content_key
        assert second.automaton.work == first.automaton.work
        context = lk.Context.of([[]], vocabulary_size=8)
        masks = [mask(processor, context) for processor in (first, second)]
        assert torch.equal(*masks)


def test_another_process_finds_it(vocabulary: lk.Vocabulary, files: AutomatonFiles) -> None:
    program = OTHER.format(tokens=TOKENS)
    run = subprocess.run([sys.executable, "-c", program, str(files.folder)], capture_output=True, text=True, check=True)
    wanted = lk.Regex("(ab)*", vocabulary).automaton
    assert run.stdout.strip() == wanted.content_key
    assert len([*files.folder.iterdir()]) == 1
    found = files.read((lk.Regex, "(ab)*", DEFAULT_LIMITS))
    assert found is not None
    assert found.content_key == wanted.content_key


def automaton(vocabulary: lk.Vocabulary, pattern: str = "(ab)*") -> TokenAutomaton:
    return lk.Regex(pattern, vocabulary).automaton


def test_keys_are_told_apart(vocabulary: lk.Vocabulary, tmp_path: Path) -> None:
    made = AutomatonFiles(tmp_path, vocabulary.content_key)
    key = (lk.Regex, "a", DEFAULT_LIMITS)
    made.write(key, automaton(vocabulary))
    assert made.read(key) is not None
    assert made.read((lk.Choice, "a", DEFAULT_LIMITS)) is None
    assert made.read((lk.Regex, b"a", DEFAULT_LIMITS)) is None
    assert made.read((lk.Regex, "a", lk.Limits(states=9))) is None
    assert made.read((lk.Regex, ("a",), DEFAULT_LIMITS)) is None
    assert made.read((lk.Regex, True)) is None
    assert AutomatonFiles(tmp_path, "other").read(key) is None


def test_a_file_of_another_format_is_not_read(
    vocabulary: lk.Vocabulary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = AutomatonFiles(tmp_path, vocabulary.content_key)
    made.write("a", automaton(vocabulary))
    assert made.read("a") is not None
    monkeypatch.setattr(automaton_files, "FORMAT", automaton_files.FORMAT - 1)
    assert made.read("a") is None


def test_a_file_has_only_one_copy_of_a_repeated_record(vocabulary: lk.Vocabulary, tmp_path: Path) -> None:
    made = AutomatonFiles(tmp_path, vocabulary.content_key)
    sizes: list[int] = []
    for number, most in enumerate((9, 9000)):
        made.write(number, automaton(vocabulary, f"(a?b){{1,{most}}}"))
        sizes.append(sum(path.stat().st_size for path in tmp_path.iterdir()) - sum(sizes))
    assert sizes[1] < sizes[0] + 100


@pytest.mark.parametrize("maximum", [2**45, 2**70])
def test_a_file_that_asks_for_too_much_memory_is_not_read(
    vocabulary: lk.Vocabulary, tmp_path: Path, maximum: int
) -> None:
    made = AutomatonFiles(tmp_path, vocabulary.content_key)
    made.write("a", automaton(vocabulary, "(a?b){1,9000}"))
    (path,) = tmp_path.iterdir()
    tables = load(path.read_bytes()[CHECKSUM:])
    rest = json.loads(tables["rest"].tobytes()) | {"maximum": maximum}
    content = save(tables | {"rest": np.frombuffer(json.dumps(rest).encode(), np.uint8)})
    path.write_bytes(sha256(content).digest() + content)
    assert made.read("a") is None


def test_what_has_no_spelling_is_not_written(vocabulary: lk.Vocabulary, tmp_path: Path) -> None:
    made = AutomatonFiles(tmp_path, vocabulary.content_key)
    made.write(("a", object()), automaton(vocabulary))
    assert not [*tmp_path.iterdir()]
    assert made.read(("a", object())) is None


@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"\x02\0\0\0\0\0\0\0{}"])
def test_a_file_with_other_contents_is_ignored(vocabulary: lk.Vocabulary, tmp_path: Path, content: bytes) -> None:
    made = AutomatonFiles(tmp_path, vocabulary.content_key)
    made.write("a", automaton(vocabulary))
    (path,) = tmp_path.iterdir()
    path.write_bytes(content)
    assert made.read("a") is None


def test_a_file_with_a_changed_bit_is_ignored(vocabulary: lk.Vocabulary, tmp_path: Path) -> None:
    made = AutomatonFiles(tmp_path, vocabulary.content_key)
    made.write("a", automaton(vocabulary))
    (path,) = tmp_path.iterdir()
    content = path.read_bytes()
    for place in range(0, len(content), 7):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        assert made.read("a") is None, place
    path.write_bytes(content)
    assert made.read("a") is not None


def test_a_folder_of_others_is_not_used(vocabulary: lk.Vocabulary, tmp_path: Path) -> None:
    made = AutomatonFiles(tmp_path / "files", vocabulary.content_key)
    made.write("a", automaton(vocabulary))
    made.folder.chmod(0o777)
    assert made.read("a") is None
    made.write("b", automaton(vocabulary))
    assert len([*made.folder.iterdir()]) == 1
    made.folder.rename(tmp_path / "elsewhere")
    made.folder.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").chmod(0o700)
    assert made.read("a") is None


def test_a_new_folder_is_for_its_owner_alone(vocabulary: lk.Vocabulary, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        made = AutomatonFiles(tmp_path / "files", vocabulary.content_key)
        made.write("a", automaton(vocabulary))
    finally:
        os.umask(before)
    assert made.folder.stat().st_mode & 0o777 == 0o700


def test_the_oldest_go_first(vocabulary: lk.Vocabulary, tmp_path: Path) -> None:
    AutomatonFiles(tmp_path / "one", vocabulary.content_key).write("a", automaton(vocabulary))
    (one,) = (tmp_path / "one").iterdir()
    made = AutomatonFiles(tmp_path / "some", vocabulary.content_key, limit=3 * one.stat().st_size)
    for number in range(5):
        made.write(number, automaton(vocabulary))
    assert [number for number in range(5) if made.read(number) is not None] == [2, 3, 4]


def test_a_folder_that_cannot_be_created_is_not_an_error(vocabulary: lk.Vocabulary, tmp_path: Path) -> None:
    made = AutomatonFiles(tmp_path / "not" / "there", vocabulary.content_key)
    made.write("a", automaton(vocabulary))
    assert made.read("a") is None
