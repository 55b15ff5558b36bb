"""All kinds of processors that a configuration may name: those of this package and of installed ones."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points

from logitkit.configuration.registration import register
from logitkit.configuration.shipped_kinds import KINDS
from logitkit.errors import ConfigurationError
from logitkit.protocol.kind import Kind

__all__ = ["CHAIN", "GROUP", "KINDS", "check_installed", "installed_kinds", "problem_with"]

# The key for processors in a custom order.
CHAIN = "chain"

# The group of entry points that register kinds: their objects are factories, their names those of the kinds.
GROUP = "logitkit.processors"

_logger = logging.getLogger(__name__)
_lock = threading.Lock()
_loaded = False

# The reasons why installed factories cannot be used, by name.
_problems: dict[str, str] = {}


def installed_kinds() -> Mapping[str, Kind]:
    """Return all kinds by name, in the canonical order. The first call loads those of installed packages."""
    global _loaded  # noqa: PLW0603 - once per process
    if not _loaded:
        with _lock:
            if not _loaded:
                for entry in sorted(entry_points(group=GROUP), key=lambda e: (e.name, e.value)):
                    _load(entry)
                _loaded = True
    return KINDS


def _load(entry: EntryPoint) -> None:
    try:
        register(entry.name, entry.load())
    except Exception as error:
        package = "an installed package" if entry.dist is None else f"the package {entry.dist.name}"
        reason = f"the entry point {entry.name} = {entry.value} of {package} cannot be used: {error}"
        _problems[entry.name] = reason
        _logger.warning("%s", reason, exc_info=error)


def problem_with(name: object) -> str | None:
    """Return the reason why an installed factory of this name cannot be used, or None."""
    return _problems.get(name) if isinstance(name, str) and name not in KINDS else None


def check_installed() -> None:
    """Check that all installed factories can be used.

    Raises:
        ConfigurationError: One cannot be used; the message names its package.
    """
    installed_kinds()
    for reason in _problems.values():
        raise ConfigurationError(reason)
