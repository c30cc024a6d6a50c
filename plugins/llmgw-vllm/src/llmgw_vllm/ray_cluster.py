"""A Ray cluster of one replica: a head beside the leader's server, and a join on every other node.

Everybody who reaches a Ray head may run programs on its nodes, and Ray listens on every interface, whatever
address it is given (seen with 2.60.0). Each cluster therefore asks for a token (Ray 2.52 and newer; older
ones ignore the variables) and has no dashboard.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

from llmgw_core.spec import Command, Launch, Shard, WaitFor

from llmgw_vllm.topology import rendezvous_port

__all__ = ["at_head", "head", "join"]


def head(shard: Shard, launch: Launch, env: Mapping[str, str]) -> Command:
    """The sidecar of the leader."""
    flags = ("--head", f"--port={rendezvous_port(shard)}", "--include-dashboard=false")
    command = Command(
        name="ray", argv=(*_ray(launch), *flags, *_node(shard)), env=env, grace=shard.timeouts.kill
    )
    return _with_token(command, launch)


def join(shard: Shard, launch: Launch, env: Mapping[str, str]) -> Command:
    """All that a worker runs: vLLM sends it the rest through Ray."""
    command = Command(
        name="engine",
        argv=(*_ray(launch), f"--address={_head_address(shard)}", *_node(shard)),
        env=env,
        wait_for=WaitFor(host=shard.leader_address, port=rendezvous_port(shard), timeout=shard.timeouts.load),
        grace=shard.timeouts.kill,
    )
    return _with_token(command, launch)


def at_head(server: Command, shard: Shard, launch: Launch) -> Command:
    """The server's command, started when the head listens, and working through it."""
    command = Command(
        name=server.name,
        argv=server.argv,
        env={**server.env, "RAY_ADDRESS": _head_address(shard)},
        secret_env=server.secret_env,
        wait_for=WaitFor(host=shard.address, port=rendezvous_port(shard), timeout=shard.timeouts.wait),
        grace=server.grace,
    )
    return _with_token(command, launch)


def _with_token(command: Command, launch: Launch) -> Command:
    if launch.key is None:
        return command
    return Command(
        name=command.name,
        argv=command.argv,
        env={**command.env, "RAY_AUTH_MODE": "token"},
        secret_env={**command.secret_env, "RAY_AUTH_TOKEN": launch.key},
        wait_for=command.wait_for,
        grace=command.grace,
    )


def _ray(launch: Launch) -> tuple[str, ...]:
    """`ray start` of the environment that vLLM is in: another one's Ray could not talk to it."""
    *prefix, program = launch.binary
    return (*prefix, str(PurePath(program).with_name("ray")), "start")


def _node(shard: Shard) -> tuple[str, ...]:
    return (
        f"--node-ip-address={shard.address}",
        f"--num-cpus={shard.profile.cpus}",
        f"--num-gpus={shard.profile.gpus_per_node}",
        "--disable-usage-stats",
        "--block",
    )


def _head_address(shard: Shard) -> str:
    host = f"[{shard.leader_address}]" if ":" in shard.leader_address else shard.leader_address
    return f"{host}:{rendezvous_port(shard)}"
