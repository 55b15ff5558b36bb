"""Explanations: which tokens were legal at each position of an output, and why a token was refused.

explain          runs a processor over an output, token by token; token_texts turns texts into tokens
refusals         why a processor refuses a token, and at which byte
expected         names a set of characters in words
sources          which parts of a definition say what may come next: pattern_sources of a pattern, rule_sources of a grammar,
                 both found by a parser
schema_sources   the keyword of a schema that refuses a byte; keyword_faults tries keywords on open values
open_json        reads JSON text, or arguments between tags, that may stop anywhere
language_sources   the innermost parts of a language that refuse a byte, as pattern_sources reads them
findings         the data: Findings, Step, Effect, Refusal and Source
explanation      Explanation: findings that show themselves
reason           the reason of a refusal in sentences, a part of every view; token_texts shows texts of tokens
text_view, rich_view, html_view    plain text, colour on terminals with rich, and HTML with the style sheet explanation.css
"""
