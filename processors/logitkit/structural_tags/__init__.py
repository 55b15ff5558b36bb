"""Structural tags: the JSON form in which XGrammar, vLLM and SGLang describe free text with tags in it.

document           the values of a document, and their paths for errors
formats            one format as a language: texts, schemas, tokens, and combinations of formats
tags               tags, and free text in which triggers start tags
xml_styles         the ways in which models write arguments between tags
triggered          the language of that free text
structural_tag     StructuralTag, from_structural_tag, structural_tag_language
"""

from logitkit.structural_tags.structural_tag import StructuralTag as StructuralTag
from logitkit.structural_tags.structural_tag import from_structural_tag as from_structural_tag
from logitkit.structural_tags.structural_tag import structural_tag_language as structural_tag_language

__all__ = ["StructuralTag", "from_structural_tag", "structural_tag_language"]
