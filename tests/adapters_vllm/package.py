"""Install a small package of processors, as a user would, for engines in processes of their own."""

from __future__ import annotations

from pathlib import Path

CODE = '''
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch

import logitkit as lk


class Counts(NamedTuple):
    tokens: torch.Tensor  # [B] int64


@dataclass(frozen=True)
class EveryNth:
    """Allows only one token at every n-th place of the output; `process_logits` reads its own parameters."""

    n: int
    token: int
    fails_at: int = -1

    role = lk.Role.CONSTRAINT
    parameters: ClassVar[Any] = {
        "n": {"type": "integer", "minimum": 1, "maximum": 100},
        "token": {"type": "integer", "minimum": 0},
        "fails_at": {"type": "integer"},
    }
    examples = ({"n": 2, "token": 5}, {"n": 3, "token": 6})

    def __post_init__(self):
        if self.n == 13:
            raise ValueError("n is 13; give another number")

    def init_state(self, context):
        return Counts(context.lengths - context.prompt_lengths)

    def advance(self, state, tokens):
        return Counts(state.tokens + lk.count_tokens(tokens))

    def process_logits(self, state, logits, context):
        assert torch.equal(state.tokens, context.lengths - context.prompt_lengths)
        if (state.tokens == self.fails_at).any():
            raise RuntimeError("it fails here")
        due = (state.tokens + 1) % self.n == 0
        others = torch.arange(logits.shape[1], device=logits.device) != self.token
        return state, logits.masked_fill(due[:, None] & others, -torch.inf)


@dataclass(frozen=True)
class ForgetsRows:
    """Breaks the protocol: what it does to a row depends on the others."""

    role = lk.Role.PENALTY

    def init_state(self, context):
        return ()

    def advance(self, state, tokens):
        return state

    def process_logits(self, state, logits, context):
        return state, logits - logits.amax()
'''

PYPROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "our-processors"
version = "1.2.3"

[project.entry-points."logitkit.processors"]
{entries}

[tool.hatch.build.targets.wheel]
packages = ["our_processors"]
"""


def install(folder: Path, **entries: str) -> Path:
    """Write a package with these entry points, and what an installer leaves of it; return the folder for `PYTHONPATH`."""
    written = "\n".join(f'{name} = "our_processors:{value}"' for name, value in entries.items())
    package = folder / "our_processors"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(CODE)
    (folder / "pyproject.toml").write_text(PYPROJECT.format(entries=written))
    about = folder / "our_processors-1.2.3.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: our-processors\nVersion: 1.2.3\n")
    lines = "\n".join(f"{name} = our_processors:{value}" for name, value in entries.items())
    (about / "entry_points.txt").write_text(f"[logitkit.processors]\n{lines}\n")
    (about / "INSTALLER").write_text("pip\n")
    return folder
