"""From a response template to the format of the calls that it reads, proved on random calls.

A response template reads more than a model writes. `candidates` yields formats, and the first one is taken that is proved: turns
written in it are read as the same calls.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from threading import Lock
from typing import Any, TypeAlias, get_args

from logitkit.errors import ConfigurationError, LogitkitError
from logitkit.languages.raw_strings import RawStrings
from logitkit.tools.derivation.from_template import format_of_template, special_tokens
from logitkit.tools.formats.call_ids import ID, has_ids, run_of
from logitkit.tools.formats.tool_format import ToolFormat
from logitkit.tools.response_templates.anchors import FixedText
from logitkit.tools.response_templates.call_ends import call_ends, text_ends
from logitkit.tools.response_templates.call_shape import CallShape
from logitkit.tools.response_templates.candidates import NAME, candidates, plain_text, tag_groups
from logitkit.tools.response_templates.document import CALLS, ResponseTemplate, not_expressed
from logitkit.tools.response_templates.parsing import RESERVED, ResponseParser
from logitkit.tools.response_templates.proof import unread

__all__ = ["format_of_response_template", "response_template_of"]

# How many response templates are remembered, with what was found.
KEPT = 64
_Key: TypeAlias = "tuple[str, frozenset[str] | None, ToolFormat | None]"

_found: OrderedDict[_Key, ToolFormat | ConfigurationError] = OrderedDict()
_lock = Lock()


def response_template_of(given: Any) -> Mapping[str, Any] | None:
    """Return the response template of a tokenizer or processor of transformers; None if it has none."""
    for holder in (given, getattr(given, "tokenizer", None)):
        loaded = getattr(holder, "init_kwargs", None)
        for found in (
            getattr(holder, "response_template", None),
            loaded.get("response_template") if isinstance(loaded, Mapping) else None,
        ):
            if isinstance(found, Mapping):
                return found
    return None


def format_of_response_template(given: Any, chat_template: Any = None) -> ToolFormat:
    """Return the format of the calls that a response template reads.

    Args:
        given: The response template, or a tokenizer with one.
        chat_template: The model's chat template, or its tokenizer, which shows the spelling that the model writes.

    Raises:
        ConfigurationError: It is not a response template, or has a part that a format cannot express.
    """
    spec = given if isinstance(given, Mapping) else response_template_of(given)
    if spec is None:
        legacy = (
            " (its `response_schema` is of an earlier kind, which is not read)"
            if hasattr(given, "response_schema")
            else ""
        )
        raise ConfigurationError(
            f"the response template is {type(given).__name__}, which has none as `response_template`{legacy}; allowed are the "
            "dict of a response template, and a tokenizer with one"
        )
    template = ResponseTemplate.of(spec)
    tokenizer = next((some for some in (given, chat_template) if not isinstance(some, Mapping | str | None)), None)
    # A tokenizer says which markers are special tokens, and a processor has one.
    names = None if tokenizer is None else special_tokens(getattr(tokenizer, "tokenizer", tokenizer)) or None
    written = _written(tokenizer if chat_template is None else chat_template)
    key = _key(spec, names, written)
    with _lock:
        found = None if key is None else _found.get(key)
    if found is None:
        found = _read(template, names, written)
        _keep(key, found)
    if isinstance(found, ConfigurationError):
        raise ConfigurationError(str(found))
    return found


def _key(spec: Mapping[str, Any], names: frozenset[str] | None, written: ToolFormat | None) -> _Key | None:
    """Return all that the format depends on; None: the response template is not JSON."""
    try:
        return json.dumps(spec, sort_keys=True), names, written
    except (TypeError, ValueError):
        return None


def _keep(key: _Key | None, found: ToolFormat | ConfigurationError) -> None:
    with _lock:
        if key is not None:
            _found[key] = found
        while len(_found) > KEPT:
            _found.popitem(last=False)


def _written(chat_template: Any) -> ToolFormat | None:
    """Return the format that a chat template writes, if it can be derived."""
    try:
        return None if chat_template is None else format_of_template(chat_template)
    except ConfigurationError:
        return None


def _read(
    template: ResponseTemplate, names: frozenset[str] | None, written: ToolFormat | None
) -> ToolFormat | ConfigurationError:
    try:
        return _proved(template, names, written)
    except ConfigurationError as error:
        return error
    except LogitkitError as error:
        return not_expressed("a pattern of it", f"cannot be compiled ({error})")


def _proved(template: ResponseTemplate, names: frozenset[str] | None, written: ToolFormat | None) -> ToolFormat:
    shape = CallShape.of(template.calls)
    parser = ResponseParser(template, shape)
    ends_of_calls, ends_of_text = call_ends(template), text_ends(template)
    ends = tuple(dict.fromkeys(_ends(template)))
    problem = "free text may end within the text that begins a call, or an id may contain the text that ends one"
    for candidate in candidates(template, shape, written, ends):
        if _id_may_hold(candidate, ends_of_calls):
            continue
        for form in _completed(candidate, template, shape, ends_of_calls, ends_of_text, names):
            for end in ends:
                found = unread(replace(form, also=()), parser, end)
                if found is None:
                    return _with_heads(form, parser, end)
                # An error is about the format that follows the anchors, not about one that only models of others write.
                problem = found if candidate.name == NAME else problem
    raise not_expressed(f"the field {CALLS!r}", f"reads no format that is known: {problem}")


def _with_heads(form: ToolFormat, parser: ResponseParser, end: str) -> ToolFormat:
    """Return a format with those of its other heads that are read too."""
    heads = [
        head
        for head in form.also
        if unread(replace(form, call_begin=head[0], name_end=head[1], also=()), parser, end) is None
    ]
    return replace(form, also=tuple(heads))


def _completed(
    form: ToolFormat,
    template: ResponseTemplate,
    shape: CallShape,
    free_of: tuple[str, ...],
    text_free_of: tuple[str, ...],
    names: frozenset[str] | None,
) -> Iterator[ToolFormat]:
    """Yield a format with all that the response template asks for beside the calls."""
    given: dict[str, Any] = {
        "name": NAME,
        "free_of": free_of if template.calls.delimiter is None else (*free_of, *RESERVED),
        "text_begin": "",
        "detected_by": (),
        "not_detected_by": (),
    }
    assert template.calls.open is not None
    if shape.group is not None:
        given["names"] = dict(template.calls.open.groups).get(shape.group)
    if template.content is not None and template.content.open is not None:
        # Outside of fields, there is no text.
        given |= {"trigger": None, "text_begin": plain_text(template.content.open.plain, "'open'", "content")}
    if not template.calls.repeats and not shape.is_list:
        given["separator"] = None
    if form.arguments == "xml":
        given["parameter_names"] = tag_groups(str((template.calls.arguments or {})["tag_pattern"]))[3]
    given |= _reasoning(form, template)
    if names is not None:
        given["tokens"] = ()
    # Free text ends at a trigger in any case. Without one, white space may stand before calls too.
    trigger = given.get("trigger", form.trigger)
    given["text_free_of"] = tuple(
        text.strip() if trigger is None else text for text in text_free_of if trigger is None or trigger not in text
    )
    if trigger is not None and any(text in trigger for text in given["text_free_of"]):
        return
    for raw in get_args(RawStrings) if form.arguments == "xml" else ("any",):
        try:
            found = replace(form, **given, raw_strings=raw)
            if names is not None:
                found = replace(found, tokens=_tokens(found, names))
        except ConfigurationError:
            # Such as a format without a text before calls.
            continue
        yield found


def _id_may_hold(form: ToolFormat, texts: tuple[str, ...]) -> bool:
    """Whether an id of a format may contain one of some texts."""
    markers = form.call_begin, form.name_end, form.call_end
    return any(map(has_ids, markers)) and any(run_of(ID, None, text, 0)[0] == len(text) for text in texts)


def _reasoning(form: ToolFormat, template: ResponseTemplate) -> dict[str, Any]:
    field = template.reasoning
    if field is None:
        return {"reasoning_begin": "", "reasoning_end": None, "reasoning_opened": False}
    assert field.open is not None
    # Where reasoning may begin without a text, none is written.
    is_shown = all(any(isinstance(piece, FixedText) for piece in way) for way in field.open.ways)
    begin = plain_text(field.open.plain, "'open'", field.name) if is_shown else ""
    end = plain_text(field.close.plain, "'close'", field.name) if field.close is not None else ""
    if not end:
        raise not_expressed(f"the field {field.name!r}", "is not closed by a text")
    if (
        form.reasoning_end is not None
        and form.reasoning_end.startswith(end)
        and form.reasoning_begin.strip() == begin.strip()
    ):
        return {"reasoning_begin": begin}
    return {"reasoning_begin": begin, "reasoning_end": end, "reasoning_opened": False}


def _tokens(form: ToolFormat, names: frozenset[str]) -> tuple[str, ...]:
    """Return the special tokens in the markers around calls."""
    tokens = [name for name in sorted(names) if any(name in text for text in form.fixed_texts)]
    if form.trigger is not None and form.trigger not in tokens:
        # Free text ends at a trigger, however it is written.
        tokens = [name for name in tokens if name not in form.trigger]
    return tuple(tokens)


def _ends(template: ResponseTemplate) -> Iterator[str]:
    """Yield the texts that may follow a turn: nothing, and what ends the text of an answer, such as EOS."""
    yield ""
    close = None if template.content is None else template.content.close
    for way in () if close is None else close.ways:
        text = plain_text(way, "'close'", "content")
        if text:
            yield text
