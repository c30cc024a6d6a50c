"""What the GPUs of a shard must be able to do, by what the agent found."""

from __future__ import annotations

from llmgw_core.spec import Gpu, Launch, Profile, Unsupported

__all__ = ["check_gpus"]

Capability = tuple[int, int]

_FP8: Capability = (8, 9)
_NVFP4: Capability = (10, 0)


def check_gpus(profile: Profile, launch: Launch) -> None:
    """Raise Unsupported for mixed types in a tensor-parallel group, and for numbers that no GPU of it has."""
    _check_types(profile, launch.gpu_facts)
    for field, name in (("quantization", profile.quantization), ("kv_cache_dtype", profile.kv_cache_dtype)):
        needed = _needed(name or "")
        for gpu in launch.gpu_facts if needed else ():
            had = _capability(gpu)
            # A capability that the driver did not report is not held against the GPU.
            if needed and had and had < needed:
                reason = (
                    f"{name} needs compute capability {_shown(needed)}, GPU {gpu.index} has {_shown(had)}"
                )
                raise Unsupported(field, f"{reason} ({gpu.name or gpu.gpu_class or gpu.uuid})")


def _check_types(profile: Profile, gpus: tuple[Gpu, ...]) -> None:
    types = sorted({gpu.gpu_class or gpu.name for gpu in gpus} - {""})
    if profile.tensor_parallel > 1 and len(types) > 1:
        raise Unsupported("gpu_class", f"a tensor-parallel group cannot mix {' and '.join(types)}")


def _needed(name: str) -> Capability | None:
    if "nvfp4" in name or name == "modelopt_fp4":
        return _NVFP4
    return _FP8 if "fp8" in name or name == "modelopt" else None


def _capability(gpu: Gpu) -> Capability | None:
    major, _, minor = (gpu.compute_capability or "").partition(".")
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else None


def _shown(capability: Capability) -> str:
    return f"{capability[0]}.{capability[1]}"
