"""The settings of the operator of a vLLM server, in environment variables, because vLLM finds an installed plugin by itself.

| variable | default | meaning |
|---|---|---|
| `LOGITKIT_VLLM_PLUGIN` | `on` | `off`: nothing is read or compiled, and requests with a configuration are refused |
| `LOGITKIT_VLLM_RESPONSE_FORMAT` | `off` | `on` or `1`: `response_format`, `tools` and `logitkit` in a body are configurations |

The limits are those of all servers, in `logitkit_adapters.admission.settings`. Each of them, such as `LOGITKIT_SERVER_MAX_WORK`,
may be set for vLLM alone: `LOGITKIT_VLLM_MAX_WORK`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from logitkit.errors import ConfigurationError
from logitkit_adapters.admission.settings import PREFIX as FOR_ALL
from logitkit_adapters.admission.settings import ServerSettings, check_names, server_settings

__all__ = ["Settings", "check_variables", "settings", "vllm_limits"]

PREFIX = "LOGITKIT_VLLM_"
PLUGIN = f"{PREFIX}PLUGIN"
RESPONSE_FORMAT = f"{PREFIX}RESPONSE_FORMAT"
SWITCH = {"on": True, "1": True, "off": False, "0": False}


@dataclass(frozen=True, slots=True)
class Settings:
    """The operator's settings.

    Args:
        enabled: Whether requests may have configurations.
        reads_openai_fields: Whether the fields of OpenAI's API are read as configurations.
        server: The limits.
    """

    enabled: bool
    reads_openai_fields: bool
    server: ServerSettings

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
    enabled = _switch(PLUGIN, "on")
    reads_openai_fields = _switch(RESPONSE_FORMAT, "off")
    return Settings(enabled, enabled and reads_openai_fields, vllm_limits())


def vllm_limits() -> ServerSettings:
    """Return the limits of this process.

    Raises:
        ConfigurationError: A variable has a value that is not allowed.
    """
    return server_settings(PREFIX)


def check_variables() -> None:
    """Refuse variables that the plugin does not read, such as misspelt ones.

    Raises:
        ConfigurationError: The environment has such a variable.
    """
    check_names(FOR_ALL)
    check_names(PREFIX, [name.removeprefix(PREFIX) for name in (PLUGIN, RESPONSE_FORMAT)])


def _switch(name: str, default: str) -> bool:
    text = os.environ.get(name, default)
    if text not in SWITCH:
        raise ConfigurationError(f"the environment variable {name} is {text!r}; allowed are 'on', '1', 'off' and '0'")
    return SWITCH[text]
