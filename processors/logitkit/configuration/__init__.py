"""Configurations: processors in JSON, as servers receive them.

reading, writing            from_config, to_config and config_schema
shipped_kinds               the kinds of this package; each class declares its own (`logitkit.protocol.kind`)
registry                    every kind of processor, by its key
registration                register: kinds of other packages
registered                  Registered: a processor of such a kind; RegisteredKind
declared_schema             the parameters of registered kinds, declared in JSON Schema
"""

from logitkit.configuration.reading import from_config as from_config
from logitkit.configuration.registered import Registered as Registered
from logitkit.configuration.registered import RegisteredKind as RegisteredKind
from logitkit.configuration.registration import register as register
from logitkit.configuration.registry import CHAIN as CHAIN
from logitkit.configuration.registry import KINDS as KINDS
from logitkit.configuration.registry import check_installed as check_installed
from logitkit.configuration.registry import installed_kinds as installed_kinds
from logitkit.configuration.writing import config_schema as config_schema
from logitkit.configuration.writing import to_config as to_config

__all__ = [
    "CHAIN",
    "KINDS",
    "Registered",
    "RegisteredKind",
    "check_installed",
    "config_schema",
    "from_config",
    "installed_kinds",
    "register",
    "to_config",
]
