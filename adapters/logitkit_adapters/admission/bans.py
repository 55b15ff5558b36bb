"""Bans of tokens beside a constraint: the constraint is compiled without them, so that its texts need none to be completed.

A request bans tokens by `allow_tokens` and `ban_tokens` of its configuration. An engine may have parameters of its own that ban
tokens: vLLM has `allowed_token_ids` and `bad_words`. Where several masks cannot be compiled into one, a text may still end early.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logitkit.composition.chain import chain, members
from logitkit.configuration import CHAIN, installed_kinds
from logitkit.configuration.reading import from_config
from logitkit.constraints.banned_sequences import BannedSequences
from logitkit.errors import ConfigurationError, LogitkitError, VocabularyError
from logitkit.limits import Limits
from logitkit.protocol.declared import is_foreign
from logitkit.protocol.processor import Processor, Role, role_of
from logitkit.reasoning.loop_stop import LoopStop
from logitkit.runtime.constraint import Constraint
from logitkit.stopping.stop_strings import StopStrings
from logitkit.tokens.allow import AllowTokens
from logitkit.tokens.ban import BanTokens
from logitkit.tokens.forced_eos import ForcedEos
from logitkit.tokens.min_new import MinNewTokens
from logitkit.vocabulary import Vocabulary

__all__ = ["NO_BANS", "EngineBans", "Restriction", "has_language", "may_end_early", "restriction"]

# Beside one constraint on text, these leave a token: they are compiled into it, hold back EOS only, or end the text as declared.
HARMLESS = (AllowTokens, BanTokens, MinNewTokens, ForcedEos, StopStrings)

# An error with one of these words may be due to the tokens that are left out.
FOR_LACK_OF_TOKENS = re.compile(r"spell|no text|no sequence|special token|closing is|can be reached")


class EngineBans(NamedTuple):
    """The bans of a request that the engine applies itself, before or after our processors.

    Args:
        allowed: The only ids that are allowed, ascending (`allowed_token_ids`), or None.
        words: Sequences of ids of which the last is banned after the others (`bad_words`), in order.
    """

    allowed: tuple[int, ...] | None = None
    words: tuple[tuple[int, ...], ...] = ()

    @property
    def ids(self) -> int:
        """The number of ids in them."""
        return len(self.allowed or ()) + sum(map(len, self.words))


NO_BANS = EngineBans()


class Restriction(NamedTuple):
    """The tokens that a configuration is compiled for.

    Args:
        vocabulary: The engine's vocabulary, without the tokens that are banned everywhere if there is a constraint.
        sequences: Longer sequences that are banned.
        names: The parameters that ban tokens.
    """

    vocabulary: Vocabulary
    sequences: tuple[tuple[int, ...], ...] = ()
    names: tuple[str, ...] = ()

    def explained(self, error: LogitkitError) -> LogitkitError:
        """Return an error of the configuration; if banned tokens may be the reason, it names what bans them."""
        if not self.names or not FOR_LACK_OF_TOKENS.search(str(error)):
            return error
        return ConfigurationError(f"{error}, without the tokens that are forbidden by {' and '.join(self.names)}")

    def without_sequences(self, processor: Processor[Any], limits: Limits) -> Processor[Any]:
        """Return a processor whose finite constraints avoid the banned sequences.

        With another constraint, which nests without limit, the engine's mask of the sequences may leave a row without a token.

        Raises:
            LogitkitError: No text is left, or the intersection is too large.
        """
        links = members(processor)
        first = next((i for i, p in enumerate(links) if isinstance(p, Constraint)), None)
        if first is None or not self.sequences:
            return processor
        banned = BannedSequences(self.sequences, self.vocabulary, limits=limits)
        joined = chain(*links[:first], banned, *links[first:], limits=limits, eos_ids=self.vocabulary.eos_ids)
        if banned in joined.processors:  # nothing to intersect with: the engine's own mask is enough
            return processor
        return joined


def restriction(config: Mapping[str, Any], vocabulary: Vocabulary, bans: EngineBans) -> Restriction:
    """Return the tokens for which a configuration is compiled.

    Args:
        config: The configuration.
        vocabulary: The engine's vocabulary.
        bans: The bans that the engine applies itself.

    Raises:
        ConfigurationError: The bans leave no token, or none with text for a constraint.
    """
    size = vocabulary.size
    banned = np.zeros(size, bool)
    names = []
    for name, processor in _own_bans(config, vocabulary):
        names.append(name)
        listed = _listed(processor.ids, size)
        banned |= listed if isinstance(processor, BanTokens) else ~listed
    if bans.allowed is not None:
        names.append("allowed_token_ids")
        banned |= ~_listed(bans.allowed, size)
    if bans.words:
        names.append("bad_words")
        banned |= _listed([word[0] for word in bans.words if len(word) == 1], size)
    if not names:
        return Restriction(vocabulary)
    given = tuple(dict.fromkeys(names))
    if banned.all():
        raise ConfigurationError(f"{_leave(given)} none of the {size} tokens; allow at least one")
    if not _constrains(config):
        return Restriction(vocabulary)
    try:
        rest = vocabulary.without(banned.nonzero()[0].tolist())
    except VocabularyError:
        raise ConfigurationError(
            f"{_leave(given)} no token with text, but the configuration has a constraint on text; allow some"
        ) from None
    longer = tuple(word for word in bans.words if len(word) > 1)
    return Restriction(rest, longer, given if rest.left_out or longer else ())


def _leave(names: tuple[str, ...]) -> str:
    return f"{' and '.join(names)} together leave" if len(names) > 1 else f"{names[0]} leaves"


def _avoids_sequences(processor: Processor[Any]) -> bool:
    """Whether a constraint of a processor was compiled without the banned sequences."""
    parts = (part for link in members(processor) for part in getattr(link, "parts", ()))
    return any(isinstance(part, BannedSequences) for part in parts)


def has_language(processor: Processor[Any]) -> bool:
    """Whether a processor has a constraint on text."""
    return any(isinstance(part, Constraint) for part in members(processor))


def may_end_early(processor: Processor[Any], bans: EngineBans) -> bool:
    """Whether a row of a processor may be left without a token before a constraint on text allows its end.

    Args:
        processor: A processor, compiled without the tokens that are banned everywhere.
        bans: The bans that the engine applies itself.
    """
    if not has_language(processor):
        return False
    masks = [part for part in members(processor) if role_of(part) is Role.CONSTRAINT or is_foreign(part)]
    others = [part for part in masks if not _is_harmless(part)]
    longer = any(len(word) > 1 for word in bans.words)
    return len(others) > 1 or (longer and not _avoids_sequences(processor))


def _is_harmless(part: Processor[Any]) -> bool:
    # With `then`, it may force a marker that the constraint does not allow.
    return isinstance(part, HARMLESS) or (isinstance(part, LoopStop) and part.then is None)


def _listed(ids: Sequence[int], size: int) -> NDArray[np.bool_]:
    """Return which of all ids are listed, [V]; those that no token has are ignored."""
    found = np.zeros(size, bool)
    given = np.array(ids, np.int64)
    found[given[(given >= 0) & (given < size)]] = True
    return found


def _own_bans(config: Mapping[str, Any], vocabulary: Vocabulary) -> Iterator[tuple[str, AllowTokens | BanTokens]]:
    """Yield the bans of ids that a configuration names; malformed ones are refused when all of it is read."""
    for part in _parts(config):
        for name in ("allow_tokens", "ban_tokens"):
            if name in part:
                try:
                    made = from_config({name: part[name]}, vocabulary)
                except LogitkitError:
                    continue
                assert isinstance(made, AllowTokens | BanTokens)
                yield name, made


def _constrains(config: Mapping[str, Any]) -> bool:
    """Whether a configuration has a constraint on text."""
    kinds = installed_kinds()
    made = (getattr(kinds.get(name), "made", None) for part in _parts(config) for name in part)
    return any(isinstance(one, type) and issubclass(one, Constraint) for one in made)


def _parts(config: object) -> Iterator[Mapping[str, Any]]:
    """Yield a configuration, and those in its chains."""
    if isinstance(config, Mapping):
        yield config
        links = config.get(CHAIN)
        for link in links if isinstance(links, list | tuple) else ():
            yield from _parts(link)
