"""Files made from the demo model for an engine, written once into the user's cache."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from logitkit.errors import ConfigurationError

__all__ = ["cached", "cached_folder"]


def cached(content: bytes, name: str) -> Path:
    """Return the path of a file with the given content in the user's cache; the file is written if it is missing.

    Args:
        content: The content of the file, whose hash is part of the file's name.
        name: The file's name, with its suffix; the hash comes between the two.

    Returns:
        The path. If the cache is not writable, a path in a temporary folder that is deleted when the process ends. Several
        processes may write the file at the same time.

    Raises:
        ConfigurationError: Neither folder is writable.
    """
    key = hashlib.sha256(content).hexdigest()[:16]
    return _written({f"{Path(name).stem}-{key}{Path(name).suffix}": content}, name)


def cached_folder(files: Mapping[str, bytes], name: str) -> Path:
    """Return a folder in the user's cache with the given files; those that are missing are written.

    Args:
        files: The content of each file, by its name.
        name: The folder's name, which a hash of all files follows.

    Returns:
        The folder, as for `cached`.

    Raises:
        ConfigurationError: Neither folder is writable.
    """
    digests = (f"{file} {hashlib.sha256(content).hexdigest()}\n" for file, content in sorted(files.items()))
    key = hashlib.sha256("".join(digests).encode()).hexdigest()[:16]
    return _written({f"{name}-{key}/{file}": content for file, content in files.items()}, name).parent


def _written(files: Mapping[str, bytes], name: str) -> Path:
    """Write files with their paths below the cache, and return the path of the first."""
    refused: list[str] = []
    for place, folder_of in (
        ("the cache", _user_folder),
        ("a temporary folder", lambda: _folder_of_this_process().name),
    ):
        try:
            folder = Path(folder_of())
            for file, content in files.items():
                path = folder / file
                if not path.is_file() or path.read_bytes() != content:
                    _write(path, content)
        except (OSError, RuntimeError) as error:
            refused.append(f"{place}: {error}")
        else:
            return folder / next(iter(files))
    raise ConfigurationError(
        f"{name} was not written to {' nor to '.join(refused)}; set XDG_CACHE_HOME or TMPDIR to a folder that can be written to, "
        f"with room for {sum(map(len, files.values())):,} bytes"
    )


def _user_folder() -> Path:
    root = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification says to ignore relative paths.
    base = Path(root) if Path(root).is_absolute() else Path.home() / ".cache"
    return base / "logitkit"


@cache
def _folder_of_this_process() -> tempfile.TemporaryDirectory[str]:
    """Create a folder that is deleted when the process ends."""
    return tempfile.TemporaryDirectory(prefix="logitkit-")


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{path.stem}-", dir=path.parent) as folder:
        unfinished = Path(folder) / path.name
        unfinished.write_bytes(content)
        unfinished.replace(path)
