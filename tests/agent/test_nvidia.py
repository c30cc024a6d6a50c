"""NVIDIA GPUs as nvidia-smi tells of them."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import pytest
from llmgw_agent import nvidia
from llmgw_core.plugins import PluginHost
from llmgw_core.spec import CommandResult, Gpu

TABLE = Path(__file__).parents[3] / "shared" / "hardware" / "class-table.csv"
LINES = """\
0, GPU-a, 00000000:1B:00.0, NVIDIA H200, 143771, 9.0
1, GPU-b, 00000000:43:00.0, NVIDIA H200, [N/A], [N/A]
"""


@dataclass
class Smi:
    """A host whose nvidia-smi gives one answer."""

    answer: CommandResult | None

    def read_text(self, path: str) -> str | None:
        return None

    def list_dir(self, path: str) -> tuple[str, ...] | None:
        return None

    def run(self, argv: tuple[str, ...], timeout: float) -> CommandResult | None:
        return self.answer if argv[0] == "nvidia-smi" else None


def discovered(answer: CommandResult | None) -> tuple[Gpu, ...]:
    (outcome,) = PluginHost.of(nvidia).call_each("llmgw_accelerator_discover", host=Smi(answer))
    if outcome.error:
        raise outcome.error
    gpus: tuple[Gpu, ...] = outcome.value
    return gpus


def test_gpus_are_listed_with_class_and_capability() -> None:
    first, _ = discovered(CommandResult(code=0, stdout=LINES))
    assert (first.index, first.uuid, first.gpu_class, first.memory_mib) == (0, "GPU-a", "h200-140g", 143771)
    assert (first.compute_capability, first.usable) == ("9.0", True)


def test_a_gpu_that_tells_no_memory_is_listed_with_the_reason() -> None:
    _, second = discovered(CommandResult(code=0, stdout=LINES))
    assert (second.gpu_class, second.compute_capability, second.usable) == (None, None, False)
    assert [reason.code for reason in second.reasons] == ["no_class"]


@pytest.mark.parametrize("answer", (None, CommandResult(code=0, stdout="No devices were found\n")))
def test_a_machine_without_gpus_has_none(answer: CommandResult | None) -> None:
    assert discovered(answer) == ()


@pytest.mark.parametrize(
    ("answer", "words"),
    (
        (CommandResult(code=-9, timed_out=True), "did not answer within 20 s"),
        (
            CommandResult(code=9, stdout="NVIDIA-SMI has failed because\nmore"),
            "NVIDIA-SMI has failed because",
        ),
        (CommandResult(code=0, stdout="garbage"), "not understood: garbage"),
    ),
)
def test_a_driver_that_does_not_answer_is_an_error_in_words(answer: CommandResult, words: str) -> None:
    with pytest.raises(Exception, match=words):
        discovered(answer)


@pytest.mark.skipif(not TABLE.exists(), reason="the recorded GPU classes are not beside this checkout")
def test_classes_are_those_of_the_recorded_machines() -> None:
    rows = list(csv.DictReader(TABLE.read_text().splitlines()))
    assert rows
    assert {row["name"]: nvidia.gpu_class(row["name"], int(row["memory_mib"])) for row in rows} == {
        row["name"]: row["class"] for row in rows
    }
