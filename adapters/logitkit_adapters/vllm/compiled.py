"""Files of automata that vLLM's front end has compiled, for its workers, which are other processes."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from hashlib import blake2b
from pathlib import Path
from typing import Any

from logitkit.runtime.automaton_files import AutomatonFiles
from logitkit.vocabulary import Vocabulary

__all__ = ["FILE_BYTES", "files_of"]

# The maximum size of the files that a process keeps.
FILE_BYTES = 256 * 2**20

# The folders that this process removes at its end, and its id: a forked process must not remove its parent's folders.
_folders: dict[Path, int] = {}


def files_of(vocabulary: Vocabulary, vllm_config: Any) -> AutomatonFiles | None:
    """Return the files in which all processes of an engine find automata, so that each is compiled once.

    A worker on another machine compiles its own.

    Args:
        vocabulary: The engine's vocabulary.
        vllm_config: The engine's `VllmConfig`, whose `instance_id` is the same in all its processes.
    """
    engine = getattr(vllm_config, "instance_id", "")
    if not engine or not hasattr(os, "getuid"):
        return None
    name = blake2b(str(engine).encode(), digest_size=8).hexdigest()
    folder = Path(tempfile.gettempdir()) / f"logitkit-{os.getuid()}-{name}"
    if not _folders:
        atexit.register(_remove)
    _folders[folder] = os.getpid()
    return AutomatonFiles(folder, vocabulary.content_key, FILE_BYTES)


def _remove() -> None:
    for folder, process in _folders.items():
        if process == os.getpid():
            shutil.rmtree(folder, ignore_errors=True)
