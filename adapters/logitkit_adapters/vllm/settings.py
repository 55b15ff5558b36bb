"""The settings of the operator of a vLLM server, in environment variables, because vLLM finds an installed plugin by itself.

| variable | default | meaning |
|---|---|---|
| `LOGITKIT_VLLM_PLUGIN` | `on` | `off`: nothing is read or compiled, and requests with a configuration are refused |
| `LOGITKIT_VLLM_RESPONSE_FORMAT` | `off` | `on` or `1`: `response_format`, `tools` and `logitkit` in a body are configurations |
| `LOGITKIT_VLLM_MAX_STATES` | 50000 | the maximum number of states of an automaton: `Limits.states` |
| `LOGITKIT_VLLM_MAX_WORK` | 7000000 | the maximum number of steps to compile one request: `Limits.work` |
| `LOGITKIT_VLLM_MAX_CHARACTERS` | 1048576 | the maximum length of a configuration in characters |
| `LOGITKIT_VLLM_MAX_WAITING` | 64 | the maximum number of configurations that wait to be compiled |
| `LOGITKIT_VLLM_MAX_SECONDS` | 60 | the maximum time to compile one configuration, in seconds |
| `LOGITKIT_VLLM_PROCESSES` | 4, or the number of CPUs if it is less | the number of processes that compile |
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache

from logitkit.errors import ConfigurationError
from logitkit.limits import DEFAULT_LIMITS, Limits

__all__ = ["Settings", "settings"]

PLUGIN = "LOGITKIT_VLLM_PLUGIN"
RESPONSE_FORMAT = "LOGITKIT_VLLM_RESPONSE_FORMAT"
SWITCH = {"on": True, "1": True, "off": False, "0": False}
DEFAULTS = {
    PLUGIN: "on",
    RESPONSE_FORMAT: "off",
    "LOGITKIT_VLLM_MAX_STATES": str(DEFAULT_LIMITS.states),
    "LOGITKIT_VLLM_MAX_WORK": str(DEFAULT_LIMITS.work),
    "LOGITKIT_VLLM_MAX_CHARACTERS": str(2**20),
    "LOGITKIT_VLLM_MAX_WAITING": "64",
    "LOGITKIT_VLLM_MAX_SECONDS": "60",
    "LOGITKIT_VLLM_PROCESSES": str(min(4, os.cpu_count() or 1)),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """The operator's settings.

    Args:
        enabled: Whether requests may have configurations.
        reads_openai_fields: Whether the fields of OpenAI's API are read as configurations.
        limits: The limits on the cost of compiling one request.
        characters: The maximum length of a configuration as JSON.
        waiting: The maximum number of configurations that wait to be compiled.
        seconds: The maximum time to compile one configuration.
        processes: The number of processes for configurations that compile quickly.
    """

    enabled: bool
    reads_openai_fields: bool
    limits: Limits
    characters: int
    waiting: int
    seconds: int
    processes: int

    def check_enabled(self) -> None:
        """Refuse a configuration if the plugin is off.

        Raises:
            ConfigurationError: It is off.
        """
        if not self.enabled:
            raise ConfigurationError(
                f"the request has `logitkit`, but this server does not take it: its operator has set {PLUGIN}=off. Leave "
                "`logitkit` out, or ask the operator to turn it on"
            )


def settings() -> Settings:
    """Return the settings of this process.

    Raises:
        ConfigurationError: A variable has a value that is not allowed.
    """
    return _read(tuple(os.environ.get(name, default) for name, default in DEFAULTS.items()))


@lru_cache(maxsize=1)
def _read(texts: tuple[str, ...]) -> Settings:
    given = dict(zip(DEFAULTS, texts, strict=True))
    enabled = _switch(PLUGIN, given.pop(PLUGIN))
    reads_openai_fields = _switch(RESPONSE_FORMAT, given.pop(RESPONSE_FORMAT))
    states, work, *others = (_number(name, text) for name, text in given.items())
    limits = Limits(states=states, work=work)
    # With this very object, kinds use their own default limits.
    limits = DEFAULT_LIMITS if limits == DEFAULT_LIMITS else limits
    return Settings(enabled, enabled and reads_openai_fields, limits, *others)


def _switch(name: str, text: str) -> bool:
    if text not in SWITCH:
        raise ConfigurationError(f"the environment variable {name} is {text!r}; allowed are 'on', '1', 'off' and '0'")
    return SWITCH[text]


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:19]) < 2**62):
        raise ConfigurationError(f"the environment variable {name} is {text!r}; allowed are integers from 1")
    return int(text)
