"""The recent configurations of a server's requests: their processors, and the verdicts on them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping
from functools import cache
from typing import Any

from logitkit.batching.steps import steps_of
from logitkit.budget import one_budget
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.composition.engine_vocabulary import check_ends
from logitkit.configuration import CHAIN, Registered, RegisteredKind, check_installed, installed_kinds
from logitkit.configuration.reading import from_config
from logitkit.errors import BankFull, ConfigurationError, LogitkitError
from logitkit.protocol.guidance import refuse_guidance
from logitkit.protocol.processor import Processor, Role
from logitkit.runtime.constraint import Constraint
from logitkit.runtime.shared import size_of
from logitkit.vocabulary import Vocabulary
from logitkit_adapters.admission.asked import Asked, check_is_json, configuration
from logitkit_adapters.admission.bans import may_end_early, restriction
from logitkit_adapters.admission.settings import ServerSettings, server_settings
from logitkit_adapters.admission.verdicts import VERDICT_BYTES, Verdict, Verdicts
from logitkit_adapters.admission.wording import in_json
from logitkit_adapters.hooks.recent import Recent

__all__ = ["AUTOMATON_BYTES", "Configurations", "any_vocabulary"]

# The maximum sizes of what a process keeps for later requests: processors, and automata that no processor uses. With 131,072
# tokens, an automaton takes 0.6 MB or more.
PROCESSOR_BYTES = 64 * 2**20
AUTOMATON_BYTES = 64 * 2**20

# The minimum size of a processor, which limits their number to 1,024.
LEAST_BYTES = 2**16

# How many vocabularies without banned tokens are kept for later configurations, each of which may take 20 MB.
RECENT_PARTS = 2

# The kinds of constraints that may stand beside a grammar of the engine's own: they only remove some tokens. All others say which
# text must come, or where it ends.
BANS = frozenset({"allow_tokens", "ban_tokens", "min_new_tokens", "no_repeat_ngram", "banned_strings"})

# More ids than any tokenizer has.
MANY_IDS = 2**19


class Configurations:
    """Reads, checks and compiles the configurations of an engine's requests; recent ones only once.

    Args:
        vocabulary: The engine's vocabulary.
        processor_bytes: The maximum size of cached processors.
        verdict_bytes: The maximum size of cached verdicts.
        device: The type of the engine's device, or None if unknown.
        settings: Returns the limits of the server.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        processor_bytes: int = PROCESSOR_BYTES,
        verdict_bytes: int = VERDICT_BYTES,
        device: str | None = None,
        settings: Callable[[], ServerSettings] = server_settings,
    ) -> None:
        self.vocabulary = vocabulary
        self.device = device
        self._settings = settings
        self.processors: Recent[Hashable, Processor[Any]] = Recent(processor_bytes)
        self.verdicts = Verdicts(verdict_bytes)
        # Requests with the same bans often follow one another, and share what is compiled once per vocabulary.
        self._recent_parts: deque[Vocabulary] = deque(maxlen=RECENT_PARTS)

    def check(self, what: Asked) -> Verdict:
        """Refuse a configuration that is not allowed, or return the verdict; without a cached one, it is compiled here.

        Args:
            what: The configuration.

        Raises:
            ConfigurationError: It is not allowed.
        """
        found = self.verdicts.get(what) or self.judge(what)
        if found.refusal is not None:
            raise ConfigurationError(found.refusal)
        return found

    def judge(self, what: Asked) -> Verdict:
        """Compile a configuration, and return and cache the verdict."""
        try:
            made = self.processor(what)
            check_is_json(what)
            found = Verdict(None, _forces_text(configuration(what)), may_end_early(made, what.bans))
        except BankFull as error:  # not cached, because it passes
            raise ConfigurationError(str(error)) from None
        except LogitkitError as error:
            found = Verdict(in_json(str(error), _read(what), self._settings().prefix))
        self.verdicts.put(what, found)
        return found

    def processor(self, what: Asked) -> Processor[Any]:
        """Return the processor of a configuration.

        Raises:
            LogitkitError: It is not allowed, or not in the canonical order.
        """
        found = None if what.text is None else self.processors.get(what.key)
        if found is None:
            found = self._made(what)
            refuse_guidance(found, "a server")
            if self.vocabulary is not any_vocabulary():
                # `min_new_tokens` may name only some of the engine's EOS ids.
                check_ends(found, self.vocabulary.eos_ids)
            self._check_device(found)
            size = _size(found)
            if what.text is not None:
                self.processors.put(what.key, found, size + 40 * what.length)
        return found

    def _made(self, what: Asked) -> Processor[Any]:
        config, limits = configuration(what), self._settings().limits
        # One budget for the processors, and for their intersection with what the engine bans.
        with one_budget(limits.work):
            tokens = restriction(config, self.vocabulary, what.bans)
            if tokens.vocabulary.left_out and not any(tokens.vocabulary is part for part in self._recent_parts):
                self._recent_parts.append(tokens.vocabulary)
            try:
                return tokens.without_sequences(from_config(config, tokens.vocabulary, limits=limits), limits)
            except LogitkitError as error:
                raise tokens.explained(error) from None

    def _check_device(self, processor: Processor[Any]) -> None:
        for step in steps_of(processor).values():
            if isinstance(step, Registered) and not _runs_on(step.kind, self.device):
                devices = ", ".join(step.kind.devices or ())
                raise ConfigurationError(
                    f"{step.kind.name!r} runs on {devices}, but this engine runs on {self.device}; leave it out"
                )

    def check_registered(self) -> None:
        """Check all registered processors that run on the engine's device.

        Raises:
            LogitkitError: One of them breaks the protocol, or an installed one cannot be loaded.
        """
        check_installed()
        registered = [kind for kind in installed_kinds().values() if isinstance(kind, RegisteredKind)]
        if not registered:
            return
        from logitkit.conformance import check_kind

        for kind in registered:
            if _runs_on(kind, self.device):
                check_kind(kind, self.vocabulary)


def _read(what: Asked) -> Mapping[str, Any] | None:
    """Return a configuration that may be wrong, or None if it is not even an object."""
    try:
        return configuration(what)
    except ConfigurationError:
        return None


def _runs_on(kind: RegisteredKind, device: str | None) -> bool:
    return kind.devices is None or device is None or device in kind.devices


def _forces_text(config: Mapping[str, Any]) -> bool:
    links = config.get(CHAIN)
    if isinstance(links, list | tuple):
        return any(_forces_text(link) for link in links)
    kinds = [installed_kinds()[name] for name in config]
    return any(kind.role is Role.CONSTRAINT and kind.name not in BANS for kind in kinds)


def _size(processor: Processor[Any]) -> int:
    """Estimate the memory that a processor holds, in bytes.

    Raises:
        ConfigurationError: It is not in the canonical order.
    """
    automata = [getattr(step, "automaton", None) for step in steps_of(processor).values()]
    sizes = (size_of(made) if isinstance(made, TokenAutomaton) else getattr(made, "nbytes", 0) for made in automata)
    # A vocabulary without some tokens has a trie of its own if something was compiled for it.
    own = {step.vocabulary for step in steps_of(processor).values() if isinstance(step, Constraint)}
    bytes_of_ids = (v.size * (150 if "trie" in vars(v) else 8) for v in own if v.left_out)
    return LEAST_BYTES + sum(sizes) + sum(bytes_of_ids)


@cache
def any_vocabulary() -> Vocabulary:
    """Return a vocabulary that can spell every text, to check configurations without an engine."""
    return Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_ids=[256], size=MANY_IDS)
