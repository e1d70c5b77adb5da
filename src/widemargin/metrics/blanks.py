"""Blank images: no tangents at all, hence near to everything under two-sided distance.

A sample whose frame has rank 0 stays put while all others move towards it. Functions
warn of it in what they are given; estimators warn once, of their training samples.
"""

import warnings

import numpy as np

from widemargin.tangents import Bundle


def warn_of_blanks(bundle: Bundle, samples: str, *, stacklevel: int) -> bool:
    """Warn of the blank ones among `samples`, as the warning calls them; tell if any.

    `stacklevel` counts from the caller of this function, which is 1.
    """
    if bundle.n_tangents == 0:
        return False
    blank = int(np.count_nonzero(bundle.ranks == 0))
    if blank:
        warnings.warn(
            f"{blank} of {len(bundle)} {samples} have no tangents at all (blank "
            "images?). Two-sided distances make them near to everything; drop them, or "
            "use sides='mean'.",
            UserWarning,
            stacklevel=stacklevel + 1,
        )
    return blank > 0
