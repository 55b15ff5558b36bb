"""Where a number stands for a choice, one module alone writes and reads it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

PROCESSORS = Path(__file__).parents[2] / "processors" / "logitkit"


class Code(NamedTuple):
    """A number that stands for a choice.

    Args:
        owner: The module that writes and reads it.
        arithmetic: A regular expression that finds lines which write or read it.
        where: The packages and modules that have to do with it.
        others: Further modules that may do the same: those of another language, or with another meaning.
    """

    owner: str
    arithmetic: str
    where: tuple[str, ...]
    others: tuple[str, ...] = ()


CODES = {
    "generation": Code("runtime/slot_generation.py", r"2 ?\*\* ?40|1 << 40", ("",), ("kernels/row_sums.py",)),
    "state with a count": Code(
        "compiler/tokens/tables/counted_state.py",
        r"(<<|>>) ?32|& ?\(?(2 ?\*\* ?32|0xFFFFFFFF)|(?<!counted_state\.)\b(STATE_BITS|COUNT_SHIFT)\b",
        ("compiler/tokens", "runtime", "kernels", "stopping", "batching"),
        ("kernels/codes.py", "kernels/row_sums.py"),
    ),
    "target": Code(
        "compiler/tokens/tables/targets.py",
        r"\b(targets?|actions?|numbers?|legal)\b\S* (-|>=) \S*\bstates\b|\bstates \+ (closes|pushed|suffixes|which|actions?)\b|"
        r"[-+] \S*first_action\b|(>=|-|\+) FIRST_ACTION\b|2 ?\*\* ?29|"
        r"-1 - (does|place|i)\b",
        ("compiler/tokens", "runtime", "kernels"),
        # Those of leaves and markers are targets of other tables.
        ("kernels/codes.py", "compiler/tokens/markers/marker_targets.py"),
    ),
    "target in a fragment": Code(
        "compiler/tokens/fragments/fragment_stores.py",
        r"first_end\b|divmod\([^)]*chain|\* chain\b|\b(states|counts) \* (self\.)?(counts|states|copies)\b",
        ("compiler/tokens",),
    ),
    "state of a record": Code(
        "compiler/tokens/records/record_states.py",
        r"\bcopies \* |\bsize \+ (after|rest)\b|divmod\([^)]*(block|FIRST_STATE)",
        ("compiler/tokens/records",),
    ),
    "state of a thinking section": Code(
        "reasoning/section_states.py",
        r"\bINSIDE \+ |\+ (INSIDE|FIRST_STATE)\b|[-+] (\w+\.)?inside\b",
        ("reasoning", "kernels/thinking_step.py"),
        ("kernels/codes.py",),
    ),
    "target before a marker": Code(
        "compiler/tokens/markers/marker_targets.py",
        r"\btarget\b\S* (-|>|>=|\+) \S*states\b|states \+ (leads|left|count)|\(target > ",
        tuple(
            f"compiler/tokens/{name}.py"
            for name in ("markers/before_marker", "linking/joined_tables", "markers/marker_targets")
        ),
    ),
}


def modules(where: tuple[str, ...]) -> list[Path]:
    """Return the modules of packages, and modules themselves."""
    paths = [PROCESSORS / name for name in where]
    return [file for path in paths for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])]


@pytest.mark.parametrize("name", CODES)
def test_only_its_owner_computes_with_a_code(name: str) -> None:
    code = CODES[name]
    allowed = {PROCESSORS / path for path in (code.owner, *code.others)}
    found = [
        f"{path.relative_to(PROCESSORS)}:{number}: {line.strip()}"
        for path in modules(code.where)
        if path not in allowed
        for number, line in enumerate(path.read_text("utf-8").split("\n"), 1)
        if re.search(code.arithmetic, line)
    ]
    assert not found, f"use the class in {code.owner}:\n" + "\n".join(found)


@pytest.mark.parametrize("name", CODES)
def test_its_owner_computes_with_it(name: str) -> None:
    code = CODES[name]
    for path in (code.owner, *code.others):
        assert re.search(code.arithmetic, (PROCESSORS / path).read_text("utf-8")), f"{path} is no longer an exception"
