"""The schemas of JSONSchemaBench, with documents that are known to be valid or invalid.

They are read from a clone or a folder that the user names, and are not copied into this repository:

    git clone https://github.com/guidance-ai/jsonschemabench

Source: Geng et al., JSONSchemaBench: A Rigorous Benchmark of Structured Outputs for Language Models (2025).
"""

from __future__ import annotations

import io
import json
import random
import subprocess
from pathlib import Path
from typing import Any

from tests.json_schema.corpus import Case

DATA = "maskbench/data"


def snapshot(path: Path) -> str:
    """Return what names the version of the corpus: the commit of a clone, else the name of the folder."""
    try:
        return _git(path, "rev-parse", "HEAD").decode().strip()
    except subprocess.CalledProcessError:
        return path.name


def schemas(path: Path, count: int | None = None, seed: int = 2026) -> list[Case]:
    """Return schemas of the corpus in a random order, which depends on the seed alone.

    Args:
        path: A clone, with or without a work tree, or a folder that holds `maskbench/data`.
        count: The number of schemas; None: all.
        seed: The seed of the order.

    Raises:
        FileNotFoundError: The path holds no schemas.
    """
    is_folder = (path / DATA).is_dir()
    names = sorted(file.name for file in (path / DATA).glob("*.json")) if is_folder else _names(path)
    random.Random(seed).shuffle(names)
    if not names:
        raise FileNotFoundError(f"{path} holds no {DATA}/*.json; give a clone of jsonschemabench")
    chosen = names[:count]
    texts = [(path / DATA / name).read_bytes() for name in chosen] if is_folder else _of_commit(path, chosen)
    return [_case(name, json.loads(text)) for name, text in zip(chosen, texts, strict=True) if text]


def _git(path: Path, *arguments: str, given: bytes = b"") -> bytes:
    return subprocess.run(["git", "-C", str(path), *arguments], input=given, capture_output=True, check=True).stdout


def _names(path: Path) -> list[str]:
    listed = _git(path, "ls-tree", "--name-only", f"HEAD:{DATA}").decode().splitlines()
    return sorted(name for name in listed if name.endswith(".json"))


def _of_commit(path: Path, names: list[str]) -> list[bytes]:
    """Return the files of the last commit, empty where a partial clone lacks one."""
    wanted = "".join(f"HEAD:{DATA}/{name}\n" for name in names)
    stream = io.BytesIO(_git(path, "cat-file", "--batch", given=wanted.encode()))
    texts = []
    for _ in names:
        head = stream.readline().split()
        texts.append(b"" if head[-1] == b"missing" else stream.read(int(head[2])))
        if head[-1] != b"missing":
            stream.readline()
    return texts


def _case(name: str, content: dict[str, Any]) -> Case:
    documents = content.get("tests", ())
    valid, invalid = (tuple(d["data"] for d in documents if d["valid"] is flag) for flag in (True, False))
    return Case(name.removesuffix(".json"), content["schema"], valid, invalid)
