"""Read the texts in the tests of other projects' parsers, and let those tests judge the calls.

`python -m tests.tools.parser_tests --vllm FOLDER --sglang FOLDER --mlx-lm FOLDER --transformers FOLDER --templates FOLDER...`
takes checkouts of these projects, and folders of chat templates. It runs the projects' own tests, with `Tools.parse` and
`Tools.stream` in place of their parsers, so each assertion about calls is checked as its authors wrote it. No text and no call is
copied.

- `parser_formats`: which of our formats reads what a parser reads.
- `readings`: how a text is read, whole and in random pieces.
- `watching`: what the test in progress reads.
- `records`, `stand_in_parsers`, `stand_in_modules`: what stands in for the modules of vLLM, SGLang and mlx-lm.
- `suites`: where each project keeps its tests.
- `watched_responses`: reads beside transformers what its tests of response templates read.
- `judging`: runs the tests in a process of their own, and says what each of them found.
- `__main__`: prints the table, and each difference.
"""
