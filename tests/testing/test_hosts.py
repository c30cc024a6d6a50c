"""The recorded machine answers as a real one would."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from llmgw_core.spec import CommandResult
from llmgw_core.testing.hosts import AskedTooMuch, TreeHost, read_tree

TREE = """
format: sysfs-tree/1
files: {class/net/eth0/type: "1\\n", devices/pci0/net/eth0/mtu: "1500\\n"}
links: {class/net/eth0/device: ../../../devices/pci0, class/loop: loop}
errors: {class/net/eth0/speed: EINVAL}
"""


@pytest.fixture
def host(tmp_path: Path) -> TreeHost:
    file = tmp_path / "machine.tree.yaml"
    file.write_text(TREE)
    return read_tree(file)


def test_files_are_read_and_directories_listed(host: TreeHost) -> None:
    assert host.read_text("/sys/class/net/eth0/type") == "1\n"
    assert host.list_dir("/sys/class/net/eth0") == ("device", "speed", "type")
    assert host.list_dir("/sys/") == ("class", "devices")
    assert host.list_dir("/") == ("sys",)


def test_a_file_that_cannot_be_read_is_listed_and_has_no_text(host: TreeHost) -> None:
    assert host.read_text("/sys/class/net/eth0/speed") is None
    assert host.without("/sys/class/net/eth0/speed").list_dir("/sys/class/net/eth0") == ("device", "type")


def test_links_are_followed_and_loops_lead_nowhere(host: TreeHost) -> None:
    assert host.read_text("/sys/class/net/eth0/device/net/eth0/mtu") == "1500\n"
    assert host.list_dir("/sys/class/net/eth0/device/net") == ("eth0",)
    assert host.read_text("/sys/class/loop/a") is None


def test_what_is_not_there_is_none(host: TreeHost) -> None:
    assert host.read_text("/sys/class/net") is None
    assert host.list_dir("/sys/class/net/eth0/type") is None
    assert host.list_dir("/proc") is None
    assert host.run(("lspci",), 1.0) is None


def test_a_hidden_directory_is_listed_by_its_parent_alone(host: TreeHost) -> None:
    hidden = host.hiding("/sys/class/net/eth0")
    assert hidden.list_dir("/sys/class/net/eth0") is None
    assert hidden.list_dir("/sys/class/net") == ("eth0",)


def test_commands_answer_or_hang_up_to_their_limit() -> None:
    host = TreeHost(commands={("ibstat",): CommandResult(code=0, stdout="CA")})
    assert host.run(("ibstat",), 5.0) == CommandResult(code=0, stdout="CA")
    hanging = host.hanging()
    answer = hanging.run(("ibstat",), 5.0)
    assert answer is not None
    assert answer.timed_out
    assert (host.waited, hanging.waited) == ([], [5.0])


def test_endless_questions_come_to_an_end_that_no_plugin_can_hold() -> None:
    def endless(host: TreeHost) -> None:
        while True:
            with suppress(Exception):  # as a plugin would
                host.read_text("/x")

    with pytest.raises(AskedTooMuch, match="the last for /x"):
        endless(TreeHost())


def test_a_document_of_another_format_is_refused() -> None:
    with pytest.raises(ValueError, match="format is not sysfs-tree/1"):
        read_tree({"files": {}})
