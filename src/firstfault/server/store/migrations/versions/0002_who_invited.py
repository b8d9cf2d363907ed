"""Invitations name the account that made them

Revision 0002, after 0001.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """To this revision."""
    with op.batch_alter_table("invitations", schema=None) as batch_op:
        batch_op.add_column(sa.Column("invited_by", sa.String(length=64), nullable=True))
        batch_op.create_foreign_key(
            batch_op.f("fk_invitations_invited_by"), "accounts", ["invited_by"], ["id"], ondelete="SET NULL"
        )


def downgrade() -> None:
    """Back to the one before."""
    with op.batch_alter_table("invitations", schema=None) as batch_op:
        batch_op.drop_constraint(batch_op.f("fk_invitations_invited_by"), type_="foreignkey")
        batch_op.drop_column("invited_by")
