"""Formats of tool calls from response templates of transformers, which say how a response is parsed.

document       a response template as data, checked
anchors        what opens and closes fields: texts, and patterns that are read and never run (matching)
call_ends      the texts at which calls and texts end, and which they must not contain
call_shape     where the name and the arguments of a call stand
candidates     the formats that come into question
parsing        parses a response as transformers does
proof          proves that a format is read as it was written
from_template  takes all of these steps, and keeps results
"""

from logitkit.tools.response_templates.from_template import format_of_response_template as format_of_response_template
from logitkit.tools.response_templates.from_template import response_template_of as response_template_of

__all__ = ["format_of_response_template", "response_template_of"]
