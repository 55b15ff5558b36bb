"""From a chat template, or a tokenizer with one, to the format in which it writes tool calls."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from logitkit.errors import ConfigurationError, LogitkitError
from logitkit.tools.derivation.derive import derived
from logitkit.tools.derivation.proof import proved
from logitkit.tools.derivation.rendering import TemplateRenderer
from logitkit.tools.formats.known_formats import TOOL_FORMATS
from logitkit.tools.formats.tool_format import ToolFormat

__all__ = ["format_of_template", "special_tokens"]

# How many templates are remembered, with what was found.
KEPT = 64


@dataclass(frozen=True)
class _Template:
    """All that a derivation depends on."""

    text: str
    bos: str
    eos: str
    tokens: frozenset[str]


_INDENTATION = re.compile(r"(?<!\n) {2,}$")

_found: OrderedDict[_Template, ToolFormat | ConfigurationError] = OrderedDict()
_lock = threading.Lock()
# One process at a time: threads that need the same template wait for the one that derives its format.
_deriving = threading.Lock()


def format_of_template(given: object) -> ToolFormat:
    """Return the proved format of a chat template.

    Args:
        given: The text of the template, or a tokenizer with `chat_template`.

    Raises:
        ConfigurationError: It is neither; or the format cannot be derived or proved.
    """
    template = _template_of(given)
    found = _known(template)
    if found is None:
        with _deriving:
            found = _known(template) or _derived_and_kept(template)
    if isinstance(found, ConfigurationError):
        raise ConfigurationError(str(found))
    return found


def _known(template: _Template) -> ToolFormat | ConfigurationError | None:
    with _lock:
        found = _found.get(template)
        if found is not None:
            _found.move_to_end(template)
        return found


def _derived_and_kept(template: _Template) -> ToolFormat | ConfigurationError:
    found, is_kept = _derived(template)
    with _lock:
        if is_kept:
            _found[template] = found
        while len(_found) > KEPT:
            _found.popitem(last=False)
    return found


def _derived(template: _Template) -> tuple[ToolFormat | ConfigurationError, bool]:
    """Return the format of a template, or why there is none, and whether another try would give the same."""
    special = {"bos_token": template.bos, "eos_token": template.eos}
    with TemplateRenderer(template.text) as renderer:
        try:
            found = derived(renderer, special, template.tokens)
            proved(renderer, found, special)
        except ConfigurationError as error:
            # On a busy machine, a process may run into a limit of time.
            return error, not renderer.is_stopped
        except LogitkitError as error:
            # Markers of which no constraint can be compiled.
            return ConfigurationError(
                f"the format that was derived from the chat template cannot be proved: {error}"
            ), True
    form = replace(found.form, verified=True)
    return next((known for known in TOOL_FORMATS.values() if _covers(known, form)), form), True


def _covers(known: ToolFormat, form: ToolFormat) -> bool:
    """Whether a known format has the same calls, and whatever else the template shows.

    A known format may say more: the text of a template does not show which markers are special tokens, and not every template of
    a family writes reasoning. Some templates write the indentation of their own lines between calls, which models do not.
    """
    beside = ("name", "tokens", "also", "text_begin", "leading_space", "detected_by", "not_detected_by", "verified")
    same = all(
        _without_indentation(getattr(known, field.name)) == _without_indentation(getattr(form, field.name))
        for field in fields(ToolFormat)
        if field.name not in beside and not field.name.startswith("reasoning")
    )
    if (
        not same
        or _without_indentation(form.leading_space)
        or (form.tokens and form.tokens != tuple(sorted(known.tokens)))
    ):
        return False
    return form.reasoning_end is None or (form.reasoning_end, form.reasoning_begin.strip()) == (
        known.reasoning_end,
        known.reasoning_begin.strip(),
    )


def _without_indentation(value: object) -> object:
    return _INDENTATION.sub("", value) if isinstance(value, str) else value


def _template_of(given: object) -> _Template:
    if isinstance(given, str):
        return _Template(given, "<s>", "</s>", frozenset())
    text = getattr(given, "chat_template", None)
    if isinstance(text, Mapping):
        # Tokenizers with several templates have one for tools.
        text = text.get("tool_use", text.get("default"))
    if not isinstance(text, str):
        raise ConfigurationError(
            f"the chat template is {type(given).__name__}, which has no text as `chat_template`; allowed are the text "
            "of a template, and a tokenizer with one"
        )

    def named(name: str, default: str) -> str:
        found = getattr(given, name, None)
        return found if isinstance(found, str) else default

    return _Template(text, named("bos_token", ""), named("eos_token", ""), special_tokens(given))


def special_tokens(tokenizer: Any) -> frozenset[str]:
    """Return the names of the special tokens of a tokenizer of transformers."""
    added = getattr(tokenizer, "added_tokens_decoder", None)
    tokens = added.values() if isinstance(added, Mapping) else ()
    named = {token.content for token in tokens if getattr(token, "special", False)}
    listed = getattr(tokenizer, "all_special_tokens", None)
    return frozenset({*named, *(listed if isinstance(listed, list) else ())} - {""})
