"""The papers: each table and figure as code."""
