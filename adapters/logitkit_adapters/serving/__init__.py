"""Structured output in the servers of engines: `logitkit serve ENGINE ARGS...` starts the server that the engine ships.

A request with `response_format`, `tools`, `stop` or `logitkit` passes these steps; every other request is the engine's alone.

refusals       errors, as OpenAI's clients read them
requests       the body of a request becomes a configuration, tools and stops (response_formats, tool_choices)
admission      the configuration is checked and compiled in other processes, by `logitkit_adapters.admission`
served_model   the vocabulary, the format of calls and the admission of a model
answer_reader  generated tokens become OpenAI's deltas: text before a stop, reasoning, calls of tools
messages       deltas together are a message
http_bodies    bodies are limited
middleware     these steps in front of an ASGI server
guarded_hook   an error in a processor ends its own row only

mlx_lm_server, mlx_lm_models, mlx_lm_answer       the server of mlx-lm
llama_cpp_server                                  the server of llama-cpp-python
transformers_server, transformers_generation      the server of transformers
"""
