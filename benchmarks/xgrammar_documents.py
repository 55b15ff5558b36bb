"""The structural tags in XGrammar's own tests: which verdicts on their texts differ from those of the installed XGrammar.

SNAPSHOT is a checkout of github.com/mlc-ai/xgrammar, or its git directory. Its test file runs under pytest, while the functions
that read a document and judge a text are recorded. So this runs code of the snapshot. Documents that need a tokenizer are not
counted.

    python -m benchmarks.xgrammar_documents SNAPSHOT [--file tests/python/test_structural_tag_converter.py]
"""

from __future__ import annotations

import argparse
import importlib
import io
import json
import subprocess
import sys
import tarfile
import tempfile
import types
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

import logitkit as lk
from logitkit.errors import LogitkitError

FILE = "tests/python/test_structural_tag_converter.py"
EOS = 256


class Judged(NamedTuple):
    """A text and XGrammar's verdict on it.

    Args:
        document: The structural tag as JSON text.
        text: The text.
        accepted: Whether XGrammar accepts it.
    """

    document: str
    text: str
    accepted: bool


def unpacked(snapshot: Path, folder: Path, *names: str) -> Path:
    """Return a folder with the files of a snapshot; those of a git directory are written to `folder`.

    Args:
        snapshot: A checkout, or a git directory.
        folder: Where to write files.
        *names: The folders at the root of the snapshot that are needed, as far as they exist.
    """
    if any((snapshot / name).is_dir() for name in names):
        return snapshot
    git = ["git", "-C", str(snapshot)]
    listed = subprocess.run([*git, "ls-tree", "--name-only", "HEAD"], check=True, capture_output=True, text=True)
    kept = sorted({*names}.intersection(listed.stdout.split("\n")))
    archive = subprocess.run([*git, "archive", "HEAD", *kept], check=True, capture_output=True)
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
    return folder


def judged(file: Path) -> list[Judged]:
    """Run a test file of XGrammar, and return the texts that it judges."""
    xgrammar: Any = importlib.import_module("xgrammar")
    testing: Any = importlib.import_module("xgrammar.testing")
    read, judge = xgrammar.Grammar.from_structural_tag, testing._is_grammar_accept_string
    documents: dict[int, tuple[Any, str]] = {}
    found: dict[Judged, None] = {}

    def reading(*arguments: Any, **more: Any) -> Any:
        grammar = read(*arguments, **more)
        if len(arguments) == 1 and not more:
            (given,) = arguments
            text = (
                given
                if isinstance(given, str)
                else json.dumps(given if isinstance(given, dict) else given.model_dump())
            )
            # The grammar is kept, so that no other one gets its number.
            documents[id(grammar)] = grammar, text
        return grammar

    def judging(grammar: Any, text: str, **more: Any) -> Any:
        accepted = judge(grammar, text, **more)
        if id(grammar) in documents and more.get("require_termination", True):
            found[Judged(documents[id(grammar)][1], text, bool(accepted))] = None
        return accepted

    # The tests ask their conftest whether there is an account for downloads, which they do not need.
    asked = types.ModuleType("conftest")
    asked._hf_token_available = lambda: False  # type: ignore[attr-defined]
    asked._hf_token_explicitly_disabled = lambda _: True  # type: ignore[attr-defined]
    sys.modules["conftest"] = asked
    xgrammar.Grammar.from_structural_tag = staticmethod(reading)
    testing._is_grammar_accept_string = judging
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            options = ["-q", "--noconftest", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", str(file.parent)]
            pytest.main([str(file), *options])
    finally:
        xgrammar.Grammar.from_structural_tag, testing._is_grammar_accept_string = read, judge
        del sys.modules["conftest"]
    return list(found)


@cache
def constraint_of(document: str) -> lk.StructuralTag | str:
    """Return the constraint of a document over single bytes, or why it is refused."""
    vocabulary = lk.Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_ids=[EOS])
    try:
        return lk.from_structural_tag(document, vocabulary)
    except LogitkitError as error:
        return " ".join(str(error).split())


def accepts(constraint: lk.StructuralTag, text: str) -> bool:
    """Whether a constraint accepts a text."""
    context = lk.Context.of([[]], vocabulary_size=EOS + 1)
    state = constraint.init_state(context)
    if text:
        state = constraint.advance(state, torch.tensor([list(text.encode())]))
    masked = constraint.process_logits(state, torch.zeros(1, EOS + 1), context)[1]
    return not bool(constraint.is_dead(state)) and bool(masked[0, EOS] == 0)


def main() -> None:
    """Compare, and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("snapshot", type=Path)
    parser.add_argument("--file", default=FILE)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        texts = judged(unpacked(options.snapshot, Path(folder), "tests") / options.file)
    refused: Counter[str] = Counter()
    same, different = 0, []
    for document, text, accepted in texts:
        constraint = constraint_of(document)
        if isinstance(constraint, str):
            refused[constraint[:150]] += 1
        elif accepts(constraint, text) == accepted:
            same += 1
        else:
            different.append((document, text, accepted))
    documents = len({text.document for text in texts})
    print(f"{len(texts)} texts of {documents} documents: the same verdict on {same}, another on {len(different)}")
    print(f"not read here: {sum(refused.values())} texts")
    for reason, count in refused.most_common():
        print(f"  {count:5} {reason}")
    for document, text, accepted in different:
        print(f"\nXGrammar {'accepts' if accepted else 'refuses'} {text!r} of\n  {document}")


if __name__ == "__main__":
    main()
