"""Which lines of SGLang's log mean which class of failure.

A failed start ends with SIGKILL of its own tree, like that of the kernel: only the words tell. Patterns
without a note were seen with 0.5.23, the others were read in its sources. Order matters: a start that has
failed may go on to fail in other ways.
"""

from __future__ import annotations

from llmgw_core.spec import FailureClass, FailurePattern

__all__ = ["PATTERNS"]


def _pattern(pattern: str, failure: FailureClass, hint: str) -> FailurePattern:
    return FailurePattern(pattern=pattern, failure=failure, hint=hint)


_MEMORY = (
    "give the profile more memory or another GPU class, lower max_model_len, or change "
    "engine_args.mem-fraction-static"
)

PATTERNS: tuple[FailurePattern, ...] = (
    _pattern(
        # Of the HTTP port, which it notices last and dies of two minutes later, and of the rendezvous.
        r"error while attempting to bind on address .*address already in use"
        r"|server socket has failed to listen on any local network address.*EADDRINUSE"
        # Not seen: ports beside the rendezvous.
        r"|_port at \d+ is not available",
        "port_in_use",
        "another process listens on the port; look with: ss -ltnp",
    ),
    _pattern(
        # Not seen on a GPU: what torch says, and SGLang's own sentence when nothing is left for the cache.
        r"CUDA out of memory|OutOfMemoryError|Not enough memory\. Please try to increase"
        r"|DefaultCPUAllocator: can't allocate memory",
        "out_of_memory",
        _MEMORY,
    ),
    _pattern(
        r"error: unrecognized arguments: ",
        "configuration",
        "this SGLang does not know the flag; correct engine_args, or use another SGLang",
    ),
    _pattern(
        r"sglang serve: error: |launch_server\.py: error: ",
        "configuration",
        "the value does not fit the flag; correct the profile or its engine_args",
    ),
    _pattern(
        r"OSError: Repo id must be in the form|does not appear to have a file named config\.json",
        "configuration",
        "the model's source is not a directory on this node; correct the path or copy the model there",
    ),
    _pattern(
        r"Unrecognized model in |Model architectures .* are not supported",
        "configuration",
        "this SGLang does not know the model: its config.json is missing or of a newer kind",
    ),
    _pattern(
        r"Error while deserializing header|SafetensorError: ",
        "configuration",
        "a file of the weights is cut off or damaged; copy it again and compare the checksum",
    ),
    _pattern(
        # Not seen: the words of transformers.
        r"trust_remote_code=True|Please pass the argument `trust_remote_code",
        "configuration",
        "the model brings its own code: set allow_remote_code: true and engine_args.trust-remote-code",
    ),
    _pattern(
        # Not seen: what torch and NCCL say of ranks that do not meet, or lose each other while they start.
        r"DistStoreError: |DistNetworkError: |DistBackendError: |NCCL error",
        "rendezvous",
        "the ranks do not reach each other; look at the logs of the others and at the firewall between nodes",
    ),
)
