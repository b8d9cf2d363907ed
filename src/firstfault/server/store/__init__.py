"""What a console keeps, in SQLite or PostgreSQL: one file for each kind of record."""
