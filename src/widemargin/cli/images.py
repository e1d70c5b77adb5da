"""A folder of images, one sub-folder per class; grey levels in 0..1."""

from pathlib import Path

import numpy as np

from widemargin.cli.columns import Table
from widemargin.cli.refusal import Refusal


def read_folder(
    folder: Path, labelled: bool, image_shape: tuple[int, ...] | None
) -> Table:
    """Read all images; they are resized only where `image_shape` asks for it.

    Without labels the images may lie in the folder itself.
    """
    if image_shape is not None and len(image_shape) != 2:
        raise Refusal("--image-shape: images of a folder are read as grey; write 16x16")
    classes = _entries(folder, lambda path: path.is_dir())
    if labelled and not classes:
        raise Refusal(
            f"{folder} has no sub-folders; make one per class, named after it"
        )
    homes = classes or [folder]
    files = [(home, path) for home in homes for path in _entries(home, Path.is_file)]
    for home in homes:
        if home not in {h for h, _ in files}:
            raise Refusal(
                f"{home} holds no images; put some there or remove the folder"
            )
    images = [_read_image(path, image_shape) for _, path in files]
    shape = images[0].shape
    for (_, path), image in zip(files, images, strict=True):
        if image.shape != shape:
            raise Refusal(
                f"{path} is {_size(image.shape)} and {files[0][1].name} is "
                f"{_size(shape)}; bring all to one size with "
                f"--image-shape {_size(shape)}"
            )
    X = np.stack(images).reshape(len(images), -1)
    y = np.array([home.name for home, _ in files]) if labelled else None
    rows = [str(path.relative_to(folder)) for _, path in files]
    return Table(X, y, image_shape=shape, rows=rows)


def read_one(path: Path, image_shape: tuple[int, ...] | None) -> Table:
    """Read a single image, brought to the shape of those a model was fitted on."""
    if image_shape is not None and len(image_shape) != 2:
        raise Refusal(f"{path} is read as grey, and the model was fitted on colours")
    image = _read_image(path, image_shape)
    return Table(image.reshape(1, -1), image_shape=image.shape, rows=[path.name])


def _entries(folder: Path, wanted) -> list[Path]:
    return sorted(
        path
        for path in folder.iterdir()
        if wanted(path) and not path.name.startswith(".")
    )


def _size(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def _read_image(path: Path, shape: tuple[int, ...] | None) -> np.ndarray:
    try:
        from PIL import Image, UnidentifiedImageError
    except ModuleNotFoundError:
        raise Refusal("images need Pillow: pip install pillow") from None
    try:
        with Image.open(path) as image:
            grey = image.convert("L")
            if shape is not None and grey.size != (shape[1], shape[0]):
                grey = grey.resize((shape[1], shape[0]), Image.Resampling.BILINEAR)
            return np.asarray(grey, dtype=np.float32) / 255
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError):
        raise Refusal(f"{path} is no readable image; mend or remove it") from None
