r"""Attributes of rules, as in `head[lazy]: TEXT "<call>"`, which LLGuidance and XGrammar have.

- `lazy`: the rule is one terminal, which ends as soon as it can. Its texts are those that begin with no shorter one.
- `suffix="..."`: the same for the rule and a marker after it.
- `stop="..."`: the same texts. `logitkit.grammars.captures` leaves the marker out of all captures.
- `max_chars=n`: the rule is one terminal of at most n characters, without the marker.
- `max_tokens=n`: at most n tokens write the rule, the marker included; see `compiler.grammars.limited_rules`.
- `capture` and `stop_capture="..."`: name the text of the rule, and of its marker, for those who read it. They change no text.

By hand, for `head[lazy]: /[a-z]*b/`: `ab` is a text, and `abb` is not, because `ab` comes before.

In LLGuidance, `stop` also takes its marker out of the text again: the grammar goes on as if it had not been written. Tokens that
have been written cannot be taken back here. In XGrammar, the marker stays in the text, as here.

`stop=""` ends the rule at EOS in LLGuidance, which takes EOS back. Here it says nothing: EOS ends the output.

`temperature` is refused, because it is about sampling.
"""

from __future__ import annotations

from dataclasses import dataclass

from logitkit.compiler.text_language import TextLanguage
from logitkit.limits import Limits
from logitkit.patterns.charset import ANY
from logitkit.patterns.syntax import Characters, Concat, Machine, Node, Repeat

__all__ = ["KNOWN", "LIST_PREFIX", "REFUSED", "Attributes", "cut_texts", "shortest_texts"]

KNOWN = ("capture", "lazy", "max_chars", "max_tokens", "stop", "stop_capture", "suffix")
"""The attributes that are allowed."""

LIST_PREFIX = "__LIST_APPEND:"
"""With this prefix of a name, Guidance asks for all texts of the rule. Here, all are returned anyway."""

REFUSED = {
    "temperature": "temperature changes how tokens are sampled, and not which texts are allowed; leave it out, and chain the "
    "grammar with a processor such as Temperature",
}
"""Attributes that are refused, with the reason."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """The attributes of a rule that make it one terminal.

    Args:
        is_lazy: Whether it ends as soon as it can.
        suffix: The definition of the marker after it.
        max_chars: The largest number of characters before the marker.
        is_stop: Whether no capture shows the marker.
        marker_name: The name under which the marker is captured.
        max_tokens: The largest number of tokens that write it. 0: it is empty.
        is_greedy: Whether it is one terminal that ends where it cannot go on, although no other attribute says so.
    """

    is_lazy: bool = False
    suffix: int | None = None
    max_chars: int | None = None
    is_stop: bool = False
    marker_name: str | None = None
    max_tokens: int | None = None
    is_greedy: bool = False


def shortest_texts(tree: Node, attributes: Attributes, suffix: Node | None, limits: Limits) -> TextLanguage:
    """Return the texts of a rule with attributes.

    Args:
        tree: Its texts without them.
        attributes: The attributes.
        suffix: The tree of the marker.
        limits: Bounds on the automata.

    Example:
        >>> from logitkit.limits import DEFAULT_LIMITS
        >>> from logitkit.patterns import parse
        >>> shortest_texts(parse("a{1,3}b?"), Attributes(is_lazy=True), None, DEFAULT_LIMITS).texts(10)
        ['a']
        >>> shortest_texts(parse("[ab]*"), Attributes(True, 0, 1), parse("b"), DEFAULT_LIMITS).texts(10)
        ['ab', 'b']
    """
    language = _before_marker(tree, attributes, limits)
    if suffix is not None and not language.is_empty:
        language = TextLanguage.of_tree(Concat((language.machine(), suffix)), limits)
    if attributes.is_lazy and not language.is_empty:
        longer = Concat((language.machine(), Repeat(Characters(ANY), 1, None)))
        language = language - TextLanguage.of_tree(longer, limits)
    return language


def cut_texts(tree: Node, attributes: Attributes, whole: TextLanguage, limits: Limits) -> Machine:
    """Return the texts of a rule with a marker that the marker has not ended.

    Args:
        tree: The texts before the marker.
        attributes: The attributes.
        whole: The texts with the marker.
        limits: Bounds on the automata.
    """
    ended = TextLanguage.of_tree(Concat((whole.machine(), Repeat(Characters(ANY), 0, None))), limits)
    left = _before_marker(tree, attributes, limits) - ended
    return Machine(((),), (False,)) if left.is_empty else left.machine()


def _before_marker(tree: Node, attributes: Attributes, limits: Limits) -> TextLanguage:
    language = TextLanguage.of_tree(tree, limits)
    if attributes.max_chars is not None:
        language &= TextLanguage.of_length(0, attributes.max_chars, limits)
    return language
