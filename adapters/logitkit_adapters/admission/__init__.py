"""Requests to servers: their configurations are checked and compiled in other processes, within the limits of an operator.

vLLM's plugin and the servers of `logitkit serve` admit requests with it. It knows no engine and no HTTP.

asked              the configuration that a request asks for
settings           the limits that an operator sets
bans               the tokens that a constraint is compiled without, and texts that may end early because of bans
configurations, verdicts, wording    recent configurations; the verdicts on them; refusals in the words of a client
compiler, jobs, clients              compiles each configuration once, while the clients that wait take turns
fork_server, compile_process         the processes that compile, seen from the server; such a process itself
compiled           the files that they write
"""
