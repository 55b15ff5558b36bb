"""Finds the calls in renderings: what stands before them, and what ends the turn."""

from __future__ import annotations

from dataclasses import dataclass, replace

from logitkit.errors import ConfigurationError
from logitkit.tools.derivation.atoms import atoms, first_tag, is_tag, shared_start, turn_end
from logitkit.tools.derivation.probes import ANSWER, USER
from logitkit.tools.derivation.rendering import Rendered

__all__ = ["TurnParts", "not_derived", "reply_of"]

# A longer reply would take long to compare.
LONGEST_REPLY = 20_000
# An error shows the last characters of a rendering.
SHOWN = 600


def not_derived(what: str, first: str, second: str = "", written: str = "") -> ConfigurationError:
    """Return the error of a part that cannot be derived.

    Args:
        what: The part.
        first: A rendering that is not explained.
        second: Another one.
        written: The text that the derived format writes in place of the first.
    """
    shown = "\n".join(f"  {text[-SHOWN:]!r}" for text in (first, second) if text)
    other = f"\nThe derived format writes\n  {written[-SHOWN:]!r}" if written else ""
    return ConfigurationError(
        f"the format of tool calls cannot be derived from the chat template: {what}. The template rendered\n{shown}{other}\nGive "
        "a ToolFormat(...), or the name of a format"
    )


def reply_of(rendered: Rendered) -> str:
    """Return what stands after the question; empty if the template could not be rendered.

    Raises:
        ConfigurationError: It is too long.
    """
    found = (rendered.text or "").rpartition(USER)[2]
    if len(found) > LONGEST_REPLY:
        what = f"it writes {len(found)} characters after a question; allowed are {LONGEST_REPLY}"
        raise not_derived(what, found)
    return found


@dataclass(frozen=True)
class TurnParts:
    """The texts around the calls of a turn.

    Args:
        header: The text between the question and the calls.
        end: The text that ends a turn with calls.
        text_begin: The text before an answer, but not before calls.
        answer_end: The text after an answer.
    """

    header: str
    end: str
    text_begin: str = ""
    answer_end: str = ""

    @classmethod
    def of(cls, answer: str, calls: str, prompt: str, name: str) -> TurnParts:
        """Compare the rendering of an answer with that of calls.

        Args:
            answer: The reply that is an answer.
            calls: The reply that is calls.
            prompt: The text after the question where the reply is still to be written.
            name: The name of the first call.

        Raises:
            ConfigurationError: It is not clear where calls begin or end.
        """
        before, found, after = answer.partition(ANSWER)
        if not found:
            raise not_derived("the text of an answer is not in its rendering", answer, calls)
        header = before if calls.startswith(before) else _header(before, calls, prompt, name)
        end = turn_end(after, calls)
        if end is not None and not calls.endswith(after):
            end = _without_tags_of_calls(end, calls[len(header) : calls.find(name)])
        if end is None:
            raise not_derived("it is not clear what ends a turn with calls", answer, calls)
        # Some templates write an empty message after the calls.
        first = first_tag(end.lstrip())
        inside = calls.find(first, calls.rfind(name)) if first else -1
        if inside >= 0:
            end = calls[inside - (len(end) - len(end.lstrip())) :]
        return cls(header, end, before[len(header) :] if before.startswith(header) else "", after)

    def with_header(self, more: str) -> TurnParts:
        """Return the parts with a longer header."""
        return replace(self, header=self.header + more, text_begin="")

    def calls_in(self, reply: str) -> str | None:
        """Return the calls of a turn; None if the turn is not as the others."""
        if not reply.startswith(self.header) or not reply.endswith(self.end):
            return None
        return reply[len(self.header) : len(reply) - len(self.end)]


def _without_tags_of_calls(end: str, begin: str) -> str:
    """Return the end of a turn without tags with which calls begin too: these are a part of the calls."""
    found = atoms(end)
    while any(is_tag(atom) for atom in found) and not (is_tag(found[0]) and found[0] not in begin):
        del found[0]
    return "".join(found) or end


def _header(before: str, calls: str, prompt: str, name: str) -> str:
    """Return what stands before calls that do not stand where an answer does."""
    tags = [atom for atom in atoms(prompt[-200:]) if is_tag(atom)]
    opening = prompt[prompt.rindex(tags[-1]) :].strip() if tags else ""
    at = calls.find(opening, 0, calls.find(name)) if opening else -1
    if at < 0:
        return shared_start(before, calls)
    stop = at + len(opening)
    space = prompt[len(prompt.rstrip()) :]
    return calls[: stop + len(space)] if calls.startswith(space, stop) else calls[:stop]
