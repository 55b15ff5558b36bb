"""Prompts whose beginning an engine hides, for example because it is in a cache."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise

import numpy as np

from logitkit.errors import ConfigurationError
from logitkit.tracking.branches import Integers

__all__ = ["HiddenPrompt"]

REMEDY = "give each sequence a hook of its own, with its own prompt"


class _Run:
    """Sequences of one prompt of which an engine hides the same number of tokens.

    Args:
        prompt: The index of their prompt.
        ids: The prompt.
        hidden: The number of its first tokens that are hidden.
    """

    __slots__ = ("hidden", "length", "prompt", "reach", "tail", "tip")

    def __init__(self, prompt: int, ids: Integers, hidden: int) -> None:
        self.prompt, self.hidden, self.tail = prompt, ids[:hidden], ids[hidden:]
        self.length = len(self.tail)
        # The last id, which is compared first because it differs between most prompts.
        self.tip = int(ids[-1]) if len(ids) else None
        self.reach = 0  # the number of tokens of the longest sequence shown

    def begins(self, shown: Integers) -> bool:
        """Return whether a sequence of this run could show these ids."""
        length = self.length
        if length > len(shown) or (length and shown[length - 1] != self.tip):
            return False
        return np.array_equal(shown[:length], self.tail)

    def is_begun_by(self, shown: Integers) -> bool:
        """Return whether these ids are a proper beginning of the part of the prompt that this run shows."""
        return len(shown) < self.length and np.array_equal(self.tail[: len(shown)], shown)


class HiddenPrompt:
    """Find the prompt of each sequence, and put the hidden tokens back in front of those that the engine shows.

    The first call of a run shows the end of a prompt: all of it, the part after a cached prefix, or, if the engine uses a draft
    model, its last token. Later calls of the run show the same part of the prompt, and the output after it. If the shown ids
    begin with a whole prompt, nothing is hidden.

    Args:
        prompts: The token ids of at least one prompt; equal ones count as one.
        distinct: Whether prompts with the same end must be distinguished.

    Raises:
        ConfigurationError: A prompt is the beginning of another, so that they cannot be distinguished.

    Example:
        >>> hidden = HiddenPrompt([[5, 6, 7, 8]])
        >>> for shown in ([7, 8], [7, 8, 1], [7, 8, 1, 2]):
        ...     prompt, ids = hidden.complete(np.array(shown))
        >>> prompt, ids.tolist()
        (0, [5, 6, 7, 8, 1, 2])
    """

    def __init__(self, prompts: Sequence[Sequence[int]], distinct: bool = True) -> None:
        self._prompts = {i: np.array(ids, np.int64) for ids, i in {tuple(p): i for i, p in enumerate(prompts)}.items()}
        self._distinct = distinct
        self._runs: list[_Run] = []
        self._last = 0  # the run that was continued last
        # In sorted order, a prompt that begins others comes right before one of them.
        for one, other in pairwise(sorted({tuple(p) for p in prompts})):
            if other[: len(one)] == one:
                raise ConfigurationError(
                    f"a prompt of {len(one)} tokens is the beginning of another, of {len(other)} tokens, so its output could be "
                    f"mistaken for the other prompt; {REMEDY}"
                )

    def new_generation(self) -> None:
        """Forget all runs."""
        self._runs.clear()
        self._last = 0

    def complete(self, shown: Integers, hidden: int = 0) -> tuple[int, Integers]:
        """Return the index of a sequence's prompt, and all its token ids.

        Args:
            shown: [L] the ids that the engine shows.
            hidden: The minimum number of tokens that it hides before these.

        Raises:
            ConfigurationError: The ids do not begin with a prompt or its end, they could belong to several prompts, or the prompt
                has fewer tokens than are hidden.
        """
        run = self._continued(shown, hidden) or self._begun(shown, hidden) or self._resumed(shown, hidden)
        if run is None:
            before = f", and hides {hidden} before them," if hidden > 0 else ""
            raise ConfigurationError(
                f"the engine shows {len(shown)} tokens{before} that begin neither with the given prompt nor with its end "
                f"({', '.join(map(str, shown[:8]))}{', ...' * (len(shown) > 8)}); give the whole prompt, including its part in "
                "the engine's cache, let the engine show all output, and make a new hook for another prompt"
            )
        run.reach = max(run.reach, len(shown))
        return run.prompt, np.concatenate((run.hidden, shown)) if len(run.hidden) else shown

    def _continued(self, shown: Integers, hidden: int) -> _Run | None:
        # Sequences usually take turns in the order in which they began, so the search starts at the last one.
        runs, last = self._runs, self._last
        for place in chain(range(last, len(runs)), range(last)):
            run = runs[place]
            if hidden <= len(run.hidden) and len(shown) <= run.reach + 1 and run.begins(shown):
                if len(run.hidden) and len(shown) > run.length:
                    self._check_apart(shown, [i for i in self._ending_with(shown) if i != run.prompt])
                self._last = place
                return run
        return None

    def _begun(self, shown: Integers, hidden: int) -> _Run | None:
        found = [i for i in self._ending_with(shown) if hidden <= len(self._prompts[i]) - len(shown)]
        if not found:
            return None
        whole = [i for i in found if len(self._prompts[i]) == len(shown)]
        if not whole and self._distinct:
            self._check_apart(shown, found[1:])
        index = (whole or found)[0]
        run = _Run(index, self._prompts[index], len(self._prompts[index]) - len(shown))
        self._check_apart(shown, [r.prompt for r in self._runs if r.prompt != index and r.is_begun_by(shown)])
        self._runs.append(run)
        return run

    def _resumed(self, shown: Integers, hidden: int) -> _Run | None:
        for index, ids in self._prompts.items() if hidden <= 0 else ():
            run = _Run(index, ids, 0)
            if run.begins(shown):
                self._runs.append(run)
                return run
        return next((run for run in self._runs if hidden <= len(run.hidden) and run.begins(shown)), None)

    def _ending_with(self, shown: Integers) -> list[int]:
        count = len(shown)
        ends = {i: ids[len(ids) - count :] for i, ids in self._prompts.items() if 0 < count <= len(ids)}
        return [i for i, end in ends.items() if np.array_equal(end, shown)]

    def _check_apart(self, shown: Integers, others: list[int]) -> None:
        if others:
            raise ConfigurationError(
                f"the engine shows {len(shown)} tokens that could belong to several of the prompts, because it hides the tokens "
                f"in which they differ; {REMEDY}"
            )
