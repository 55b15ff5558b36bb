"""What the operator of a vLLM server can set, in environment variables: vLLM finds the plugin wherever logitkit is installed.

| variable | default | meaning |
|---|---|---|
| `LOGITKIT_VLLM_PLUGIN` | `on` | `off`: nothing is read or compiled, and requests that ask for something are refused |
| `LOGITKIT_VLLM_MAX_STATES` | 50000 | most states of an automaton: `Limits.states` |
| `LOGITKIT_VLLM_MAX_WORK` | 7000000 | most steps of compiling one request: `Limits.work` |
| `LOGITKIT_VLLM_MAX_CHARACTERS` | 1048576 | most characters of a request's configuration |
| `LOGITKIT_VLLM_MAX_WAITING` | 64 | most configurations that wait to be compiled |
| `LOGITKIT_VLLM_MAX_SECONDS` | 60 | most seconds that compiling one configuration may take |
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache

from logitkit.errors import ConfigurationError
from logitkit.limits import DEFAULT_LIMITS, Limits

__all__ = ["Settings", "settings"]

PLUGIN = "LOGITKIT_VLLM_PLUGIN"
STATES = "LOGITKIT_VLLM_MAX_STATES"
WORK = "LOGITKIT_VLLM_MAX_WORK"
CHARACTERS = "LOGITKIT_VLLM_MAX_CHARACTERS"
WAITING = "LOGITKIT_VLLM_MAX_WAITING"
SECONDS = "LOGITKIT_VLLM_MAX_SECONDS"

DEFAULTS = {
    PLUGIN: "on",
    STATES: str(DEFAULT_LIMITS.states),
    WORK: str(DEFAULT_LIMITS.work),
    CHARACTERS: str(2**20),
    WAITING: "64",
    SECONDS: "60",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """The operator's settings.

    Args:
        enabled: Whether requests may ask for anything.
        limits: Bounds on what compiling one request may cost.
        characters: Most characters of a configuration as JSON.
        waiting: Most configurations that wait to be compiled.
        seconds: Most seconds that compiling one configuration may take.
    """

    enabled: bool
    limits: Limits
    characters: int
    waiting: int
    seconds: int

    def check_enabled(self) -> None:
        """Refuse a request that asks for something, if the plugin is off.

        Raises:
            ConfigurationError: It is off.
        """
        if not self.enabled:
            raise ConfigurationError(
                f"this server does not take `logitkit` in requests: its operator has set {PLUGIN}=off. Leave `logitkit` out, or "
                "ask the operator to turn it on"
            )


def settings() -> Settings:
    """Return the settings of this process.

    Raises:
        ConfigurationError: A variable has a value that is not allowed.
    """
    return _read(*(os.environ.get(name, default) for name, default in DEFAULTS.items()))


@lru_cache(maxsize=1)
def _read(plugin: str, states: str, work: str, characters: str, waiting: str, seconds: str) -> Settings:
    if plugin not in ("on", "off"):
        raise ConfigurationError(f"the environment variable {PLUGIN} is {plugin!r}; allowed are 'on' and 'off'")
    limits = Limits(states=_number(STATES, states), work=_number(WORK, work))
    if limits == DEFAULT_LIMITS:
        # The very object: kinds whose own limits are others go by it.
        limits = DEFAULT_LIMITS
    return Settings(
        plugin == "on", limits, _number(CHARACTERS, characters), _number(WAITING, waiting), _number(SECONDS, seconds)
    )


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:19]) < 2**62):
        raise ConfigurationError(f"the environment variable {name} is {text!r}; allowed are integers from 1")
    return int(text)
