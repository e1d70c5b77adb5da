"""To try on: public data sets by name.

Every loader reads from a folder, `data_home=`, else the environment variable
``WIDEMARGIN_DATA``, else ``~/widemargin_data``; what is missing there is downloaded
once, checked and put in place whole. A loader returns a
:class:`~sklearn.utils.Bunch` with ``data``, ``target``, ``target_names``, ``DESCR``
and, for images, ``image_shape``. Sets with an official split take ``subset="train"``,
``"test"`` or ``"all"`` (train first, then test).
"""

from widemargin.datasets.digits import (
    load_mnist,
    load_nist3,
    load_usps,
    mnist_writers,
    read_idx,
)
from widemargin.datasets.home import get_data_home
from widemargin.datasets.series import load_fruit, load_tecator, load_ucr
from widemargin.datasets.tables import (
    load_a9a,
    load_ionosphere,
    load_letter,
    load_optdigits,
    load_pendigits,
    load_satimage,
    load_sonar,
    load_w8a,
    load_wbc,
)

__all__ = [
    "get_data_home",
    "load_a9a",
    "load_fruit",
    "load_ionosphere",
    "load_letter",
    "load_mnist",
    "load_nist3",
    "load_optdigits",
    "load_pendigits",
    "load_satimage",
    "load_sonar",
    "load_tecator",
    "load_ucr",
    "load_usps",
    "load_w8a",
    "load_wbc",
    "mnist_writers",
    "read_idx",
]
