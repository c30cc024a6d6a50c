"""Which environment an engine gets where several have a say."""

from __future__ import annotations

from llmgw_agent.disk import FileDisk
from llmgw_agent.launch import Launcher
from llmgw_agent.logs import Logs
from llmgw_core.node.state import Record
from llmgw_core.plugins import PluginHost
from llmgw_core.spec import Command, Launch
from llmgw_core.testing.samples import profile, shard


def test_the_chosen_fabric_is_not_for_a_profile_or_a_plugin_to_override() -> None:
    launcher = Launcher(PluginHost.of(), Logs(FileDisk(), "/state"), "/state", {"PATH": "/bin"})
    operators = {"NCCL_IB_HCA": "=mlx5_9:1", "NCCL_DEBUG": "INFO"}
    record = Record(shard(profile=profile(env=operators)), "run", "Pending", 0.0, "boot", "token")
    # Engine plugins repeat the profile's variables in their commands.
    command = Command(name="engine", argv=("x",), env=operators)
    launch = Launch(
        binary=("x",),
        version="1",
        fabric_env={"NCCL_IB_HCA": "=mlx5_0:1"},
        work_dir="/work",
        log_dir="/log",
    )
    environment = launcher.environment(record, command, launch)
    assert environment["NCCL_IB_HCA"] == "=mlx5_0:1"
    assert environment["NCCL_DEBUG"] == "INFO"
