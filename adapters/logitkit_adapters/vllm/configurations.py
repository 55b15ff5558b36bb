"""The configurations of vLLM's engines."""

from __future__ import annotations

import threading
import weakref
from typing import Any

from logitkit.configuration import installed_kinds
from logitkit.errors import ConfigurationError
from logitkit.runtime.automaton_files import AutomatonFiles
from logitkit.runtime.shared import shared_by
from logitkit.vocabulary import Vocabulary
from logitkit_adapters.admission.asked import KEY, Asked
from logitkit_adapters.admission.compiled import files_of
from logitkit_adapters.admission.configurations import AUTOMATON_BYTES, Configurations, any_vocabulary
from logitkit_adapters.vllm.engine import engine_vocabulary
from logitkit_adapters.vllm.settings import vllm_limits

__all__ = ["check_configuration", "configurations_of"]

# By the content of the vocabulary, so that a running request finds what was compiled when it was admitted.
_by_vocabulary: dict[str, Configurations] = {}

# By the address of an engine's `VllmConfig`. The entry refers to it, because a later one may have the same address.
_by_engine: dict[int, tuple[weakref.ref[Any], Configurations, AutomatonFiles | None]] = {}
_lock = threading.Lock()


def configurations_of(vllm_config: Any | None) -> Configurations:
    """Return the configurations of an engine, or those without an engine. The first call for an engine reads its vocabulary.

    Args:
        vllm_config: The engine's `VllmConfig`, or None.

    Raises:
        VocabularyError: The bytes of the engine's tokens are unknown.
    """
    if vllm_config is None:
        vocabulary = any_vocabulary()
        return _by_vocabulary.setdefault(vocabulary.content_key, _configurations(vocabulary))
    entry = _by_engine.get(id(vllm_config))
    if entry is None or entry[0]() is not vllm_config:
        with _lock:
            vocabulary = engine_vocabulary(vllm_config)
            found = _by_vocabulary.setdefault(vocabulary.content_key, _configurations(vocabulary))
            found.device = getattr(getattr(vllm_config, "device_config", None), "device_type", None)
            # Loads installed packages now, not in the first step that needs one.
            installed_kinds()
            shared_by(vocabulary).cached_bytes = AUTOMATON_BYTES
            entry = weakref.ref(vllm_config), found, files_of(vocabulary, str(getattr(vllm_config, "instance_id", "")))
            _by_engine[id(vllm_config)] = entry
    _, found, files = entry
    if files is not None:
        # Requests are admitted in one process and run in another.
        shared_by(found.vocabulary).files = files
    return found


def check_configuration(configurations: Configurations, what: Asked, *, beside_grammar: bool) -> None:
    """Refuse a configuration that is not allowed; without a cached verdict, it is compiled here.

    Args:
        configurations: The configurations of the engine.
        what: The configuration.
        beside_grammar: Whether the request also has a grammar of vLLM's own.

    Raises:
        ConfigurationError: It is not allowed.
    """
    if configurations.check(what).forces_text and beside_grammar:
        raise ConfigurationError(
            "the request has a grammar of vLLM's own (response_format, structured_outputs, or tools with tool_choice, "
            f"strict or parallel_tool_calls) and a constraint, stop or budget in {KEY}; if they contradict each other, vLLM "
            f"fails in the middle of the text. Give one of them: several constraints in {KEY} are intersected"
        )


def _configurations(vocabulary: Vocabulary) -> Configurations:
    return Configurations(vocabulary, settings=vllm_limits)
