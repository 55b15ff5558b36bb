"""Explanations: which tokens were legal at each position of an output, and why a token was refused.

explain          runs a processor over an output, token by token; spelled turns texts into tokens
refusals         why a processor refuses a token, and at which byte
expected         names a set of characters in words
sources          which parts of a definition say what may come next: pattern_sources of a pattern, rule_sources of a grammar,
                 both found by the rule_parser
schema_sources   the keyword of a schema that refuses a byte; schema_faults and keyword_faults try keywords on open values
open_json        reads JSON text that may stop anywhere; xml_as_json turns arguments between tags into it
language_sources   the innermost parts of a language that refuse a byte, as byte_language reads them
findings         the data: Findings, Step, Effect, Refusal and Source
explanation      Explanation: findings that show themselves
reason, table  the parts of every view: the reason of a refusal in sentences, and the columns known of each token (visible_text)
text_view, rich_view, html_view    plain text, colour on terminals with rich, and HTML with the style sheet explanation.css
"""
