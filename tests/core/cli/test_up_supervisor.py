"""`llmgw up` keeps its children, takes them over, and ends them in order."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from llmgw_core.cli.up.engines import OWNER, SHARD, SPEC
from llmgw_core.cli.up.launch import say_what_ends
from llmgw_core.cli.up.layout import StateLayout
from llmgw_core.cli.up.supervisor import retry_delay

ORDER = ["agent", "gateway", "server"]


def model_row(**more: Any) -> dict[str, Any]:
    return {"name": "tiny", "state": "ready", "wanted": 1, "ready": 1, **more}


def terms(rig: Any) -> list[str]:
    return [row[0] for row in rig.journal() if row[1] == "SIGTERM"]


def test_a_first_end_is_followed_by_a_start_at_once_and_later_ones_by_growing_pauses() -> None:
    assert [retry_delay(ends) for ends in (1, 2, 3, 4, 5, 6, 7, 50)] == [0, 1, 2, 4, 8, 16, 30, 30]


def test_a_dead_child_is_started_again(rig: Any, wait_for: Any) -> None:
    rig.up()
    rig.wait_started()
    os.kill(rig.pids("gateway")[0], signal.SIGKILL)
    wait_for(lambda: len(rig.pids("gateway")) == 2, "the gateway started again")
    assert len(rig.pids("server")) == len(rig.pids("agent")) == 1


def test_a_child_that_dies_again_and_again_is_told_with_its_last_words(rig: Any, wait_for: Any) -> None:
    rig.options["server"] = ["--exit", "2"]
    rig.up()
    wait_for(lambda: len(rig.pids("server")) >= 3, "three starts")
    times = [float(row[3]) for row in rig.journal() if row[:2] == ["server", "start"]]
    assert times[2] - times[1] > 0.9
    wait_for(rig.said("ended with exit code 2: the disk is made of cheese"), "its last words")


def test_a_child_that_is_stopped_and_one_that_goes_on_are_told(rig: Any, wait_for: Any) -> None:
    rig.up()
    wait_for(rig.said("gateway         ready"), "the gateway's answer")
    os.kill(rig.pids("gateway")[0], signal.SIGSTOP)
    wait_for(
        rig.said(f"silent        does not answer any more (pid {rig.pids('gateway')[0]})"), "its silence"
    )
    os.kill(rig.pids("gateway")[0], signal.SIGCONT)
    wait_for(lambda: rig.output().read_text().count("gateway         ready") == 2, "its answer")


@pytest.mark.parametrize("number", (signal.SIGINT, signal.SIGTERM))
def test_ctrl_c_ends_agent_then_gateway_then_server_and_exits_0(
    rig: Any, wait_for: Any, number: signal.Signals
) -> None:
    process = rig.up()
    rig.wait_started()
    process.send_signal(number)
    assert process.wait(60) == 0
    assert terms(rig) == ORDER
    assert "everything stopped; bye" in rig.output().read_text()


def test_a_second_ctrl_c_asks_again_and_does_not_wait(rig: Any, wait_for: Any) -> None:
    rig.options["agent"] = ["--deaf", "1"]
    process = rig.up()
    rig.wait_started()
    process.send_signal(signal.SIGINT)
    wait_for(lambda: rig.words("agent") == ["start", "SIGTERM"], "the first TERM")
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    assert terms(rig) == ["agent", *ORDER]


def test_a_child_that_does_not_react_is_killed_after_a_second_ctrl_c(rig: Any, wait_for: Any) -> None:
    rig.options["agent"] = ["--deaf", "99"]
    process = rig.up()
    rig.wait_started()
    process.send_signal(signal.SIGINT)
    wait_for(lambda: rig.words("agent") == ["start", "SIGTERM"], "the first TERM")
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    assert "agent: does not react; killed" in rig.output().read_text()


def test_children_do_not_get_the_terminals_ctrl_c(rig: Any) -> None:
    process = rig.up()
    rig.wait_started()
    sessions = {os.getsid(rig.pids(name)[0]) for name in ORDER}
    assert len(sessions) == 3
    assert os.getsid(process.pid) not in sessions


def test_children_outlive_a_killed_supervisor_and_the_next_takes_them_over(rig: Any, wait_for: Any) -> None:
    first = rig.up()
    rig.wait_started()
    file = rig.path / "state" / "children.json"
    wait_for(lambda: len(json.loads(file.read_text())) == 3, "three rows")
    first.kill()
    first.wait()

    second = rig.up()
    wait_for(rig.said(f"taken over, pid {rig.pids('server')[0]}", 1), "the take-over")
    second.send_signal(signal.SIGINT)
    assert second.wait(60) == 0
    assert [rig.words(name) for name in ORDER] == [["start", "SIGTERM"]] * 3
    assert terms(rig) == ORDER


def test_a_child_of_another_configuration_is_replaced_and_an_agent_leaves_its_engines(
    rig: Any, wait_for: Any
) -> None:
    first = rig.up()
    rig.wait_started()
    file = rig.path / "state" / "children.json"
    wait_for(lambda: len(json.loads(file.read_text())) == 3, "three rows")
    first.kill()
    first.wait()

    rig.fingerprints = {"agent": "other", "gateway": "other"}
    rig.up()
    wait_for(lambda: len(rig.pids("agent")) == len(rig.pids("gateway")) == 2, "both replaced")
    assert rig.words("agent") == ["start", "SIGUSR1", "start"]
    assert rig.words("gateway") == ["start", "SIGTERM", "start"]
    assert rig.words("server") == ["start"]


def test_a_reused_pid_is_neither_taken_over_nor_signalled(rig: Any, wait_for: Any) -> None:
    state = rig.path / "state"
    state.mkdir()
    with subprocess.Popen(["sleep", "600"]) as stranger:
        try:
            row = {"pid": stranger.pid, "started": 1, "boot": "x", "fingerprint": "old"}
            (state / "children.json").write_text(json.dumps({"agent": row, "server": row}))
            process = rig.up()
            rig.wait_started()
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_keep_engines_leaves_them_and_says_which(rig: Any) -> None:
    rig.keep_engines = True
    engine = rig.engine()
    process = rig.up()
    rig.wait_started()
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    assert rig.words("agent") == ["start", "SIGUSR1"]
    assert f"kept: tiny (pid {engine.pid})" in rig.output().read_text()
    assert engine.poll() is None


def test_kept_engines_of_models_that_are_not_served_any_more_are_announced(rig: Any) -> None:
    engine = rig.engine("tiny")
    layout = StateLayout(rig.path / "state")
    said: list[str] = []
    say_what_ends(layout, {"tiny"}, said.append)
    assert said == []
    say_what_ends(layout, {"other"}, said.append)
    assert f"tiny (pid {engine.pid})" in said[0]
    assert "stopped now" in said[0]


def test_an_engine_that_did_not_stop_is_a_failure_that_says_how_to_stop_it(rig: Any) -> None:
    engine = rig.engine()
    process = rig.up()
    rig.wait_started()
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 1
    told = rig.output().read_text()
    assert "stopping tiny…" in told
    assert f"still running: tiny (pid {engine.pid})" in told
    assert f"kill {engine.pid}" in told
    assert "everything stopped" not in told
    assert terms(rig) == ORDER


def test_engines_of_other_state_directories_are_none_of_its_business(rig: Any, tmp_path: Path) -> None:
    rig.path = tmp_path / "other"
    rig.path.mkdir()
    foreign = rig.engine()
    rig.path = tmp_path
    process = rig.up()
    rig.wait_started()
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    assert "no engine was running" in rig.output().read_text()
    assert foreign.poll() is None


def test_ctrl_c_while_the_agent_is_down_starts_it_once_to_stop_the_engines(rig: Any, wait_for: Any) -> None:
    engine = rig.engine()
    broken = rig.path / "disk-is-full"
    broken.touch()
    rig.options["agent"] = ["--fails-while", str(broken), "--engine", str(engine.pid)]
    process = rig.up()
    wait_for(lambda: len(rig.pids("agent")) >= 4, "a pause of seconds before the next start")
    before = len(rig.pids("agent"))
    broken.unlink()
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    assert len(rig.pids("agent")) == before + 1
    assert rig.words("agent")[-1] == "SIGTERM"
    assert engine.wait(60) == -signal.SIGKILL
    assert "1 engine process stopped" in rig.output().read_text()


def test_an_agent_that_cannot_be_started_any_more_leaves_a_failure(rig: Any, wait_for: Any) -> None:
    engine = rig.engine()
    rig.options["agent"] = ["--exit", "3"]
    process = rig.up()
    wait_for(lambda: len(rig.pids("agent")) >= 3, "a pause before the next start")
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 1
    assert f"kill {engine.pid}" in rig.output().read_text()


def test_ctrl_c_while_the_agent_still_starts_waits_until_it_can_hear(rig: Any, wait_for: Any) -> None:
    engine = rig.engine()
    rig.options["agent"] = ["--engine", str(engine.pid)]
    process = rig.up()
    wait_for(lambda: bool(rig.pids("agent")), "an agent that has no signal handler yet")
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    assert rig.words("agent") == ["start", "SIGTERM"]


def test_an_agent_that_hangs_is_killed_and_another_one_stops_the_engines(rig: Any) -> None:
    engine = rig.engine()
    rig.silent = 1.0
    rig.options["agent"] = ["--engine", str(engine.pid)]
    process = rig.up()
    rig.wait_started()
    os.kill(rig.pids("agent")[0], signal.SIGSTOP)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    told = rig.output().read_text()
    assert "agent: does not react; killed" in told
    assert "everything stopped" in told
    assert len(rig.pids("agent")) == 2


def test_an_agent_that_is_at_work_is_not_taken_for_stuck(rig: Any, wait_for: Any) -> None:
    rig.silent = 1.0
    rig.options["agent"] = ["--busy", "3"]
    process = rig.up()
    rig.wait_started()
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    assert rig.words("agent") == ["start", "SIGTERM"]
    assert "does not react" not in rig.output().read_text()


def test_the_marks_of_an_engine_are_those_that_the_agent_gives() -> None:
    process = pytest.importorskip("llmgw_agent.process", reason="llmgw-agent is not installed")
    assert (OWNER, SHARD, SPEC) == (process.OWNER, process.MARKER, process.SPEC)


def test_the_curl_line_names_the_first_model_that_answers(rig: Any, wait_for: Any) -> None:
    rig.served = [
        {"id": "cold", "ready": False},
        {"id": "lost", "ready": True},
        {"id": "it's", "ready": True},
    ]
    rig.status = {"models": [model_row(name="lost", state="unknown"), model_row(name="it's")]}
    rig.up()
    wait_for(rig.said("curl http://127.0.0.1:"), "the curl line")
    told = rig.output().read_text()
    command = told[told.index("curl ") : told.index("\n\n  Ctrl-C")]
    echoed = subprocess.run(
        ["sh", "-c", command.replace("curl", "printf '%s\\n'", 1)], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    key = (rig.path / "state" / "api_key").read_text().strip()
    assert f"Authorization: Bearer {key}" in echoed
    assert json.loads(echoed[-1])["model"] == "it's"
