"""The interactive parts of a report's page: numbers, sprites, curves.

The page carries all it needs: ranks of confidences, from which error and refused share
at every threshold are counted exactly as in Python; the samples as cells of one PNG, or
as curves of bytes; their nearest references and what is left between them; and
prototypes or samples with their tangents, to be swept. Pictures of samples are left
out, the sure and right ones first, until the file is small enough.
"""

import base64
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.cli.evaluate import Evaluation
from widemargin.cli.html import embed
from widemargin.cli.models import SavedModel
from widemargin.inspection.models import (
    generator_of,
    learned_tangents,
    nearest_references,
)
from widemargin.inspection.style import is_light, most_values
from widemargin.inspection.tangents import tangent_names

# Bytes of pictures in the page; about a third is added when they become text.
PICTURE_BYTES = 1_700_000
MOST_PICTURES = 2000
# Sides of a picture and points of a curve; more is not seen in a thumbnail.
MOST_PIXELS, MOST_POINTS = 32, 128
GREYS, RESIDUAL_COLOURS = 32, 15
MOST_SWEPT, MOST_MOVES = 12, 9
SWEEP_BYTES = 400_000
PER_ROW = 50
# Where a full step of a sweep leads: some feature changes by this share of the range.
REACH = 0.6


@dataclass
class InteractiveParts:
    """The data of the page, and the sprites that go beside them."""

    data: dict[str, Any]
    sprites: dict[str, bytes]

    def html(self) -> str:
        """Return what the script reads; none of it is shown or run."""
        text = json.dumps(self.data, separators=(",", ":"), ensure_ascii=True)
        # Inside a script element only these could end it or begin another.
        for letter in "<>&":
            text = text.replace(letter, f"\\u{ord(letter):04x}")
        images = "".join(
            embed(png, "", 1).replace("<img ", f'<img hidden id="sprite-{name}" ')
            for name, png in self.sprites.items()
        )
        return f'<script type="application/json" id="data">{text}</script>{images}'


def interactive_parts(
    model: SavedModel,
    X: Any,
    results: Evaluation,
    plots: dict[str, dict[str, float]],
    rows: Sequence[str] = (),
) -> InteractiveParts:
    """Return all that the script of the page works with."""
    classes = list(results.classes)
    code = {label: k for k, label in enumerate(classes)}
    levels, level = np.unique(results.confidence, return_inverse=True)
    data: dict[str, Any] = {
        "classes": [str(label) for label in classes],
        "truth": _packed([code[y] for y in results.truth], np.uint16),
        "answer": _packed([code[y] for y in results.answers], np.uint16),
        "level": _packed(level, np.uint32),
        "levels": _packed(levels, np.float32),
        "start": _start(level, results.accepted),
        "margin": _packed(results.margins, np.float32),
        "rows": [str(row) for row in rows] or None,
        "plots": plots,
    }
    # As their pictures are wanted: wrong, then unsure.
    right = results.truth == results.answers
    shown = np.lexsort((results.confidence, right))[:MOST_PICTURES]
    pictures, sprites = _pictures(model, X, shown)
    while len(shown) > 50 and _size(pictures, sprites) > PICTURE_BYTES:
        shown = shown[: len(shown) * 2 // 3]
        pictures, sprites = _pictures(model, X, shown)
    place = np.full(len(results.truth), -1)
    if pictures:
        place[shown] = np.arange(len(shown))
    data |= pictures
    data["place"] = _packed(place, np.int32)
    data["sweeps"] = _sweeps(model, X, results)
    return InteractiveParts(data, sprites)


def _start(level: NDArray, accepted: NDArray | None) -> int:
    """Return the level from which the model itself answers; 0 where none tells."""
    if accepted is None:
        return 0
    start = int(level[accepted].min()) if accepted.any() else int(level.max()) + 1
    return start if np.array_equal(level >= start, accepted) else 0


def _packed(values: Any, dtype: Any) -> str:
    kind = np.dtype(dtype).newbyteorder("<")
    return base64.b64encode(np.ascontiguousarray(values, kind).tobytes()).decode()


def _size(pictures: dict[str, Any], sprites: dict[str, bytes]) -> int:
    curves = pictures.get("curves") or {}
    texts = [value for value in curves.values() if isinstance(value, str)]
    return sum(map(len, sprites.values())) + sum(map(len, texts)) * 3 // 4


def _dense(X: Any, rows: NDArray) -> NDArray:
    some = X[rows]
    some = some.toarray() if hasattr(some, "toarray") else some
    return np.asarray(some, dtype=float)


def _pictures(
    model: SavedModel, X: Any, shown: NDArray
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Pictures of some samples with what they were compared with."""
    if X.shape[1] > 65536:
        return {}, {}
    some = _dense(X, shown)
    try:
        near = nearest_references(model.estimator, some)
    except (ValueError, MemoryError):
        near = None  # a metric of one's own, or too many references to compare
    found: dict[str, Any] = {}
    points, index = np.empty((0, X.shape[1])), np.empty(0, int)
    if near is not None:
        used, index = np.unique(near.nearest, return_inverse=True)
        points = near.points[used]
        found["reference"] = {
            "index": index.tolist(),
            "labels": [str(label) for label in near.labels[used]],
            "distance": [float(f"{d:.4g}") for d in near.distances],
            "what": _what(model.estimator),
        }
    shape = _image_shape(model)
    if shape is None:
        found["curves"] = _curves(model, some, points, near)
        return found, {}
    low, high = float(some.min()), float(some.max())
    both = {"samples": some, "references": points}.items()
    ends = (
        (high, low) if is_light(some.reshape(-1, *shape), (low, high)) else (low, high)
    )
    sprites = {k: _sprite(rows, shape, *ends) for k, rows in both if len(rows)}
    if near is not None:
        reach = float(np.abs(near.residuals).max()) or 1.0
        reach = min(reach, (high - low) or 1.0)
        sprites["residuals"] = _residual_sprite(near.residuals, shape, reach)
    return found | {"cell": _cell(shape), "perRow": PER_ROW}, sprites


def _what(estimator: Any) -> str:
    if hasattr(estimator, "prototypes_"):
        return "prototype" if learned_tangents(estimator) is None else "model"
    return "support vector" if hasattr(estimator, "support_bundle_") else "neighbour"


def _image_shape(model: SavedModel) -> tuple[int, ...] | None:
    shape = model.image_shape
    if shape is None or (len(shape) == 3 and shape[2] not in (1, 3, 4)):
        return None
    return shape[:2] if len(shape) == 3 and shape[2] == 1 else shape


def _curves(
    model: SavedModel, some: NDArray, points: NDArray, near: Any
) -> dict[str, Any]:
    every = -(-some.shape[1] // MOST_POINTS)
    low, high = float(some.min()), float(some.max())

    def packed(rows: NDArray, low: float, high: float) -> str:
        return _packed(_levels(rows[:, ::every], low, high, 255), np.uint8)

    found: dict[str, Any] = {
        "length": len(range(0, some.shape[1], every)),
        # Named columns are a table: nothing lies between them.
        "dots": bool(model.names) and some.shape[1] <= MOST_POINTS,
        "samples": packed(some, low, high),
    }
    if near is not None:
        reach = float(np.abs(near.residuals).max()) or 1.0
        found["references"] = packed(points, low, high)
        found["residuals"] = packed(near.residuals, -reach, reach)
    return found


def _levels(values: NDArray, low: float, high: float, top: int) -> NDArray:
    share = (values - low) / ((high - low) or 1.0)
    return np.round(np.clip(share, 0, 1) * top).astype(np.uint8)


def _sprite(images: NDArray, shape: tuple[int, ...], low: float, high: float) -> bytes:
    """Return all images as one PNG, light where they are `low`."""
    from PIL import Image

    stack = _mosaic(_smaller(images.reshape(-1, *shape)))
    if len(shape) == 3:
        colours = _levels(stack[..., :3], low, high, 255)
        return _png(Image.fromarray(colours).quantize(64))
    greys = _levels(stack, low, high, GREYS - 1)
    shades = [255 - round(255 * k / (GREYS - 1)) for k in range(GREYS)]
    return _palette_png(greys, [(s, s, s) for s in shades])


def _residual_sprite(residuals: NDArray, shape: tuple[int, ...], reach: float) -> bytes:
    images = residuals.reshape(-1, *shape)
    if images.ndim == 4:
        images = images.mean(axis=3)
    stack = _mosaic(_smaller(images))
    # Less than a step of colour is white: it would be noise to look at, and to store.
    levels = _levels(stack, -reach, reach, RESIDUAL_COLOURS - 1)
    half = RESIDUAL_COLOURS // 2
    colours = []
    for k in range(RESIDUAL_COLOURS):
        share = (k - half) / half
        end = (178, 24, 43) if share > 0 else (33, 102, 172)
        colours.append(tuple(round(255 + abs(share) * (c - 255)) for c in end))
    return _palette_png(levels, colours)


def _factor(shape: tuple[int, ...]) -> int:
    return -(-max(shape[:2]) // MOST_PIXELS)


def _cell(shape: tuple[int, ...]) -> list[int]:
    every = _factor(shape)
    return [-(-shape[0] // every), -(-shape[1] // every)]


def _smaller(images: NDArray) -> NDArray:
    """Return images whose sides are means of as few pixels as make them small."""
    every = _factor(images.shape[1:3])
    if every == 1:
        return images
    height, width = images.shape[1:3]
    pads = [(0, 0), (0, -height % every), (0, -width % every)]
    pads += [(0, 0)] * (images.ndim - 3)
    padded = np.pad(images, pads, mode="edge")
    n, h, w, *rest = padded.shape
    blocks = padded.reshape(n, h // every, every, w // every, every, *rest)
    return blocks.mean(axis=(2, 4))


def _mosaic(images: NDArray) -> NDArray:
    """Lay images side by side, `PER_ROW` in a row."""
    n, h, w, *rest = images.shape
    n_rows = -(-n // PER_ROW)
    full = np.zeros((n_rows * PER_ROW, h, w, *rest))
    full[:n] = images
    grid = full.reshape(n_rows, PER_ROW, h, w, *rest)
    return np.moveaxis(grid, 2, 1).reshape(n_rows * h, PER_ROW * w, *rest)


def _palette_png(indices: NDArray, colours: Sequence[tuple[int, ...]]) -> bytes:
    from PIL import Image

    picture = Image.fromarray(indices)
    picture = Image.frombytes("P", picture.size, indices.tobytes())
    picture.putpalette([value for colour in colours for value in colour])
    return _png(picture, bits=4 if len(colours) <= 16 else 8)


def _png(picture: Any, **options: Any) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, format="PNG", optimize=True, **options)
    return buffer.getvalue()


def _sweeps(model: SavedModel, X: Any, results: Evaluation) -> dict[str, Any] | None:
    """Rows and their tangents, to be added up: models by their own, or samples."""
    estimator = model.estimator
    learned, generator = learned_tangents(estimator), generator_of(estimator)
    if learned is not None and learned.size:
        rows = np.asarray(estimator.prototypes_, dtype=float)[:MOST_SWEPT]
        tangents = learned[:MOST_SWEPT, :MOST_MOVES]
        what = [f"model of {label}" for label in estimator.prototype_labels_]
        names = tangent_names(None, tangents.shape[1])
    elif generator is not None and model.image_shape is not None:
        firsts = np.unique(results.truth, return_index=True)[1][:MOST_SWEPT]
        rows = _dense(X, firsts)
        tangents = generator.tangents(rows)[:, :MOST_MOVES]
        what = [f"a {results.truth[i]}" for i in firsts]
        names = tangent_names(generator, generator.n_tangents)
    else:
        return None
    if not np.any(tangents):
        return None
    return _packed_sweeps(model, rows, np.asarray(tangents, float), what, names)


def _packed_sweeps(
    model: SavedModel,
    rows: NDArray,
    tangents: NDArray,
    what: list[str],
    names: list[str],
) -> dict[str, Any] | None:
    low, high = most_values([rows])
    span = high - low
    size = np.abs(tangents).max(axis=2, keepdims=True)
    steps = np.divide(
        REACH * tangents, size, out=np.zeros_like(tangents), where=size > 0
    )
    parts = np.concatenate([(rows[:, None] - low) / span, steps], axis=1)
    shape = _image_shape(model)
    if shape is None:
        every = -(-rows.shape[1] // MOST_POINTS)
        parts = parts[:, :, ::every]
        cell, channels = [1, parts.shape[2]], 1
    else:
        images = _smaller(parts.reshape(-1, *shape))
        cell, channels = list(images.shape[1:3]), 1 if len(shape) == 2 else shape[2]
        parts = images.reshape(*parts.shape[:2], -1)
    most = max(1, SWEEP_BYTES // (2 * parts[0].size))
    values = np.round(np.clip(parts[:most], -2, 2) * 16383).astype(np.int16)
    return {
        "values": _packed(values, np.int16),
        "what": what[: len(values)],
        "names": [str(name).replace("_", " ") for name in names[: tangents.shape[1]]],
        "cell": cell,
        "channels": channels,
        "light": shape is not None and is_light(rows.reshape(-1, *shape), (low, high)),
        "curve": shape is None,
    }
