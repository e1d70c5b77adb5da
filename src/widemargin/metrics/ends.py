"""Names that moved to :mod:`widemargin.metrics.tangent`."""

from widemargin.metrics.tangent import DEFAULT_SPRING, SIDES, check_pair, check_points

__all__ = ["DEFAULT_SPRING", "SIDES", "check_pair", "check_points"]
