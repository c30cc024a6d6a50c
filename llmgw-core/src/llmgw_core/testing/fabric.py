"""The rules of a fabric plugin, as tests to subclass: recorded machines in, the expected ports out.

    class TestMine(FabricTests):
        plugin = my_plugin
        name = "my-plugin"
        recordings = (FabricRecording("two ports", TreeHost({...}), (FabricPort(...), ...)),)

`docs/fabric.md` says why each rule is there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from llmgw_core.spec import FabricPort, HostView, Launch
from llmgw_core.testing.hosts import AskedTooMuch, TreeHost
from llmgw_core.testing.rules import PluginTests
from llmgw_core.testing.watch import watched

__all__ = ["GARBAGE", "REASONS", "FabricRecording", "FabricTests"]

REASONS = frozenset({"down", "not_a_rail", "excluded", "no_gid", "unreadable", "other_link_layer"})
"""The codes that a port's reasons may bear."""
GARBAGE = (
    "",
    "\n\n",
    "?",
    "-1",
    "²: ٣",
    "\x00\ufffd",
    "9" * 400,
    "4: ACTIVE\n1: DOWN\n",
    "0x",
    "fe80::1",
    "nan Gb/sec",
    "10.0.0.0/99",
    "a,b=c^d",
    "word " * 2000,
)
"""What a file may hold that is broken, or belongs to another driver."""
_INTERFACE = "eth0"
_LAUNCH = Launch(binary=("engine",), version="1", interface=_INTERFACE, work_dir="/work", log_dir="/log")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]+")


@dataclass(frozen=True)
class FabricRecording:
    """A machine as it was recorded, and the ports that a plugin has to find on it, in its order."""

    name: str
    host: TreeHost
    ports: tuple[FabricPort, ...]


class FabricTests(PluginTests):
    """Subclass it, set `plugin`, `name` and `recordings`, and pytest runs every rule against your plugin."""

    kind = "fabric"
    recordings: tuple[FabricRecording, ...]
    time_limit: float = 20.0
    """Seconds that the commands of one discovery may take together, should each hang."""

    def test_it_sees_the_machine_only_through_the_host(self) -> None:
        """Only then can a recording stand in for a machine."""
        for recording in self._recorded():
            self._discover(recording.host)  # once before: what is imported late is read from files
            with watched() as seen:
                self._discover(recording.host)
                self._environments(recording)
            assert not seen, f"{recording.name}: it did {', '.join(seen[:3])}"

    def test_recordings_give_the_expected_ports(self) -> None:
        """The ports of a machine that somebody has looked at by hand."""
        for recording in self._recorded():
            found = self._discover(recording.host)
            assert found == recording.ports, f"{recording.name}: other ports than expected"

    def test_it_says_the_same_twice(self) -> None:
        """A report is sent when something has changed: an answer that wavers is sent for ever."""
        for recording in self._recorded():
            turned = replace(recording.host, files=dict(reversed(tuple(recording.host.files.items()))))
            found = [self._discover(host) for host in (recording.host, recording.host, turned)]
            assert found[0] == found[1] == found[2], f"{recording.name}: the answers differ"
            environments = [self._environments(recording) for _ in range(2)]
            assert environments[0] == environments[1], f"{recording.name}: the environments differ"

    def test_a_machine_without_adapters_has_no_ports(self) -> None:
        """Most machines have none; that is no error, they are islands."""
        empty = TreeHost({"/sys/class/net/lo/type": "772\n", "/proc/meminfo": "MemTotal: 1 kB\n"})
        for name, host in (("nothing at all", TreeHost()), ("no adapter", empty)):
            assert self._discover(host) == (), f"{name}: there are ports"

    def test_missing_files_do_not_matter(self) -> None:
        """An adapter may vanish between listing and reading; drivers differ in the files that they have."""
        self._survives("without", lambda host, path: host.without(path))

    def test_unreadable_files_do_not_matter(self) -> None:
        """Reading fails with EINVAL for unused table entries, with EACCES in containers."""
        self._survives("unreadable:", lambda host, path: host.with_texts({path: None}))
        for recording in self._recorded():
            self._sound(recording.host.unreadable(), f"{recording.name}, nothing readable")
            for directory in recording.host.directories:
                self._sound(recording.host.hiding(directory), f"{recording.name}, {directory} not listed")

    def test_garbled_files_do_not_matter(self) -> None:
        """What a file holds is another driver's business, or that of a later kernel."""
        for recording in self._recorded():
            kinds = sorted({_kind(path) for path in recording.host.files})
            for kind, garbage in product(kinds, GARBAGE):
                garbled = {path: garbage for path in recording.host.files if _kind(path) == kind}
                host = recording.host.with_texts(garbled)
                self._sound(host, f"{recording.name}, {garbage[:20]!r} in every {kind}")
            for directory in recording.host.directories:
                strange = recording.host.with_texts({f"{directory.rstrip('/')}/²a,b=": "?"})
                self._sound(strange, f"{recording.name}, a strange name in {directory}")
        self._survives("half of", lambda host, path: host.with_texts({path: _half(host.files[path])}))

    def test_every_port_is_sound(self) -> None:
        """Listed once, usable exactly when there is no reason against it, each reason with a known code."""
        for recording in self._recorded():
            self._sound(recording.host, recording.name)

    def test_it_ends_within_its_time_limit(self) -> None:
        """A command may hang for ever, and the node has no report before discovery has ended."""
        for recording in self._recorded():
            for host in (recording.host.hanging(), recording.host.unreadable().hanging()):
                self._sound(host, f"{recording.name}, every command hangs")
                total = sum(host.waited)
                assert total <= self.time_limit, f"{recording.name}: it waits {total:g} s for commands"

    def test_no_ports_need_no_environment(self) -> None:
        """A replica that uses no fabric is not touched by it."""
        assert dict(self._environment(())) == {}, "there are variables without a port"

    def test_the_environment_names_exactly_the_ports(self) -> None:
        """Left open, the library may take an adapter whose peer cannot be reached, and hang."""
        for recording in self._recorded():
            devices = {port.device for port in recording.ports}
            for ports, env in self._environments(recording):
                text = "\n".join(env.values())
                named = {device for device in devices if _names(text, device)}
                wanted = {port.device for port in ports}
                assert named == wanted, f"{recording.name}: {sorted(wanted)} chosen, {sorted(named)} named"

    def test_the_environment_is_in_the_form_that_libraries_read(self) -> None:
        """NCCL takes a name without `=` for a prefix; Gloo dies of anything but one exact name."""
        for recording in self._recorded():
            for ports, env in self._environments(recording):
                exact = "=" + ",".join(f"{port.device}:{port.port}" for port in ports)
                hcas = env.get("NCCL_IB_HCA")
                assert hcas in {None, exact}, f"{recording.name}: NCCL_IB_HCA is {hcas}, not {exact}"
                for name in ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"):
                    value = env.get(name, _INTERFACE)
                    assert _PLAIN_NAME.fullmatch(value), f"{recording.name}: {name} is {value!r}"

    def _recorded(self) -> tuple[FabricRecording, ...]:
        assert self.recordings, "there are no recordings, so nothing was tried"
        return self.recordings

    def _discover(self, host: HostView) -> tuple[FabricPort, ...]:
        try:
            ports: tuple[FabricPort, ...] = self._plugins.call_one(
                self.name, "llmgw_fabric_discover", host=host
            )
        except AskedTooMuch as error:
            raise AssertionError(f"it does not come to an end: {error}") from None
        return ports

    def _environment(self, ports: tuple[FabricPort, ...]) -> Mapping[str, str]:
        env: Mapping[str, str] = self._plugins.call_one(
            self.name, "llmgw_fabric_env", ports=ports, launch=_LAUNCH
        )
        return env

    def _environments(
        self, recording: FabricRecording
    ) -> list[tuple[tuple[FabricPort, ...], Mapping[str, str]]]:
        """What is given for every usable port alone, and for all of them that are of one kind and fabric."""
        usable = [port for port in recording.ports if port.usable]
        kinds = sorted({(port.link_layer, port.fabric or "") for port in usable})
        together = [
            tuple(port for port in usable if (port.link_layer, port.fabric or "") == kind) for kind in kinds
        ]
        return [(ports, self._environment(ports)) for ports in (*((port,) for port in usable), *together)]

    def _survives(self, what: str, change: Any) -> None:
        for recording in self._recorded():
            for path in recording.host.files:
                self._sound(change(recording.host, path), f"{recording.name}, {what} {path}")

    def _sound(self, host: TreeHost, where: str) -> None:
        try:
            ports = self._discover(host)
        except Exception as error:
            raise AssertionError(f"{where}: {error}") from error
        for fault in _faults(ports):
            raise AssertionError(f"{where}: {fault}")


def _faults(ports: tuple[FabricPort, ...]) -> Iterator[str]:
    """What is wrong with a list of ports by itself."""
    often = [key for key, count in Counter((port.device, port.port) for port in ports).items() if count > 1]
    if often:
        yield f"{often[0][0]}:{often[0][1]} is listed more than once"
    for port in ports:
        if fault := _fault(port):
            yield f"{port.device}:{port.port} {fault}"


def _fault(port: FabricPort) -> str | None:
    codes = {reason.code for reason in port.reasons}
    if port.usable == bool(codes):
        return "is usable in spite of its reasons" if port.usable else "is not usable and gives no reason"
    if strange := codes - REASONS:
        return f"gives a reason that nobody knows: {', '.join(sorted(strange))}"
    if port.usable and not port.active:
        return "is usable and not active"
    if (port.fabric is None) != (port.fabric_strength is None):
        return "has a fabric without a strength, or a strength without a fabric"
    if port.fabric_strength == "label":
        return "says `label`, which is the operator's word alone"
    return None


def _names(text: str, device: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(device)}(?![\w.-])", text) is not None


def _kind(path: str) -> str:
    """What a file tells, like `gids` for every entry of that table."""
    directory, _, name = path.rpartition("/")
    return directory.rpartition("/")[2] if name.isdigit() else name


def _half(text: str | None) -> str:
    return (text or "")[: len(text or "") // 2]
