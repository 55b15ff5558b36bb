"""Files of automata, which one process compiles for another: for a server's front end, and for the workers of its engine."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections import Counter, OrderedDict
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from logitkit.runtime.automaton_files import AutomatonFiles
from logitkit.vocabulary import Vocabulary
from logitkit_adapters.admission.clients import Client

__all__ = ["FILE_BYTES", "KeptFiles", "files_of"]

# The maximum size of the files that a front end keeps, and of those that a worker adds.
FILE_BYTES = 256 * 2**20

# The folders that this process removes at its end, and its id: a forked process must not remove its parent's folders.
_folders: dict[Path, int] = {}


def files_of(vocabulary: Vocabulary, engine: str) -> AutomatonFiles | None:
    """Return the files in which all processes of an engine find automata, so that each is compiled once.

    A worker on another machine compiles its own.

    Args:
        vocabulary: The engine's vocabulary.
        engine: The name that all processes of an engine share, and no other engine has. If it is empty, no files are written.
    """
    if not engine or not hasattr(os, "getuid"):
        return None
    name = sha256(engine.encode()).hexdigest()
    folder = Path(tempfile.gettempdir()) / f"logitkit-{os.getuid()}-{name}"
    if not _folders:
        atexit.register(_remove)
    _folders[folder] = os.getpid()
    return AutomatonFiles(folder, vocabulary.content_key, FILE_BYTES)


class KeptFiles:
    """The files that requests to a front end use. If they take too much room, the address that has most loses its oldest ones.

    Args:
        folder: Their folder, or None.
        limit: The maximum size of all of them in bytes.
    """

    def __init__(self, folder: Path | None, limit: int = FILE_BYTES) -> None:
        self.folder = folder
        self._limit = limit
        # Least recently used first, each with its size and the address that used it last.
        self._files: OrderedDict[Path, tuple[int, str]] = OrderedDict()
        # The size of the files of each address.
        self._sizes: Counter[str] = Counter()

    def use(self, files: Sequence[Path], client: Client) -> bool:
        """Keep files for a client; return whether all of them are there.

        Args:
            files: The files of one configuration.
            client: The client that uses it.
        """
        found = [(file, size) for file in files if (size := self._size(file)) is not None]
        for file, size in found:
            self._forget(file)
            self._files[file] = size, client.address
            self._sizes[client.address] += size
        while self._sizes.total() > self._limit:
            (largest, _), *_ = self._sizes.most_common(1)
            oldest = next(file for file, (_, address) in self._files.items() if address == largest)
            self._forget(oldest)
            oldest.unlink(missing_ok=True)
        return len(found) == len(files)

    def _size(self, file: Path) -> int | None:
        try:
            return file.stat().st_size if file.parent == self.folder else None
        except OSError:
            return None

    def _forget(self, file: Path) -> None:
        size, address = self._files.pop(file, (0, ""))
        self._sizes[address] -= size
        if not self._sizes[address]:
            del self._sizes[address]


def _remove() -> None:
    for folder, process in _folders.items():
        if process == os.getpid():
            shutil.rmtree(folder, ignore_errors=True)
