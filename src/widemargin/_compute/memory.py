"""Chunk sizes from scikit-learn's ``working_memory``, the one memory budget."""

from sklearn import get_config


def rows_in_budget(bytes_per_row: float, n_workers: int = 1) -> int:
    """How many rows of `bytes_per_row` each worker may hold at once, at least one."""
    budget = get_config()["working_memory"] * 2**20
    return max(1, int(budget / (max(1, n_workers) * max(1.0, bytes_per_row))))
