"""`llmgw ctl nodes|models|replicas|events|usage`: what is there, one row each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import click

from llmgw_core.cli.ctl.table import print_table
from llmgw_core.cli.ctl.target import Target, json_option, rows_of, show
from llmgw_core.spec.units import format_duration

Row = dict[str, Any]


class Listing(NamedTuple):
    """A list of the admin API and how a person sees it."""

    name: str
    help: str
    head: Sequence[str]
    cells: Callable[[Row], Sequence[object]]
    nothing: str


def _node(row: Row) -> Sequence[object]:
    gpus = row.get("gpus") or []
    memory = row.get("memory_mib")
    usable = [engine for engine in row["engines"] if not engine.get("problems")]
    engines = ", ".join(f"{engine['name']} {engine.get('version') or ''}".strip() for engine in usable)
    problems = [
        *row.get("problems", ()),
        *_broken_engines(row["engines"]),
        *(["cordoned"] if row.get("cordoned") else []),
    ]
    return (
        row["name"],
        row["state"],
        row.get("address"),
        row.get("cpus"),
        f"{memory / 1024:.0f} GiB" if memory else None,
        len(gpus),
        engines,
        "; ".join(problems),
    )


def _broken_engines(engines: Sequence[Row]) -> list[str]:
    """What is wrong with engines that somebody put on the node; one that is not there is no problem."""
    there = [engine for engine in engines if engine.get("binary")]
    return [f"{engine['name']}: {problem}" for engine in there for problem in engine.get("problems", ())]


def _model(row: Row) -> Sequence[object]:
    why = "; ".join(part for part in (row.get("reason"), row.get("next")) if part)
    return row["name"], row["state"], f"{row['ready']}/{row['wanted']}", why


def _replica(row: Row) -> Sequence[object]:
    failure = row.get("failure") or {}
    why = f"{failure['class']}: {failure.get('detail') or ''}" if failure else _progress(row)
    return (
        row["id"],
        row["model"],
        row["state"],
        format_duration(row.get("for_seconds") or 0.0),
        " + ".join(row.get("nodes", ())),
        why,
    )


def _progress(row: Row) -> str:
    share = row.get("progress")
    parts = [row.get("why"), None if share is None or row["state"] == "Ready" else f"{share * 100:.0f} %"]
    return ", ".join(part for part in parts if part)


def _event(row: Row) -> Sequence[object]:
    return f"{format_duration(row['age'])} ago", row["kind"], row["subject"], row["message"]


LISTINGS = (
    Listing(
        "nodes",
        "The machines with an agent.",
        ("NODE", "STATE", "ADDRESS", "CPUS", "MEMORY", "GPUS", "ENGINES", "PROBLEMS"),
        _node,
        "no node has registered yet",
    ),
    Listing(
        "models",
        "The models of the catalog.",
        ("MODEL", "STATE", "READY", "WHY / NEXT"),
        _model,
        "the catalog has no model",
    ),
    Listing(
        "replicas",
        "Running instances, also those that ended lately.",
        ("REPLICA", "MODEL", "STATE", "SINCE", "WHERE", "WHY / NEXT"),
        _replica,
        "there is no replica",
    ),
    Listing(
        "events",
        "What happened lately, oldest first.",
        ("AGE", "KIND", "SUBJECT", "MESSAGE"),
        _event,
        "nothing has happened yet",
    ),
)


def _command(listing: Listing) -> click.Command:
    @click.command(listing.name, help=listing.help)
    @json_option
    @click.pass_obj
    def command(target: Target, as_json: bool) -> None:
        answer = target.client().call("GET", f"/admin/v1/{listing.name}")
        rows = [listing.cells(row) for row in rows_of(answer, listing.name)] if not as_json else []
        show(answer, as_json, lambda _: print_table(listing.head, rows, nothing=listing.nothing))

    return command


@click.command()
@json_option
@click.pass_obj
def usage(target: Target, as_json: bool) -> None:
    """Requests and tokens, by key and model."""
    answer = target.client().call("GET", "/admin/v1/usage")
    rows = rows_of(answer, "usage")
    head = list(rows[0]) if rows else []
    show(
        answer,
        as_json,
        lambda _: print_table(
            [name.replace("_", " ").upper() for name in head],
            [[row.get(name) for name in head] for row in rows],
            nothing="nothing was used yet",
        ),
    )


COMMANDS = (*(_command(listing) for listing in LISTINGS), usage)
