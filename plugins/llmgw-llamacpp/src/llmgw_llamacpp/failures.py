"""Which lines of llama.cpp's log mean which class of failure.

llama-server exits 1 for everything, so only its words tell. Every pattern without a note was seen with
build 11549; order matters, because the last lines always end in the general "failed to load model".
"""

from __future__ import annotations

from llmgw_core.spec import FailureClass, FailurePattern


def _pattern(pattern: str, failure: FailureClass, hint: str) -> FailurePattern:
    return FailurePattern(pattern=pattern, failure=failure, hint=hint)


_MEMORY = "give the profile more memory or another GPU class, or lower max_model_len or engine_args.parallel"

PATTERNS: tuple[FailurePattern, ...] = (
    _pattern(
        r"couldn't bind HTTP server socket|exiting due to HTTP server error",
        "port_in_use",
        "another process listens on the port; look with: ss -ltnp",
    ),
    _pattern(
        # `cudaMalloc failed` and `ErrorOutOfDeviceMemory` are from the sources of the GPU backends, not seen.
        r"insufficient memory \(attempted to allocate|failed to allocate \S+ buffer of size"
        r"|failed to allocate buffer for kv cache|cudaMalloc failed: out of memory"
        r"|ErrorOutOfDeviceMemory|std::bad_alloc",
        "out_of_memory",
        _MEMORY,
    ),
    _pattern(
        r"error: invalid argument: ",
        "configuration",
        "this llama-server does not know the flag; correct engine_args, or use another llama-server",
    ),
    _pattern(
        r"error while handling (?:argument|environment variable) ",
        "configuration",
        "the value does not fit the flag; correct engine_args or env",
    ),
    _pattern(
        r"error: xllamacpp ",
        "configuration",
        'install the embedded llama.cpp: pip install "llmgw-llamacpp[embedded]"',
    ),
    _pattern(
        r"failed to open GGUF file .*\(No such file or directory\)",
        "configuration",
        "the model's source is not a file on this node; correct the path or copy the file there",
    ),
    _pattern(
        r"failed to open GGUF file ",
        "configuration",
        "the agent may not read the model's file; correct its permissions",
    ),
    _pattern(
        r"invalid magic characters|failed to read magic",
        "configuration",
        "the model's source is not a GGUF file; llama.cpp reads nothing else",
    ),
    _pattern(
        r"data is not within the file bounds|failed to read key-value pairs|failed to read tensor info",
        "configuration",
        "the GGUF file is cut off or damaged; copy it again and compare the checksum",
    ),
    _pattern(
        r"unknown model architecture|this GGUF file is version \d+",
        "configuration",
        "this llama.cpp is too old for the model, or cannot run it; use a newer one",
    ),
    _pattern(
        r"error loading model: |exiting due to model loading error",
        "configuration",
        "llama.cpp cannot load this file; its last lines say why",
    ),
)
