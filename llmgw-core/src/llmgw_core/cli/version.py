"""`llmgw version`: what is installed."""

from __future__ import annotations

import json
import platform
from importlib.metadata import distributions

import click


def installed_versions() -> dict[str, str]:
    """Version of every installed llmgw distribution, llmgw-core first."""
    found: dict[str, str] = {}
    for distribution in distributions():
        name = (distribution.metadata["Name"] or "").lower().replace("_", "-")
        if name.startswith("llmgw-"):
            found.setdefault(name, distribution.version)
    return dict(sorted(found.items(), key=lambda item: (item[0] != "llmgw-core", item[0])))


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def version(as_json: bool) -> None:
    """Versions of every installed llmgw package."""
    packages = installed_versions()
    if as_json:
        click.echo(json.dumps({"packages": packages, "python": platform.python_version()}))
        return
    for name, number in packages.items():
        click.echo(f"{name} {number}")
    click.echo(f"Python {platform.python_version()}")
