"""The limits that the operator of a server sets, in environment variables.

| variable | default | meaning |
|---|---|---|
| `LOGITKIT_SERVER_MAX_STATES` | 50000 | the maximum number of states of an automaton: `Limits.states` |
| `LOGITKIT_SERVER_MAX_WORK` | 7000000 | the maximum number of steps to compile one request: `Limits.work` |
| `LOGITKIT_SERVER_MAX_CHARACTERS` | 1048576 | the maximum length of a configuration in characters |
| `LOGITKIT_SERVER_MAX_WAITING` | 64 | the maximum number of configurations that wait to be compiled |
| `LOGITKIT_SERVER_MAX_SECONDS` | 60 | the maximum time to compile one configuration, in seconds |
| `LOGITKIT_SERVER_PROCESSES` | 4, or the number of CPUs if it is less | the number of processes that compile |

A server may have variables of its own beside them, as vLLM's plugin has: those with its prefix in place of `LOGITKIT_SERVER_`
count more, for this server only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from logitkit.errors import ConfigurationError
from logitkit.limits import DEFAULT_LIMITS, Limits

__all__ = ["PREFIX", "ServerSettings", "check_names", "server_settings"]

# The prefix of the variables that all servers read.
PREFIX = "LOGITKIT_SERVER_"

# Kubernetes sets these for each service of a namespace, as LOGITKIT_VLLM_PORT_8000_TCP for one with the name `logitkit-vllm`.
OF_SERVICES = re.compile(
    r"\w+_(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT(?:_[0-9]+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)?)", re.ASCII
)

# The largest number is below 2**62, which has this many digits.
MOST_DIGITS = 19

# The numbers, without a prefix, and their default values.
DEFAULTS = {
    "MAX_STATES": str(DEFAULT_LIMITS.states),
    "MAX_WORK": str(DEFAULT_LIMITS.work),
    "MAX_CHARACTERS": str(2**20),
    "MAX_WAITING": "64",
    "MAX_SECONDS": "60",
    "PROCESSES": str(min(4, os.cpu_count() or 1)),
}


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The limits of a server.

    Args:
        limits: The limits on the cost of compiling one request.
        characters: The maximum length of a configuration as JSON.
        waiting: The maximum number of configurations that wait to be compiled.
        seconds: The maximum time to compile one configuration.
        processes: The number of processes for configurations that compile quickly.
        prefix: The prefix of the variables that messages name.
    """

    limits: Limits
    characters: int
    waiting: int
    seconds: int
    processes: int
    prefix: str = PREFIX


def server_settings(own_prefix: str = PREFIX) -> ServerSettings:
    """Return the limits that this process has for a server.

    Args:
        own_prefix: The prefix of the server's own variables, which count more than those of all servers.

    Raises:
        ConfigurationError: A variable has a value that is not allowed.

    Example:
        >>> server_settings().characters
        1048576
    """
    found = []
    for name, default in DEFAULTS.items():
        own = os.environ.get(own_prefix + name)
        variable = PREFIX + name if own is None else own_prefix + name
        found.append((variable, os.environ.get(variable, default)))
    return _read(tuple(found), own_prefix)


@lru_cache(maxsize=2)
def _read(given: tuple[tuple[str, str], ...], prefix: str) -> ServerSettings:
    states, work, characters, waiting, seconds, processes = (_number(variable, text) for variable, text in given)
    limits = Limits(states=states, work=work)
    # With this very object, kinds use their own default limits.
    limits = DEFAULT_LIMITS if limits == DEFAULT_LIMITS else limits
    return ServerSettings(limits, characters, waiting, seconds, processes, prefix)


def _number(variable: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS and 1 <= int(text) < 2**62):
        raise ConfigurationError(f"the environment variable {variable} is {text!r}; allowed are integers from 1")
    return int(text)


def check_names(prefix: str = PREFIX, others: Sequence[str] = ()) -> None:
    """Refuse variables that no server reads, such as misspelt ones. Servers call this when they start.

    Those that Kubernetes sets for a service whose name begins like the prefix are ignored.

    Args:
        prefix: The prefix of the variables.
        others: Names after the prefix that are allowed beside those of the limits.

    Raises:
        ConfigurationError: The environment has such a variable.
    """
    allowed = [prefix + name for name in (*others, *DEFAULTS)]
    names = sorted(name for name in os.environ if name.startswith(prefix) and not OF_SERVICES.fullmatch(name))
    unknown = next((name for name in names if name not in allowed), None)
    if unknown is not None:
        raise ConfigurationError(
            f"the environment variable {unknown} is not a setting; allowed are {', '.join(allowed)}. Correct its name, or "
            "remove it"
        )
