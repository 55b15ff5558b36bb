"""The command `logitkit`.

command                      main: parses arguments, and turns errors into one message and an exit status
demo, check, explain, serve, doctor   the commands, a file each
definitions                  the constraints that commands take as arguments, and the vocabularies to compile them for
usage                        Ctrl-C while modules are imported; arguments, their errors, and the output of commands
vllm_smoke_test              a program of its own, in which `doctor` starts vLLM
__main__                     for `python -m logitkit_adapters.cli`
"""

from logitkit_adapters.cli.command import main as main

__all__ = ["main"]
