"""The papers: each table and figure as code that prints and draws it."""
