"""StructuralTag: the output follows a structural tag, as XGrammar, vLLM and SGLang take them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, get_args

from logitkit.errors import ConfigurationError
from logitkit.json_schema.document import key_of
from logitkit.json_schema.layout import Whitespace
from logitkit.languages.described import DescribedByLanguage
from logitkit.languages.language import LANGUAGE_LIMITS, Language
from logitkit.limits import Limits, check_limits
from logitkit.parameters import Boolean, Either, Integer, SchemaForm, Word
from logitkit.protocol.kind import Kind
from logitkit.structural_tags.document import JsonPart, plain_document
from logitkit.structural_tags.formats import Surroundings, plain_formats
from logitkit.structural_tags.tags import legacy_tags, tag_formats
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["StructuralTag", "StructuralTagForm", "from_structural_tag", "structural_tag_language"]


class StructuralTagForm(SchemaForm):
    """A structural tag, or its text."""

    allowed = "a structural tag: an object with a 'format', or with 'structures' and 'triggers', or its text"
    described: ClassVar[dict[str, Any]] = {
        "anyOf": [
            {"type": "string"},
            {
                "type": "object",
                "properties": {"type": {"const": "structural_tag"}, "format": {"type": "object"}},
                "required": ["format"],
                "additionalProperties": False,
            },
            {
                "type": "object",
                "properties": {
                    "type": {"const": "structural_tag"},
                    "structures": {"type": "array", "items": {"type": "object"}, "minItems": 1},
                    "triggers": {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1},
                },
                "required": ["structures", "triggers"],
                "additionalProperties": False,
            },
        ]
    }


def structural_tag_language(document: object, *, whitespace: Whitespace = "bounded") -> Language:
    """Return the language of a structural tag.

    Args:
        document: The structural tag: a dict, or JSON text.
        whitespace: The white space in JSON texts, `"bounded"`, `"spaced"` or `"compact"`, as in `JsonSchema`.

    Returns:
        A definition that serves several models.

    Raises:
        ConfigurationError: The document is not a structural tag, or holds something that is not supported; the message has its
            path.
        GrammarError: A grammar is not valid.
        PatternSyntaxError: A pattern is not valid.

    Example:
        >>> from logitkit.structural_tags import structural_tag_language
        >>> answer = {"type": "or", "elements": [{"type": "const_string", "value": word} for word in ("yes", "no")]}
        >>> structural_tag_language({"type": "structural_tag", "format": answer})
        OneOf(options=(LiteralText(text='yes'), LiteralText(text='no')))
    """
    if whitespace not in get_args(Whitespace):
        raise ConfigurationError(
            f"whitespace is {whitespace!r}; allowed are {', '.join(map(repr, get_args(Whitespace)))}"
        )
    return _language_of(plain_document(document), whitespace)


def _language_of(document: dict[str, Any], whitespace: Whitespace) -> Language:
    root = JsonPart("", document)
    around = Surroundings(whitespace, {**plain_formats(), **tag_formats()})
    if root.value.get("type", "structural_tag") != "structural_tag":
        raise root.inside("type").refuse(
            "'structural_tag'; put a format into {'type': 'structural_tag', 'format': ...}"
        )
    if "structures" in root.value:
        return legacy_tags(root, around)
    root.check_fields(("format",), ("type",))
    return around.read(root.inside("format"))


@dataclass(frozen=True)
class StructuralTag(DescribedByLanguage):
    """Allow only texts that a structural tag describes.

    Args:
        document: The structural tag: a dict, or JSON text. It has `"type": "structural_tag"` and a `format`, or in the older form
            `structures` and `triggers`.
        vocabulary: The tokens. Where the document names a token by text, it is the special token of that name, or else the token
            with that text.
        whitespace: The white space in JSON texts, `"bounded"`, `"spaced"` or `"compact"`, as in `JsonSchema`.
        closing: Whether the text must be complete before generation is cut off, as in `JsonSchema`.
        max_depth: The maximum number of open brackets in recursive parts of a schema, the outermost one not counted.
        limits: Bounds on the cost of compiling.

    Raises:
        ConfigurationError: The document is not a structural tag, or holds something that is not supported; the message has its
            path. Or no text belongs to it, or the tokens cannot spell any.
        GrammarError: A grammar is not valid.
        PatternSyntaxError: A pattern is not valid.
        PatternTooLarge: The automaton would exceed a limit.
        UnsupportedSchema: A schema in it cannot be enforced exactly.
        VocabularyError: The vocabulary has no EOS id, or lacks a token that the document names.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> vocabulary = lk.Vocabulary([b"<b>", b"</b>", b"x", None], eos_ids=[3])
        >>> bold = {"type": "tag", "begin": "<b>", "content": {"type": "any_text"}, "end": "</b>"}
        >>> tag = lk.StructuralTag({"type": "structural_tag", "format": bold}, vocabulary)
        >>> context = lk.Context.of([[]], vocabulary_size=4)
        >>> tag.process_logits(tag.init_state(context), torch.zeros(1, 4), context)[1]
        tensor([[0., -inf, -inf, -inf]])

    Source: the format of XGrammar, https://xgrammar.mlc.ai/docs/.
    """

    kind = Kind(
        "structural_tag",
        {
            "document": StructuralTagForm(),
            "whitespace": Word(get_args(Whitespace)),
            "closing": Either((Integer(1, note="; the number of tokens"), Boolean())),
            "max_depth": Integer(1, 1024),
        },
        main="document",
        order=130,
        wrapped=True,
    )

    described_as: ClassVar[str] = "the structural tag"

    document: Any = field(compare=False)
    vocabulary: Vocabulary
    whitespace: Whitespace = field(default="bounded", kw_only=True)
    closing: bool | int = field(default=False, kw_only=True)
    max_depth: int = field(default=32, kw_only=True)
    limits: Limits = field(default=LANGUAGE_LIMITS, kw_only=True)
    content: str = field(init=False, repr=False)
    language: Language = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_limits(self.limits)
        super().__post_init__()
        object.__setattr__(self, "document", plain_document(self.document))
        object.__setattr__(self, "content", key_of(self.document))
        object.__setattr__(self, "language", _language_of(self.document, self.whitespace))
        self._compile_language()


def from_structural_tag(
    document: object,
    vocabulary: Vocabulary,
    *,
    whitespace: Whitespace = "bounded",
    closing: bool | int = False,
    max_depth: int = 32,
    limits: Limits = LANGUAGE_LIMITS,
) -> StructuralTag:
    """Build a constraint from a structural tag, the JSON document that XGrammar, vLLM and SGLang accept.

    Args:
        document: The structural tag: a dict, or JSON text. A schema in a dict may be a Python type, as in `JsonSchema`.
        vocabulary: The tokens.
        whitespace: The white space in JSON texts, `"bounded"`, `"spaced"` or `"compact"`, as in `JsonSchema`.
        closing: Whether the text must be complete before generation is cut off, as in `JsonSchema`.
        max_depth: The maximum number of open brackets in recursive parts of a schema, the outermost one not counted.
        limits: Bounds on the cost of compiling.

    Returns:
        A processor, which `to_config` writes back.

    Raises:
        ConfigurationError: The document is not a structural tag, or holds something that is not supported; the message has its
            path. Or no text belongs to it, or the tokens cannot spell any.
        GrammarError: A grammar is not valid.
        PatternSyntaxError: A pattern is not valid.
        PatternTooLarge: The automaton would exceed a limit.
        UnsupportedSchema: A schema in it cannot be enforced exactly.
        VocabularyError: The vocabulary has no EOS id, or lacks a token that the document names.

    Example:
        >>> import logitkit as lk
        >>> vocabulary = lk.Vocabulary([b"y", b"n", None], eos_ids=[2])
        >>> document = {"type": "structural_tag", "format": {"type": "regex", "pattern": "[yn]+"}}
        >>> lk.to_config(lk.from_structural_tag(document, vocabulary))
        {'structural_tag': {'type': 'structural_tag', 'format': {'type': 'regex', 'pattern': '[yn]+'}}}
        >>> document["format"] = {"type": "optional", "content": {"type": "peg", "grammar": "root <- x"}}
        >>> lk.from_structural_tag(document, vocabulary)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        logitkit.errors.ConfigurationError: format.content: the type 'peg' is not supported; allowed are const_string, ...
    """
    return StructuralTag(
        document, vocabulary, whitespace=whitespace, closing=closing, max_depth=max_depth, limits=limits
    )
