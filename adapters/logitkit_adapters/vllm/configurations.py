"""The configurations that requests of an engine came with lately: their processors, and which of them are refused."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from logitkit.batching.steps import steps_of
from logitkit.compiler.tokens.token_automaton import TokenAutomaton
from logitkit.composition.engine_ends import check_ends
from logitkit.configuration import CHAIN, Registered, RegisteredKind, check_installed, installed_kinds
from logitkit.configuration.reading import from_config
from logitkit.conformance import check_kind
from logitkit.errors import BankFull, ConfigurationError, LogitkitError
from logitkit.protocol.processor import Processor, Role
from logitkit.runtime.automaton_files import AutomatonFiles
from logitkit.runtime.shared import shared_by, size_of
from logitkit.vocabulary import Vocabulary
from logitkit_adapters.hooks.recent import Recent
from logitkit_adapters.vllm.compiled import files_of
from logitkit_adapters.vllm.engine import engine_vocabulary
from logitkit_adapters.vllm.parameters import KEY, Asked, configuration
from logitkit_adapters.vllm.settings import settings

__all__ = ["Configurations", "Verdict", "any_vocabulary", "configurations_of"]

# Bytes of processors, of automata that no processor uses, and of texts with their verdicts, that a process keeps for requests to
# come. With 131,072 tokens an automaton takes from 0.6 MB.
PROCESSOR_BYTES = 64 * 2**20
AUTOMATON_BYTES = 64 * 2**20
VERDICT_BYTES = 32 * 2**20

# What a processor takes at least; so no more than 1,024 are kept.
LEAST_BYTES = 2**16

# Kinds of processors that say what a text is.
LANGUAGES = frozenset({"regex", "choice", "dfa", "forced_prefix", "then", "json_schema", "forced_tokens"})

# More than any tokenizer has.
MANY_IDS = 2**19


class Verdict(NamedTuple):
    """Whether a configuration is allowed.

    Args:
        refusal: Why not, or None if it is.
        is_language: Whether it says what the text is, as a grammar does.
        files: Those in which its automata were found or written.
    """

    refusal: str | None = None
    is_language: bool = False
    files: tuple[Path, ...] = ()


class Configurations:
    """What requests of an engine may ask for; configurations are read and compiled once, as long as they are remembered.

    Args:
        vocabulary: The engine's.
        processor_bytes: Most bytes of processors that are kept.
        verdict_bytes: Most bytes of verdicts that are kept, with their texts.
        device: The type of the engine's device, or None if it is not known.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        processor_bytes: int = PROCESSOR_BYTES,
        verdict_bytes: int = VERDICT_BYTES,
        device: str | None = None,
    ) -> None:
        self.vocabulary = vocabulary
        self.device = device
        self.processors: Recent[tuple[str, int | None], Processor[Any]] = Recent(processor_bytes)
        self.verdicts: Recent[tuple[str, int | None], Verdict] = Recent(verdict_bytes)

    def verdict(self, what: Asked) -> Verdict | None:
        """Return whether a configuration is allowed, or None if that is not known."""
        return None if what.text is None else self.verdicts.get((what.text, what.tokens))

    def remember(self, what: Asked, verdict: Verdict) -> None:
        """Keep a verdict; of a mapping only that it is allowed, as its JSON may be that of something else."""
        if what.text is not None and (verdict.refusal is None or isinstance(what.given, str)):
            size = 4 * (len(what.text) + len(verdict.refusal or "")) + 500 * len(verdict.files)
            self.verdicts.put((what.text, what.tokens), verdict, size)

    def check(self, what: Asked, beside_grammar: bool = False) -> None:
        """Return where a configuration is allowed; one that nobody has looked at is compiled here.

        Args:
            what: The configuration.
            beside_grammar: Whether the request has a grammar of vLLM's own too.

        Raises:
            ConfigurationError: It is not allowed.
        """
        found = self.verdict(what)
        if found is None:
            found = self.judge(what)
        if found.refusal is not None:
            raise ConfigurationError(found.refusal)
        if found.is_language and beside_grammar:
            raise ConfigurationError(
                f"the request has a grammar of vLLM's own (response_format or structured_outputs), and {KEY} gives a constraint "
                "too; if the two contradict each other, vLLM fails in the middle of the text. Give one of them: constraints of "
                f"{KEY} compose with one another"
            )

    def judge(self, what: Asked) -> Verdict:
        """Compile a configuration, and return and remember whether it is allowed."""
        try:
            self.processor(what)
            found = Verdict(is_language=_is_language(configuration(what)))
        except BankFull as error:  # which passes
            raise ConfigurationError(str(error)) from None
        except LogitkitError as error:
            found = Verdict(str(error))
        self.remember(what, found)
        return found

    def processor(self, what: Asked) -> Processor[Any]:
        """Return the processor that a configuration stands for.

        Raises:
            LogitkitError: It is not allowed, or not in the canonical order.
        """
        found = None if what.text is None else self.processors.get((what.text, what.tokens))
        if found is None:
            found = from_config(configuration(what), self.vocabulary, limits=settings().limits)
            if self.vocabulary is not any_vocabulary():
                # `min_new_tokens` may be given some of the engine's only.
                check_ends(found, self.vocabulary.eos_ids)
            self._check_device(found)
            size = _size(found)
            if what.text is not None:
                self.processors.put((what.text, what.tokens), found, size + 32 * len(what.text))
        return found

    def _check_device(self, processor: Processor[Any]) -> None:
        for step in steps_of(processor).values():
            if isinstance(step, Registered) and not _runs_on(step.kind, self.device):
                devices = ", ".join(step.kind.devices or ())
                raise ConfigurationError(
                    f"{step.kind.name!r} runs on {devices}, and this engine on {self.device}; leave it out"
                )

    def check_registered(self) -> None:
        """Try all registered processors that run on the engine's device.

        Raises:
            LogitkitError: One breaks the protocol, or an installed one cannot be loaded.
        """
        check_installed()
        for kind in [*installed_kinds().values()]:
            if isinstance(kind, RegisteredKind) and _runs_on(kind, self.device):
                check_kind(kind, self.vocabulary)


def _runs_on(kind: RegisteredKind, device: str | None) -> bool:
    return kind.devices is None or device is None or device in kind.devices


def _is_language(config: Mapping[str, Any]) -> bool:
    links = config.get(CHAIN)
    if isinstance(links, list | tuple):
        return any(_is_language(link) for link in links)
    # What a registered constraint allows is not known.
    own = (kind for name in config if isinstance(kind := installed_kinds().get(name), RegisteredKind))
    return not LANGUAGES.isdisjoint(config) or any(kind.role is Role.CONSTRAINT for kind in own)


def _size(processor: Processor[Any]) -> int:
    """Return about how many bytes go when a processor does.

    Raises:
        ConfigurationError: It is not in the canonical order.
    """
    automata = [getattr(step, "automaton", None) for step in steps_of(processor).values()]
    sizes = (size_of(made) if isinstance(made, TokenAutomaton) else getattr(made, "nbytes", 0) for made in automata)
    return LEAST_BYTES + sum(sizes)


@cache
def any_vocabulary() -> Vocabulary:
    """Return a vocabulary in which every text can be said: to look at configurations where no engine is known."""
    return Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_ids=[256], size=MANY_IDS)


# By the vocabulary's content: what was compiled when requests were admitted is found when they run.
_by_vocabulary: dict[str, Configurations] = {}

# By the address of an engine's configuration, which the entry names too, so that none that comes after it is taken for it.
_by_engine: dict[int, tuple[weakref.ref[Any], Configurations, AutomatonFiles | None]] = {}
_lock = threading.Lock()


def configurations_of(vllm_config: Any | None) -> Configurations:
    """Return the configurations of an engine, or of no known one. The first call for an engine reads its vocabulary.

    Args:
        vllm_config: The engine's `VllmConfig`, or None.

    Raises:
        VocabularyError: The bytes of the engine's tokens are not known.
    """
    if vllm_config is None:
        vocabulary = any_vocabulary()
        return _by_vocabulary.setdefault(vocabulary.content_key, Configurations(vocabulary))
    entry = _by_engine.get(id(vllm_config))
    if entry is None or entry[0]() is not vllm_config:
        with _lock:
            vocabulary = engine_vocabulary(vllm_config)
            found = _by_vocabulary.setdefault(vocabulary.content_key, Configurations(vocabulary))
            found.device = getattr(getattr(vllm_config, "device_config", None), "device_type", None)
            # Here, and not in the step of the first request that asks for one.
            installed_kinds()
            shared_by(vocabulary).cached_bytes = AUTOMATON_BYTES
            entry = weakref.ref(vllm_config), found, files_of(vocabulary, vllm_config)
            _by_engine[id(vllm_config)] = entry
    _, found, files = entry
    if files is not None:
        # Requests are admitted in one process, and run in another.
        shared_by(found.vocabulary).files = files
    return found
