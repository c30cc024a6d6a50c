"""NVIDIA GPUs through `nvidia-smi`, as a plugin like any other: no compiled dependency, one query call."""

from __future__ import annotations

import re

from llmgw_core.spec import HOOK_API, Gpu, HostView, PluginInfo, Reason, hookimpl

_FIELDS = ("index", "uuid", "pci.bus_id", "name", "memory.total", "compute_cap")
_QUERY = ("nvidia-smi", f"--query-gpu={','.join(_FIELDS)}", "--format=csv,noheader,nounits")
_TIME_LIMIT = 20.0
"""Seconds; a wedged GPU makes the query hang for ever."""
_VENDOR = re.compile(r"\b(NVIDIA|GeForce|Tesla|Quadro|Generation)\b")
_FORM_FACTOR = re.compile(r"\b(SXM\d?|PCI[eE]?|HBM\d\w*|\d+\s?GB)\b")


@hookimpl
def llmgw_plugin_info() -> PluginInfo:
    """Say who the plugin is."""
    return PluginInfo(name="nvidia", kind="accelerator", api=HOOK_API, summary="NVIDIA GPUs by nvidia-smi")


@hookimpl
def llmgw_accelerator_discover(host: HostView) -> tuple[Gpu, ...]:
    """List the GPUs of the node. Raises RuntimeError when there is a driver that does not answer."""
    answer = host.run(_QUERY, _TIME_LIMIT)
    if answer is None:
        return ()
    if answer.timed_out:
        raise RuntimeError(f"nvidia-smi did not answer within {_TIME_LIMIT:.0f} s")
    lines = [line for line in answer.stdout.splitlines() if line.strip()]
    if answer.code != 0:
        raise RuntimeError(_first(answer.stdout, answer.stderr) or f"nvidia-smi exited with {answer.code}")
    if lines and lines[0].startswith("No devices"):
        return ()
    return tuple(_gpu(line) for line in lines)


def gpu_class(name: str, memory_mib: int) -> str | None:
    """`<short name>-<memory>g`, the memory in GiB as the driver reports it; None when it reports none."""
    short = _FORM_FACTOR.sub(" ", _VENDOR.sub(" ", name.replace("-", " ")))
    short = re.sub(r"[^a-z0-9]", "", short.lower())
    return f"{short}-{round(memory_mib / 1024)}g" if short and memory_mib else None


def _gpu(line: str) -> Gpu:
    values = [value.strip() for value in line.split(",")]
    if len(values) != len(_FIELDS) or not values[0].isdigit():
        raise RuntimeError(f"nvidia-smi answered a line that is not understood: {line[:200]}")
    index, uuid, pci, name, memory, capability = values
    memory_mib = int(memory) if memory.isdigit() else 0
    kind = gpu_class(name, memory_mib)
    reasons = () if kind else (Reason(code="no_class", text=f"memory reads {memory!r}"),)
    return Gpu(
        index=int(index),
        uuid=uuid,
        pci=pci,
        name=name,
        gpu_class=kind,
        memory_mib=memory_mib,
        compute_capability=capability if re.fullmatch(r"\d+\.\d+", capability) else None,
        usable=not reasons,
        reasons=reasons,
    )


def _first(*outputs: str) -> str:
    return next((line.strip() for output in outputs for line in output.splitlines() if line.strip()), "")
