"""The look-alike's command line: llama-server's names, variables, defaults and errors."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from llmgw_core.spec import Launch, Shard
from llmgw_llamacpp import plugin
from llmgw_llamacpp.arglist import BadArgument, help_text, settings
from llmgw_llamacpp.options import OPTIONS, Member, Setting


def read(*argv: str, **environ: str) -> dict[str, Setting]:
    return settings(argv, environ)


def refusal(argv: Sequence[str], environ: Mapping[str, str]) -> str:
    with pytest.raises(BadArgument) as error:
        settings(argv, environ)
    return str(error.value)


def test_the_defaults_are_llama_servers() -> None:
    assert read("-m", "x.gguf") == {
        "model.path": "x.gguf",
        "hostnames": ["127.0.0.1"],
        "port": 8080,
        "n_parallel": 4,
        "kv_unified": True,
    }


def test_with_a_number_of_slots_each_has_its_own_context() -> None:
    assert "kv_unified" not in read("-m", "x", "-np", "2")


def test_short_and_long_names_underscores_and_variables_mean_the_same() -> None:
    wanted = read("--model", "x", "--ctx-size", "512")
    assert read("-m", "x", "-c", "512") == wanted
    assert read("--model", "x", "--ctx_size", "512") == wanted
    assert read(LLAMA_ARG_MODEL="x", LLAMA_ARG_CTX_SIZE="512") == wanted


def test_the_command_line_wins_over_the_environment_and_the_last_over_the_first() -> None:
    assert read("-m", "x", "--port", "1", "--port", "2", LLAMA_ARG_PORT="3")["port"] == 2


def test_a_switch_has_an_opposite_and_a_variable() -> None:
    assert read("-m", "x", "--metrics")["endpoint_metrics"] is True
    assert read("-m", "x", "--no-webui")["ui"] is False
    assert read("-m", "x", LLAMA_ARG_UI="off")["ui"] is False
    assert read("-m", "x", "--ui", LLAMA_ARG_UI="0")["ui"] is True


def test_prompts_are_read_by_as_many_threads_as_answers_are_made() -> None:
    assert read("-m", "x", "-t", "3")["cpuparams_batch.n_threads"] == 3
    assert read("-m", "x", "-t", "3", "-tb", "1")["cpuparams_batch.n_threads"] == 1


def test_values_of_every_form_are_read(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("# mine\none\ntwo\n")
    found = read(
        "-m", "x", "-a", "b,a", "--api-key-file", str(keys), "-fa", "on", "-ngl", "all", "--temp", "-0.5"
    )
    assert found["model_alias"] == frozenset({"a", "b"})
    assert found["api_keys"] == ["one", "two"]
    assert found["flash_attn_type"] == Member("llama_flash_attn_type", "LLAMA_FLASH_ATTN_TYPE_ENABLED")
    assert found["n_gpu_layers"] == -2
    assert found["sampling.temp"] == -0.5


@pytest.mark.parametrize(
    ("argv", "environ", "message"),
    (
        (("--nope",), {}, "error: invalid argument: --nope"),
        (("--api-key=hidden",), {}, "error: invalid argument: --api-key"),
        (("--mod", "x"), {}, "error: invalid argument: --mod"),
        (("stray",), {}, "error: invalid argument: stray"),
        (("-m",), {}, 'error while handling argument "-m": expected value for argument'),
        (("--port", "x"), {}, 'error while handling argument "--port": not a whole number'),
        (("-fa", "maybe"), {}, 'error while handling argument "-fa": write one of on, off, auto'),
        ((), {"LLAMA_ARG_UI": "x"}, 'error while handling environment variable "LLAMA_ARG_UI": write one of'),
        (
            (),
            {"LLAMA_API_KEY": ","},
            'error while handling environment variable "LLAMA_API_KEY": it is empty',
        ),
        (("--api-key-file", "/no/such"), {}, "the file cannot be read: No such file or directory"),
        ((), {}, "error: no model is given"),
    ),
)
def test_a_mistake_is_one_sentence(argv: tuple[str, ...], environ: dict[str, str], message: str) -> None:
    assert message in refusal(argv, environ)


@pytest.mark.parametrize("flag", ("--port", "--temp", "-fa", "-ctk", "-ngl", "--api-key-file"))
def test_no_error_repeats_a_value(flag: str) -> None:
    assert "hidden" not in refusal([flag, "hidden"], {})


def test_every_flag_that_the_plugin_emits_is_taken(make_shard: Callable[..., Shard], launch: Launch) -> None:
    shards = (
        make_shard(max_model_len=512, kv_cache_dtype="q8_0"),
        make_shard({"kind": "embedding"}, engine_args={"pooling": "mean"}),
        make_shard(gpus_per_node=2, tensor_parallel=2),
    )
    for shard in shards:
        (command,) = plugin.llmgw_engine_commands(shard, launch)
        assert settings(command.argv[1:], {"LLAMA_API_KEY": "k"})["model_alias"] == frozenset({"smol"})


def test_no_spelling_belongs_to_two_options() -> None:
    spellings = [name for option in OPTIONS for name in (*option.names, *option.off)]
    assert sorted(spellings) == sorted(set(spellings))
    shown = help_text("llama")
    assert all(name in shown for name in spellings)


def test_help_and_errors_load_neither_llmgw_core_nor_the_engine() -> None:
    code = (
        "import sys; from llmgw_llamacpp.launcher import run; "
        "assert run(['--help'], {}) == 0; assert run(['--nope'], {}) == 1; "
        "print(sorted({'llmgw_core', 'pydantic', 'pluggy', 'xllamacpp'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert done.stderr == "error: invalid argument: --nope\n"


def test_without_the_wheel_it_says_how_to_get_it() -> None:
    code = (
        "import sys; sys.modules['xllamacpp'] = None; from llmgw_llamacpp.launcher import run; "
        "sys.exit(run(['--version'], {}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert 'pip install "llmgw-llamacpp[embedded]"' in done.stderr
    assert "Traceback" not in done.stderr
