"""Runs migrations on the connection that `llmgw_core.store.migrate` hands over; alembic imports this file."""

from __future__ import annotations

from alembic import context

from llmgw_core.store.tables import METADATA

# Each migration is one transaction with its version row: what is killed in the middle never happened.
context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    transactional_ddl=True,
    transaction_per_migration=True,
)
with context.begin_transaction():
    context.run_migrations()
