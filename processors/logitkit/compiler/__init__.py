"""From a syntax tree to a small table over tokens.

`logitkit.patterns` parses a pattern; the result here is a `TokenAutomaton`, run by `logitkit.runtime`.

characters/       automata over characters: positions, subset construction, minimization, lookarounds
bytes/            automata over bytes: UTF-8, concatenation, search for texts
tokens/           automata over tokens: token classes, dead ends, intersection, stacks
language          from a pattern to an automaton over bytes
nested_grammars/  the same for rules that call each other, such as a recursive JSON Schema
grammars/         the same for the rules of a context-free grammar
text_language     sets of texts with their operations, for JSON Schema; listed_texts where these are few
bounded_cache     a cache that is bounded in bytes
collection        pauses cyclic garbage collection while automata are built

The words of this package, from texts to tables. `docs/machine.md` shows them at work, with the tables of one schema.

state             A position in the language, by number. 0 is dead, 1 is finished, and others are live.
frame             An open bracket on the stack of a row. Frames are the last states of an automaton: no row is ever in one.
count             How many characters of a string have been written, beside the state.
configuration     A state with its count and its stack. A row may have several if a grammar is not deterministic.
special token     A token without text, such as a tool call's `<call>`. It is a symbol of its own, like a byte.
nested grammar    Rules that call each other inside of brackets, and sets of strings. It is compiled to a `NestedDfa`.
part              The automaton of one rule, or of all rules that the same bracket may call.
mark              Says, at the end of a part, which of several rules the text belongs to.
call, end, return state   An opening bracket calls a part, and pushes a frame. The end of the part pops it. The return state is
                  where the automaton continues; it depends on the end and the frame.
string fragment   An automaton without calls that many places share, such as that of any JSON string, or of text up to a marker.
instance          The states of a fragment in one place. In `{"a": <string>, "b": <string>}`, a fragment has two instances.
override state    A state that follows a fragment and a few literal texts at once, as where `"id"` or any other name may stand.
base state        The state of the fragment which an override state follows. It does the same, but for those texts.
fallback          The state that says what a state does with tokens that its own row does not list.
token class       Tokens that do the same in every state. Tables have a column for each class, not for each token.
transition column Where a token leads from each state: a default target and exceptions.
group             Token classes that differ only in the suffixes which their tokens leave after a fragment or a marker.
token suffix      The bytes of a token after the end of a part: a comma for the token `",`. Tables name its class `rest`.
stack action      What a token does besides leading to a state: it pops a frame, then does what its suffix does; or it pushes
                  frames; or it counts.
target            The number of a state or a stack action, as tables have it.
need, height      How many frames there must be room for: to complete a text from a state; for a stack action.
cost              The least number of tokens that complete a text, from each state and frame (`tokens.completion`).
mask key          All that a mask depends on: a state, the frames that a token may pop, free frames and spare tokens.
layer             One of the targets of each state and token, if there are several. With `max_tokens`, the states after one, two
                  and more tokens.
"""
