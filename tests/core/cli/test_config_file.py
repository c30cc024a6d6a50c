"""Configuration files: every mistake at once, with its place; the environment over the file."""

from __future__ import annotations

from pathlib import Path

import pytest
from llmgw_core.config import AgentConfig, GatewayConfig, ServerConfig
from llmgw_core.config_file import load
from llmgw_core.spec import ConfigError


def write(path: Path, text: str) -> Path:
    file = path / "some.yaml"
    file.write_text(text)
    return file


def refusal(file: Path, environ: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load(ServerConfig, file, environ or {})
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_unknown_keys_are_refused_with_their_place_and_the_nearest_known_one(tmp_path: Path) -> None:
    file = write(tmp_path, "state_dir: x\nadmin_listn: 127.0.0.1:1\ntimers:\n  reprot: 3\n")
    assert refusal(file).splitlines() == [
        f"{file}:2:1: admin_listn: unknown key 'admin_listn' (did you mean 'admin_listen'?)",
        f"{file}:4:3: timers.reprot: unknown key 'reprot' (did you mean 'report'?)",
    ]


def test_a_key_like_no_other_is_refused_with_all_known_ones(tmp_path: Path) -> None:
    told = refusal(write(tmp_path, "state_dir: x\nzzz: 1\n"))
    assert "known keys: admin_listen, bootstrap, catalog" in told


def test_a_wrong_value_is_refused_with_its_place(tmp_path: Path) -> None:
    file = write(tmp_path, "state_dir: x\nadmin_listen: here\n")
    assert refusal(file).startswith(f"{file}:2:1: admin_listen: 'here' is not an address")


def test_contradicting_timers_are_refused(tmp_path: Path) -> None:
    file = write(tmp_path, "state_dir: x\ntimers: {unreachable: 10}\n")
    assert "unreachable must be at least 4 reports" in refusal(file)


@pytest.mark.parametrize(
    ("text", "where", "message"),
    (
        ("a: [1\nb: 2", ":2:2", "not YAML"),
        ("state_dir: a\nstate_dir: b", ":2:1", "written twice, first in line 1"),
        ("- a\n", "", "expected keys with values"),
        ("a: !!python/object:os.system x", ":1:4", "not YAML"),
    ),
)
def test_text_that_is_no_configuration_is_refused_with_line_and_column(
    tmp_path: Path, text: str, where: str, message: str
) -> None:
    file = write(tmp_path, text)
    told = refusal(file)
    assert told.startswith(f"{file}{where}: ")
    assert message in told


def test_an_alias_that_holds_itself_ends(tmp_path: Path) -> None:
    assert "unknown key" in refusal(write(tmp_path, "state_dir: x\nloop: &a {b: *a}\n"))


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    assert "No such file" in refusal(tmp_path / "none.yaml")
    assert "Is a directory" in refusal(tmp_path)
    (tmp_path / "bytes.yaml").write_bytes(b"\xff")
    assert "not UTF-8" in refusal(tmp_path / "bytes.yaml")


def test_an_empty_file_misses_what_must_be_given(tmp_path: Path) -> None:
    assert "'state_dir' must be given" in refusal(write(tmp_path, ""))


def test_relative_paths_are_meant_from_the_files_directory(tmp_path: Path) -> None:
    file = write(tmp_path, "state_dir: state\nbootstrap: {api_key_file: ../key}\ncatalog: /abs.yaml\n")
    config = load(ServerConfig, file, {})
    assert config.state_dir == tmp_path / "state"
    assert config.bootstrap.api_key_file == tmp_path / "../key"
    assert config.catalog == Path("/abs.yaml")


def test_the_environment_overrides_the_file_down_to_nested_keys(tmp_path: Path) -> None:
    file = write(tmp_path, "state_dir: x\ntimers: {report: 2, late: 16}\n")
    environ = {
        "LLMGW_SERVER__ADMIN_LISTEN": "127.0.0.1:9",
        "LLMGW_SERVER__TIMERS__REPORT": "4",
        "LLMGW_GATEWAY__LISTEN": "not ours",
    }
    config = load(ServerConfig, file, environ)
    assert (config.admin_listen, config.timers.report, config.timers.late) == ("127.0.0.1:9", 4.0, 16.0)


def test_lists_and_maps_come_by_environment_too(tmp_path: Path) -> None:
    file = write(tmp_path, "control_planes: [http://a]\ntoken_file: t\nstate_dir: s\n")
    environ = {
        "LLMGW_AGENT__CONTROL_PLANES": "[http://b, http://c]",
        "LLMGW_AGENT__ENGINES__LLAMACPP": "/opt/llama-server",
    }
    config = load(AgentConfig, file, environ)
    assert config.control_planes == ("http://b", "http://c")
    assert config.engines["llamacpp"] == "/opt/llama-server"


def test_a_mistake_in_the_environment_names_the_variable(tmp_path: Path) -> None:
    file = write(tmp_path, "state_dir: x\n")
    told = refusal(file, {"LLMGW_SERVER__TIMERS__REPORTS": "4"})
    assert told == "LLMGW_SERVER__TIMERS__REPORTS: unknown key 'reports' (did you mean 'report'?)"
    both = {"LLMGW_SERVER__LOG": "x", "LLMGW_SERVER__LOG__LEVEL": "info"}
    assert "both as a value and as a group" in refusal(file, both)


def test_settings_survive_the_way_to_the_gateway_worker_as_json(tmp_path: Path) -> None:
    file = write(tmp_path, "control_planes: [http://a]\ntoken_file: t\nspool_dir: s\n")
    config = load(GatewayConfig, file, {})
    assert GatewayConfig.model_validate_json(config.model_dump_json()) == config
