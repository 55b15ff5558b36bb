"""In automata over bytes and characters, one module alone makes and reads the numbers that stand for a choice."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
CORE = ROOT / "processors" / "logitkit"
ME = Path(__file__)


class Code(NamedTuple):
    """Numbers that stand for a choice.

    Args:
        owner: The module that makes and reads them.
        by_hand: Lines that make or read them elsewhere, as a regular expression.
        planted: Such lines.
        where: The folders in which such lines mean this code.
    """

    owner: str
    by_hand: str
    planted: tuple[str, ...]
    where: tuple[str, ...] = ("processors", "tests")


STATES = r"(\w+\.)*states\b"
CODES = {
    "what a byte does in an automaton that nests": Code(
        "compiler/bytes/nested_step.py",
        rf"\bdoes (<|>=|-) {STATES}|\.step\b[^=<>]* (<|>=) {STATES}|\bstates \+ (\w+\.)*calls\b|(~\(?|-[12] - )2 \*"
        r"|\bfragment\.states \+|\bstate (<|>=) fragment\.states\b|\bstep (<|>=) (states|sources)\b"
        r"|\b(exits|single)(\[\d\])? (<|>=) 0",
        (
            "if does < self.states:",
            "call = does[calls] if does >= dfa.states else 0",
            "call = does - dfa.states",
            "flat = np.where(dfa.step < dfa.states, dfa.step, DEAD)",
            "first_end = dfa.states + dfa.calls",
            "step[source, symbol] = -1 - 2 * call",
            "step[ends] = fragment.states + 1",
            "inner, ends = step < states, step >= states",
            "called = [i for i, exits in enumerate(instances.exits) if exits[0] < 0]",
        ),
    ),
    "what a symbol does in an automaton that looks ahead": Code(
        "compiler/bytes/pushdown_step.py",
        r"-2 - |\bPOP (-|\+|<|>)|(-|<|>|<=|>=) POP\b|\bdoes (<|>=) (0|-1)\b",
        (
            "return self.nodes.target[-2 - does]",
            "number = does if does >= -1 else states - 2 - does",
            "if does >= 0:",
            "move = POP - 1 - does",
        ),
        ("processors/logitkit/compiler/bytes", "processors/logitkit/compiler/grammars", "tests/grammars"),
    ),
    "what a symbol stands for": Code(
        "compiler/characters/symbols.py",
        r"\b(CALLS|MARKS|WORDS|SPECIAL_TOKENS|LETTERS|LOOKS|LOOKAHEADS) (\+|-|<|>|<=|>=) |(\+|-|<|>|<=|>=) "
        r"(CALLS|MARKS|WORDS|SPECIAL_TOKENS|LETTERS|LOOKS|LOOKAHEADS)\b",
        (
            "return Characters(CharSet.single(LETTERS + letter))",
            "elif symbol >= WORDS:",
            "number = symbol.ranges[0][0] - CALLS",
        ),
        ("processors/logitkit",),
    ),
    "whether a symbol of a marker is a byte or a token": Code(
        "vocabulary/marker_symbol.py",
        r"(\+|-|<|>=) (FIRST_TOKEN|TOKENS|256)\b|\b(FIRST_TOKEN|TOKENS) \+|symbol(\[\w+\])? (<|>=|-) \w*256",
        ("moves[TOKENS + letter]", "if symbol < TOKENS:", "letters[symbol - 256][state] = to"),
        (
            "processors/logitkit/compiler/bytes",
            "processors/logitkit/reasoning",
            "processors/logitkit/vocabulary",
        ),
    ),
}


def lines(code: Code) -> Iterator[tuple[str, str]]:
    """Yield the lines of modules that do not own a code, each with its place."""
    for path in (path for folder in code.where for path in sorted((ROOT / folder).rglob("*.py"))):
        if path not in (CORE / code.owner, ME):
            for number, line in enumerate(path.read_text("utf-8").split("\n"), 1):
                yield f"{path.relative_to(ROOT)}:{number}", line


@pytest.mark.parametrize("name", CODES)
def test_only_its_module_makes_and_reads_a_code(name: str) -> None:
    code = CODES[name]
    found = [f"{place}: {line.strip()}" for place, line in lines(code) if re.search(code.by_hand, line)]
    assert not found, f"use the class in {code.owner}:\n" + "\n".join(found)


@pytest.mark.parametrize("name", CODES)
def test_what_is_planted_is_found(name: str) -> None:
    code = CODES[name]
    assert [line for line in code.planted if not re.search(code.by_hand, line)] == []
    assert (CORE / code.owner).exists()
