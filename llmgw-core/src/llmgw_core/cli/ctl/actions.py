"""`llmgw ctl explain|logs|keys|catalog`: about one thing, or changing something."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import click

from llmgw_core.cli.ctl.table import print_table
from llmgw_core.cli.ctl.target import Target, json_option, rows_of, show
from llmgw_core.credentials import MAX_KEY_LIFE
from llmgw_core.spec.units import format_duration, parse_duration


def _id(ctx: click.Context, parameter: click.Parameter, text: str) -> str:
    """An id that can stand in a path of the admin API."""
    if not text.strip() or "/" in text:
        raise click.BadParameter(f"{text!r} is no id: an id is not empty and has no slash", ctx, parameter)
    return text


def _name(ctx: click.Context, parameter: click.Parameter, text: str) -> str:
    if not text.strip() and parameter.required:
        raise click.BadParameter("must not be empty", ctx, parameter)
    if text and not text.isprintable():
        raise click.BadParameter(
            f"{text!r} holds control characters or line breaks; write it without", ctx, parameter
        )
    return text


@click.command()
@click.argument("model", callback=_name)
@json_option
@click.pass_obj
def explain(target: Target, model: str, as_json: bool) -> None:
    """Why a model stands as it does, and what would have to change."""
    show(target.client().call("GET", f"/admin/v1/explain/{quote(model)}"), as_json, _explanation)


def _explanation(answer: dict[str, Any]) -> None:
    from llmgw_core.placement.lines import explanation_lines

    click.echo(
        f"{answer['name']} is {answer['state']}: wants {answer['wanted']}, has {answer['ready']}"
        + "".join(f"; {answer[name]}" for name in ("reason", "next") if answer.get(name))
    )
    failure = answer.get("failure")
    if failure:
        click.echo(f"\nlast failure: {failure['class']}: {failure.get('detail') or ''}")
        click.echo("".join(f"  | {line}\n" for line in (failure.get("tail") or "").splitlines()), nl=False)
        click.echo(f"  → {failure['hint']}" if failure.get("hint") else "", nl=bool(failure.get("hint")))
    if answer.get("placement"):
        click.echo()
        for line in explanation_lines(answer["placement"]):
            click.echo(line)


@click.command()
@click.argument("replica", callback=_id)
@click.option("--lines", default=200, show_default=True, type=click.IntRange(1, 10_000))
@json_option
@click.pass_obj
def logs(target: Target, replica: str, lines: int, as_json: bool) -> None:
    """The last lines of a replica's engine. The beginning of its id is enough."""
    answer = target.client().call("GET", f"/admin/v1/replicas/{quote(replica, safe='')}/logs?lines={lines}")
    show(answer, as_json, lambda told: click.echo(told["text"].rstrip("\n")))


@click.group()
def keys() -> None:
    """API keys of clients."""


@keys.command("create")
@click.argument("owner", callback=_name)
@click.option("--tenant", default="", callback=_name, help="Whom the owner belongs to.")
@click.option("--model", "models", multiple=True, help="A model it may use; again for more. Default: all.")
@click.option("--expires-in", metavar="TIME", help="How long it holds, like 30d or 12h. Default: for ever.")
@json_option
@click.pass_obj
def create(
    target: Target, *, owner: str, tenant: str, models: tuple[str, ...], expires_in: str | None, as_json: bool
) -> None:
    """Make a key for OWNER. It is shown now and never again."""
    body = {
        "owner": owner,
        "tenant": tenant,
        "models": list(models) or None,
        "expires_in": None if expires_in is None else _seconds(expires_in),
    }
    answer = target.client().call("POST", "/admin/v1/keys", body)
    show(answer, as_json, lambda made: click.echo(f"{made['key']}\n(id {made['id']}; not shown again)"))
    for warning in answer.get("warnings", ()) if isinstance(answer, dict) else ():
        click.echo(f"{click.style('warning:', fg='yellow')} {warning}", err=True)


def _seconds(text: str) -> float:
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--expires-in") from None
    if not 0 < seconds <= MAX_KEY_LIFE:
        raise click.BadParameter(
            f"{text} is no life of a key: more than 0 s, at most ten years (3653d); for ever is without it",
            param_hint="--expires-in",
        )
    return seconds


@keys.command("list")
@json_option
@click.pass_obj
def list_keys(target: Target, as_json: bool) -> None:
    """Every key, without its secret."""
    answer = target.client().call("GET", "/admin/v1/keys")
    rows = [_key(row) for row in rows_of(answer, "keys")]
    head = ("ID", "OWNER", "TENANT", "MODELS", "EXPIRES IN", "STATE")
    show(answer, as_json, lambda _: print_table(head, rows, nothing="there is no key"))


def _key(row: dict[str, Any]) -> tuple[object, ...]:
    models = row.get("models")
    left = row.get("expires_in")
    return (
        row["id"],
        row.get("owner"),
        row.get("tenant"),
        "all" if models is None else ", ".join(models),
        "never" if left is None else format_duration(left) if left > 0 else None,
        "revoked" if row.get("revoked") else "expired" if left is not None and left <= 0 else "live",
    )


@keys.command("revoke")
@click.argument("key_id", callback=_id)
@json_option
@click.pass_obj
def revoke(target: Target, key_id: str, as_json: bool) -> None:
    """End a key, by its id."""
    answer = target.client().call("DELETE", f"/admin/v1/keys/{quote(key_id, safe='')}")
    show(answer, as_json, lambda _: click.echo(f"{key_id} is revoked"))


@click.group()
def catalog() -> None:
    """The catalog that the control plane follows."""


@catalog.command("reload")
@json_option
@click.pass_obj
def reload(target: Target, as_json: bool) -> None:
    """Read the catalog file again; a bad one changes nothing."""
    answer = target.client().call("POST", "/admin/v1/catalog/reload")
    show(answer, as_json, lambda told: click.echo(f"catalog {told['catalog_revision']}"))


COMMANDS = (explain, logs, keys, catalog)
