"""What a person sees of `llmgw up`, for every state that there is."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from llmgw_core.cli.admin_view import read_status
from llmgw_core.cli.up import printer
from llmgw_core.cli.up.last_words import last_words
from llmgw_core.cli.up.printer import LinePrinter, line
from llmgw_core.cli.up.screen import Places, Row, rows, verdict
from llmgw_core.cli.up.supervisor import ChildState
from llmgw_core.cli.up.watch import Sight
from llmgw_core.spec import RequestFailed
from rich.console import Console

KEY = "llmgw-0123456789abcdefghijABCDEFGHIJ01"
PLACES = Places("http://127.0.0.1:8081", "http://127.0.0.1:8080")
RUNNING = dict.fromkeys(("server", "gateway", "agent"), ChildState(pid=7))
NODE = {"name": "n", "state": "ready", "silence": 0.1, "cpus": 2, "memory_mib": 23 * 1024}
BROKEN = {
    "class": "configuration",
    "detail": "not a GGUF",
    "tail": f"one\ninvalid magic {KEY}\n",
    "hint": "give a GGUF file",
}


def model(state: str = "ready", **more: Any) -> dict[str, Any]:
    return {"name": "tiny", "state": state, "wanted": 1, "ready": int(state == "ready"), **more}


def replica(state: str = "Ready", **more: Any) -> dict[str, Any]:
    return {
        "id": "r-1",
        "model": "tiny",
        "state": state,
        "for_seconds": 1.5,
        "engine": "llamacpp",
        "engine_version": "11549",
        **more,
    }


def sight(
    *models: Any, replicas: Any = (), node: Any = NODE, served: Mapping[str, bool] | None = None
) -> Sight:
    nodes = [] if node is None else [node]
    return Sight(read_status({"models": models, "replicas": replicas, "nodes": nodes}), served)


def screen(seen: Sight, children: Mapping[str, ChildState] = RUNNING, silent: Any = ()) -> dict[str, Row]:
    return {row.name: row for row in rows(PLACES, seen, children, silent)}


def test_at_first_everything_starts() -> None:
    assert {row.state for row in screen(Sight()).values()} == {"starting"}
    assert list(screen(Sight())) == ["control plane", "agent", "gateway"]


def test_when_all_is_well_each_part_says_where_it_is() -> None:
    shown = screen(sight(model(), replicas=[replica()], served={"tiny": True}))
    assert line(shown["control plane"]) == "  control plane   ready         http://127.0.0.1:8081"
    assert line(shown["agent"]) == "  agent           ready         this machine: 2 CPUs, 23 GiB, no GPU"
    assert line(shown["tiny"]) == "  tiny            ready         llamacpp 11549"
    assert line(shown["gateway"]) == "  gateway         ready         http://127.0.0.1:8080/v1 (1 model)"


def test_an_adopted_engine_and_children_taken_over_are_told() -> None:
    children = {**RUNNING, "server": ChildState(pid=9, adopted=True)}
    shown = screen(sight(model(), replicas=[replica(adopted=True)]), children)
    assert shown["tiny"].text == "llamacpp 11549, adopted"
    assert shown["control plane"].text.endswith("(taken over, pid 9)")


def test_a_child_that_is_down_is_told_with_its_last_words_whatever_the_control_plane_believes() -> None:
    down = ChildState(ended="killed by SIGKILL", words=f"lost {KEY}", failures=1, retry_in=4.0)
    children = dict.fromkeys(RUNNING, down)
    for row in ("control plane", "gateway", "agent"):
        shown = screen(sight(), children)[row]
        assert (shown.state, shown.text) == ("down", "killed by SIGKILL: lost llmgw-…")
        assert shown.detail == "started again in 4.0 s"


def test_a_child_that_was_started_again_is_told() -> None:
    children = {**RUNNING, "agent": ChildState(pid=8, ended="killed by SIGKILL")}
    assert screen(sight(), children)["agent"].text.endswith("(started again: killed by SIGKILL)")


def test_why_a_child_ended_stays_to_be_seen_when_it_runs_again_and_what_fails_always_is_called_so() -> None:
    for failures, told in ((1, "started again: "), (4, "started again: failed 4 times in a row: ")):
        child = ChildState(pid=8, ended="ended with exit code 1", words="damaged", failures=failures)
        for row in screen(Sight(), dict.fromkeys(RUNNING, child)).values():
            assert row.text.endswith(f"({told}ended with exit code 1: damaged)")


def test_a_child_that_cannot_run_says_what_helps() -> None:
    taken = "127.0.0.1:8082: port 8082 is in use by llmgw (pid 9)"
    for words, failures, advice in ((taken, 1, "another --port"), ("damaged", 3, "put right what it says")):
        child = ChildState(ended="ended with exit code 2", words=words, failures=failures, retry_in=1.0)
        (note,) = screen(Sight(), {**RUNNING, "server": child})["control plane"].notes
        assert advice in note
    once = ChildState(ended="ended with exit code 2", words="damaged", failures=1, retry_in=0.0)
    assert screen(Sight(), {**RUNNING, "server": once})["control plane"].notes == ()


def test_a_child_that_runs_and_answers_no_more_is_not_said_to_start() -> None:
    for row in screen(Sight(), silent=("server", "gateway", "agent")).values():
        assert (row.state, row.text) == ("silent", "does not answer any more (pid 7)")


def test_while_the_agent_looks_for_engines_it_says_so() -> None:
    assert screen(sight(node=None))["agent"].text == "looks at this machine's hardware and engines"


def test_loading_shows_progress_and_how_long_it_takes() -> None:
    loading = replica("Loading", progress=0.42, progress_text="weights 18/30")
    row = screen(sight(model("loading"), replicas=[loading]))["tiny"]
    assert line(row) == "  tiny            loading       llamacpp 11549  42 %  weights 18/30, 1.5 s"


def test_a_failed_model_shows_class_reason_last_lines_and_what_to_do() -> None:
    failed = model("failed", reason="configuration: not a GGUF", next="not retried", failure=BROKEN)
    told = line(screen(sight(failed, replicas=[replica("Failed", failure=BROKEN)]))["tiny"]).splitlines()
    assert "failed" in told[0]
    assert "configuration: not a GGUF  not retried" in told[0]
    assert [part.strip() for part in told[1:]] == [
        "the engine's last lines:",
        "| one",
        "| invalid magic llmgw-…",
        "→ give a GGUF file",
    ]


def test_a_further_attempt_is_shown_as_what_it_is_and_not_as_the_last_failure() -> None:
    again = model("loading", reason="no answer to the probe", failure=BROKEN)
    row = screen(sight(again, replicas=[replica("Failed", failure=BROKEN), replica("Loading")]))["tiny"]
    assert (row.state, row.text, row.detail, row.notes) == ("loading", "llamacpp 11549", "1.5 s", ())


def test_a_model_that_fits_nowhere_shows_what_is_wrong_with_the_engines_that_it_wants() -> None:
    missing = [{"name": name, "problems": ["not on PATH"]} for name in ("llamacpp", "vllm")]
    wanted = model("unschedulable", reason="n: engine: needs llamacpp", engines=["llamacpp"])
    shown = screen(sight(wanted, node={**NODE, "engines": missing}))
    assert shown["tiny"].text == "n: engine: needs llamacpp"
    assert shown["agent"].notes == ("llamacpp: not on PATH",)


def test_before_the_agent_reports_a_model_waits_for_it() -> None:
    seen = sight(model("unschedulable", reason="no node"), node={**NODE, "state": "expected"})
    assert (screen(seen)["tiny"].state, screen(seen)["tiny"].text) == ("waiting", "for the agent")


def test_the_verdict_comes_when_nothing_will_be_served_before_somebody_acts() -> None:
    failed = model("failed", failure=BROKEN)
    assert "tiny cannot start as it is configured" in (verdict(sight(failed)) or "")
    assert "every model" in (verdict(sight(failed, failed)) or "")
    assert verdict(sight(failed, model())) is None
    assert verdict(sight(model("failed", failure={**BROKEN, "class": "crash"}))) is None
    assert verdict(sight()) is None
    assert verdict(Sight()) is None


def test_a_model_answers_when_both_sides_say_so() -> None:
    assert sight(model(), served={"tiny": True}).answering() == ("tiny",)
    assert sight(model("unknown"), served={"tiny": True}).answering() == ()
    assert sight(model(), served={"tiny": False}).answering() == ()
    assert sight(model()).answering() == ()


def test_lines_are_printed_once_for_each_piece_of_news(capsys: pytest.CaptureFixture[str]) -> None:
    lines = LinePrinter()
    for row in (
        Row("a", "loading", "x", "0.1 s", 0.01),
        Row("a", "loading", "x", "0.2 s", 0.2),
        Row("a", "loading", "x", "0.3 s", 0.3),
        Row("a", "ready", "x"),
        Row("a", "ready", "x", "later"),
    ):
        lines.show([row])
    states = [shown.split()[1:] for shown in capsys.readouterr().out.splitlines()]
    assert states == [
        ["loading", "x", "1", "%", "0.1", "s"],
        ["loading", "x", "30", "%", "0.3", "s"],
        ["ready", "x"],
    ]


def test_on_a_terminal_rows_are_drawn_in_place_and_what_comes_later_is_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = io.StringIO()

    def console(**_: Any) -> Console:
        return Console(file=terminal, force_terminal=True, width=100, highlight=False)

    monkeypatch.setattr("rich.console.Console", console)
    live = printer.LivePrinter()
    live.say("llmgw 0.1.0")
    live.show([Row("tiny", "loading", "llamacpp", "1.0 s", 0.5)])
    live.show([Row("tiny", "ready", "llamacpp", notes=("→ [b]as it is[/b]",))])
    live.say("curl …")
    live.show([Row("tiny", "ready", "llamacpp", notes=("→ [b]as it is[/b]",))])
    live.show([Row("tiny", "failed", "crash")])
    drawn = terminal.getvalue()
    assert "50 %" in drawn
    assert "[b]as it is[/b]" in drawn
    assert capsys.readouterr().out.splitlines() == [
        "llmgw 0.1.0",
        "curl …",
        line(Row("tiny", "failed", "crash")),
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    (
        ("error: /x: no\n  → do this\n", "/x: no"),
        ('{"event": "gave up", "error": "OSError: full"}\n\n', "gave up: OSError: full"),
        ("3\n", "3"),
        ("", ""),
    ),
)
def test_last_words_are_one_line_for_a_person(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "log").write_text(text)
    assert last_words(tmp_path / "log") == told


def test_a_log_that_is_not_there_has_no_last_words(tmp_path: Path) -> None:
    assert last_words(tmp_path / "log") == ""


def test_a_status_of_another_kind_is_refused_with_its_place() -> None:
    with pytest.raises(RequestFailed, match=r"models.0.name"):
        read_status({"models": [{}]})
