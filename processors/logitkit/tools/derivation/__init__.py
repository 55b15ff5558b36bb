"""Derives the format of tool calls from a chat template.

from_template   the entry: template or tokenizer to format, cached
rendering       the process that renders a template (render_process), with limits
probes          the messages that are rendered
turn_parts      where calls begin and end in a rendering (atoms), and reasoning (reasoning_markers)
segments        calls with one JSON object: renderings cut at names and arguments
tagged_calls    calls with members between tags, or with names as Python writes them (delimited_calls: as Gemma does)
derive          from renderings to a format
proof           random calls, rendered by the template, against the format
"""

from logitkit.tools.derivation.from_template import format_of_template as format_of_template

__all__ = ["format_of_template"]
