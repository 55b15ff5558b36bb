"""What an engine hides of a prompt: the tokens in a cache, say, put back in front of those it shows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise

import numpy as np

from logitkit.errors import ConfigurationError
from logitkit.tracking.branches import Integers

__all__ = ["HiddenPrompt"]

REMEDY = "give each sequence a hook of its own, with its own prompt"


class _Run:
    """Sequences of which an engine hides equally much.

    Args:
        prompt: The index of their prompt.
        ids: That prompt.
        hidden: How many of its first tokens are not shown.
    """

    __slots__ = ("hidden", "length", "prompt", "reach", "tail", "tip")

    def __init__(self, prompt: int, ids: Integers, hidden: int) -> None:
        self.prompt, self.hidden, self.tail = prompt, ids[:hidden], ids[hidden:]
        self.length = len(self.tail)
        # One comparison tells most prompts apart.
        self.tip = int(ids[-1]) if len(ids) else None
        self.reach = 0  # tokens of the longest sequence shown

    def begins(self, shown: Integers) -> bool:
        """Whether this run could show these ids."""
        length = self.length
        if length > len(shown) or (length and shown[length - 1] != self.tip):
            return False
        return np.array_equal(shown[:length], self.tail)

    def is_begun_by(self, shown: Integers) -> bool:
        """Whether these ids are the beginning, and not all, of what this run shows of its prompt."""
        return len(shown) < self.length and np.array_equal(self.tail[: len(shown)], shown)


class HiddenPrompt:
    """Tell which prompt a sequence has, and put back in front of it what the engine hides of that.

    The first call of a run shows an end of a prompt: all of it, what is behind a cached part, or, where an engine drafts, the
    last token. Later calls of the run show as much of the prompt. A history that begins with a whole prompt has nothing hidden,
    however much longer it is.

    Args:
        prompts: The token ids of at least one prompt; equal ones count as one.
        distinct: Whether it matters which of several prompts that end alike a sequence has.

    Raises:
        ConfigurationError: A prompt is the beginning of another: they could not be told apart.

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
        self._last = 0  # which run was continued last
        # Sorted, a beginning of another stands right before one that it begins.
        for one, other in pairwise(sorted({tuple(p) for p in prompts})):
            if other[: len(one)] == one:
                raise ConfigurationError(
                    f"a prompt of {len(one)} tokens is the beginning of another, of {len(other)}: what follows the one could not "
                    f"be told from the other; {REMEDY}"
                )

    def new_generation(self) -> None:
        """Forget how much of which prompt was hidden."""
        self._runs.clear()
        self._last = 0

    def complete(self, shown: Integers, hidden: int = 0) -> tuple[int, Integers]:
        """Return the index of a sequence's prompt, and all its token ids.

        Args:
            shown: [L] the ids that the engine shows.
            hidden: How many tokens it hides before these, or fewer where it does not say.

        Raises:
            ConfigurationError: They do not begin with a prompt or its end, or with that of several prompts; or more is hidden
                than the prompt has, so that it is output.
        """
        run = self._continued(shown, hidden) or self._begun(shown, hidden) or self._resumed(shown, hidden)
        if run is None:
            before = f", and hides {hidden} before them," if hidden > 0 else ""
            raise ConfigurationError(
                f"the engine shows {len(shown)} tokens{before} that begin neither with the prompt that was told nor with its end "
                f"({', '.join(map(str, shown[:8]))}{', ...' * (len(shown) > 8)}); tell the whole prompt, with what is in the "
                "engine's cache, let the engine show all output, and make a new hook for another prompt"
            )
        run.reach = max(run.reach, len(shown))
        return run.prompt, np.concatenate((run.hidden, shown)) if len(run.hidden) else shown

    def _continued(self, shown: Integers, hidden: int) -> _Run | None:
        # Sequences that take turns do so in the order in which they began.
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
                f"the engine shows {len(shown)} tokens that could belong to several of the prompts that were told: what it hides "
                f"tells them apart; {REMEDY}"
            )
