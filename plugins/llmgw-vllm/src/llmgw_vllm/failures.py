"""Which lines of vLLM's log mean which class of failure.

Its exit code is no help: 2 for its own command line, 1 for nearly everything else, 0 even after it lost a
rank. Every pattern without a note was seen with 0.32.0 on CPUs. What ended the engine's own process stands
some 10 KiB above the end of the log, before the traces of the processes around it.
"""

from __future__ import annotations

from llmgw_core.spec import FailureClass, FailurePattern

__all__ = ["PATTERNS"]


def _pattern(pattern: str, failure: FailureClass, hint: str) -> FailurePattern:
    return FailurePattern(pattern=pattern, failure=failure, hint=hint)


_MEMORY = (
    "give the profile more GPUs or another GPU class, or lower max_model_len or engine_args.max-num-seqs"
)

PATTERNS: tuple[FailurePattern, ...] = (
    _pattern(
        r"vllm(?: serve)?: error: unrecognized arguments: ",
        "configuration",
        "this vLLM does not know the flag; correct engine_args, or use another release of vLLM",
    ),
    _pattern(
        r"vllm(?: serve)?: error: argument ",
        "configuration",
        "the value does not fit the flag; correct engine_args or the profile's field",
    ),
    _pattern(
        r"llmgw's key guard found no key|No module named 'llmgw_vllm_guard'",
        "agent",
        "vLLM could not load llmgw's key guard and must not run without it; report it, with these lines",
    ),
    _pattern(
        r"\[Errno 98\] [Aa]ddress already in use",
        "port_in_use",
        "another process listens on the port; look with: ss -ltnp",
    ),
    _pattern(
        r"Repo id must be in the form|Invalid repository ID or local directory specified",
        "configuration",
        "the model's source is not a directory with a model on this node; correct the path or copy it there",
    ),
    _pattern(
        r"User-specified max_model_len \(\d+\) is greater than the derived max_model_len",
        "configuration",
        "the model was not made for so long a context; lower max_model_len",
    ),
    _pattern(
        # Read in the sources of 0.32.0, not seen.
        r"consider setting `trust_remote_code=True`",
        "configuration",
        "the model brings Python code of its own; read it, then set allow_remote_code: true and "
        "engine_args.trust-remote-code: true",
    ),
    _pattern(
        # CUDA's and torch's words, and those of vLLM 0.32.0's sources for memory that others hold; not seen.
        r"CUDA out of memory|OutOfMemoryError|CUBLAS_STATUS_ALLOC_FAILED"
        r"|is less than desired GPU memory utilization",
        "out_of_memory",
        _MEMORY,
    ),
    _pattern(
        # Read in the sources of 0.32.0, not seen: weights fit, and nothing is left for requests.
        r"No available memory for the cache blocks|KV cache is needed, which is larger than the available",
        "out_of_memory",
        _MEMORY,
    ),
    _pattern(
        r"SafetensorError: Error while deserializing header",
        "configuration",
        "the model's weights are cut off or damaged; copy them again and compare the checksums",
    ),
    _pattern(
        # The last word on whatever happened in the engine's process, so the last pattern.
        r"Engine core initialization failed\. See root cause above",
        "crash",
        "vLLM's engine did not start; the cause stands further up: llmgw ctl logs REPLICA",
    ),
)
