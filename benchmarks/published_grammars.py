"""The grammars of other projects, read from folders or git repositories: files of grammars, and tests that hold grammars."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.xgrammar_tests import FILES, tested

__all__ = ["Published", "published"]

SUFFIXES = (".gbnf", ".ebnf", ".lark")
# Grammars in these folders are parts that other ones import.
FRAGMENTS = frozenset(("tests", "relative-imports"))
RUST_TESTS = "parser/tests/test_lark.rs"
# A test gives a grammar, the texts that it has and the texts that it lacks. The texts may be a variable.
RUST_CASE = re.compile(
    r'lark_str_test_many\(\s*r(#*)"(?P<grammar>(?:(?!"\1).)*)"\1,\s*'
    r"(?P<valid>&\[.*?\]|\w+),\s*(?P<invalid>&\[.*?\]|\w+),?\s*\);",
    re.DOTALL,
)
RUST_VARIABLE = re.compile(r"let (\w+) = (&\[.*?\]);", re.DOTALL)
RUST_TEXT = re.compile(r'r(#*)"(.*?)"\1|"((?:[^"\\]|\\.)*)"', re.DOTALL)
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}


@dataclass(frozen=True)
class Published:
    """A grammar of another project.

    Args:
        name: The project and the place in it.
        suffix: The suffix of its file, which says its syntax.
        text: The grammar.
        texts: Texts, and whether they are of the language by its project's own tests.
        start: The start rule, if it is not the usual one.
    """

    name: str
    suffix: str
    text: str
    texts: tuple[tuple[str, bool], ...] = ()
    start: str | None = None


def published(path: Path) -> Iterator[Published]:
    """Yield the grammars of a folder, or of the last commit of a git directory."""
    is_git = (path / "HEAD").is_file()
    project = (path.parent if is_git and path.name == "repo" else path).name.rpartition("+")[2]
    if is_git:
        files = _git(path, "ls-tree", "-r", "--name-only", "HEAD").splitlines()
    else:
        files = [str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()]
    for file in sorted(files):
        suffix = Path(file).suffix
        is_test = file in (RUST_TESTS, *FILES)
        if not is_test and (suffix not in SUFFIXES or FRAGMENTS.intersection(Path(file).parts)):
            continue
        text = _git(path, "show", f"HEAD:{file}") if is_git else (path / file).read_text("utf-8")
        if file == RUST_TESTS:
            yield from _rust_cases(project, text)
        elif is_test:
            for grammar, (line, texts) in tested(text).items():
                yield Published(f"{project}: {file}:{line}", grammar.suffix, grammar.text, tuple(texts), grammar.start)
        else:
            yield Published(f"{project}: {file}", suffix, text)


def _git(path: Path, *arguments: str) -> str:
    return subprocess.run(["git", "--git-dir", str(path), *arguments], capture_output=True, check=True).stdout.decode()


def _rust_cases(project: str, source: str) -> Iterator[Published]:
    for case in RUST_CASE.finditer(source):
        texts = []
        # The newest variables come last.
        variables = {found[1]: found[2] for found in RUST_VARIABLE.finditer(source, 0, case.start())}
        for group, valid in (("valid", True), ("invalid", False)):
            for raw in RUST_TEXT.finditer(_without_comments(variables.get(case[group], case[group]))):
                text = raw[2] if raw[2] is not None else _unescaped(raw[3])
                texts.append((text.removeprefix("FINAL_REJECT:"), valid))
        line = source.count("\n", 0, case.start()) + 1
        yield Published(f"{project}: {RUST_TESTS}:{line}", ".lark", case["grammar"], tuple(texts))


def _without_comments(source: str) -> str:
    return "\n".join(line for line in source.splitlines() if not line.lstrip().startswith("//"))


def _unescaped(text: str) -> str:
    text = re.sub(r"\\\n\s*", "", text)
    text = re.sub(r"\\u\{([0-9a-fA-F]+)\}|\\x([0-9a-fA-F]{2})", lambda found: chr(int(found[1] or found[2], 16)), text)
    return re.sub(r"\\(.)", lambda found: ESCAPES.get(found[1], found[1]), text)
