"""What the front end of vLLM has compiled, for its workers, which are other processes."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from hashlib import blake2b
from pathlib import Path
from typing import Any

from logitkit.automata.automaton_files import AutomatonFiles
from logitkit.automata.shared import shared_by
from logitkit.vocabulary import Vocabulary

__all__ = ["share_compiled"]

# The folders of this process, and who made them: a fork must not remove what its parent still needs.
_folders: dict[Path, int] = {}


def share_compiled(vocabulary: Vocabulary, vllm_config: Any) -> None:
    """Have automata of a vocabulary in files that all processes of an engine know, so that each is compiled once.

    A worker on another machine compiles for itself.

    Args:
        vocabulary: The engine's.
        vllm_config: Its `VllmConfig`, whose `instance_id` is the same in all its processes.
    """
    engine = getattr(vllm_config, "instance_id", "")
    if not engine or not hasattr(os, "getuid"):
        return
    name = blake2b(str(engine).encode(), digest_size=8).hexdigest()
    folder = Path(tempfile.gettempdir()) / f"logitkit-{os.getuid()}-{name}"
    shared = shared_by(vocabulary)
    if shared.files is None or shared.files.folder != folder:
        shared.files = AutomatonFiles(folder, vocabulary.content_key)
        if not _folders:
            atexit.register(_remove)
        _folders[folder] = os.getpid()


def _remove() -> None:
    for folder, process in _folders.items():
        if process == os.getpid():
            shutil.rmtree(folder, ignore_errors=True)
