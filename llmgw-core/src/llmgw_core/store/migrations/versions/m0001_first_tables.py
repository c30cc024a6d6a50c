"""The first tables: meta, secrets, intents, catalogs, api_keys, usage."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "meta",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("cluster", sa.String(), nullable=False),
        sa.Column("epoch_number", sa.Integer(), nullable=False),
        sa.Column("epoch_control", sa.String(), nullable=False),
    )
    op.create_table(
        "secrets",
        sa.Column("kind", sa.String(), primary_key=True),
        sa.Column("version", sa.Integer(), primary_key=True),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
    )
    op.create_table(
        "intents",
        sa.Column("shard", sa.String(), primary_key=True),
        sa.Column("body", sa.String(), nullable=False),
        sa.Column("goal", sa.String(), nullable=False),
        sa.Column("epoch_number", sa.Integer(), nullable=False),
        sa.Column("epoch_control", sa.String(), nullable=False),
        sa.Column("number", sa.Integer()),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("grace", sa.Float(), nullable=False),
    )
    op.create_table(
        "catalogs",
        sa.Column("number", sa.Integer(), primary_key=True),
        sa.Column("revision", sa.String(), nullable=False, unique=True),
        sa.Column("text", sa.String(), nullable=False),
        sa.Column("origin", sa.String(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
    )
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(), primary_key=True),
        sa.Column("hash", sa.String(), nullable=False, unique=True),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("tenant", sa.String(), nullable=False),
        sa.Column("models", sa.JSON()),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("expires_at", sa.Float()),
        sa.Column("revoked_at", sa.Float()),
    )
    op.create_table(
        "usage",
        sa.Column("id", sa.String(), primary_key=True),
        sa.Column("ended_at", sa.Float(), nullable=False),
        sa.Column("day", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("tenant", sa.String(), nullable=False),
        sa.Column("model_asked", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("replica", sa.String()),
        sa.Column("path", sa.String(), nullable=False),
        sa.Column("streamed", sa.Boolean(), nullable=False),
        sa.Column("prompt_tokens", sa.Integer()),
        sa.Column("completion_tokens", sa.Integer()),
        sa.Column("cached_tokens", sa.Integer()),
        sa.Column("ttft", sa.Float()),
        sa.Column("duration", sa.Float(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.String(), nullable=False),
    )
    op.create_index("ix_usage_day", "usage", ["day"])
