"""Sets of images that are not handwriting, for `few_labels.py --part others`.

Every function draws a set from a seed: images as rows (n, pixels), labels, and the
shape of an image. Patches are cut from scikit-learn's two photographs and from
Matplotlib's map of heights, letters are of Matplotlib's fonts, and the rest is drawn.
"""

import numpy as np
from scipy.ndimage import gaussian_filter
from sklearn.datasets import load_digits, load_sample_images


def patches(seed=0, side=16, n=60):
    """Patches of photographs; the class is one of eight regions of two pictures."""
    rng, X, y = np.random.default_rng(seed), [], []
    for image in load_sample_images().images:
        height, width = (k // 2 for k in image.shape[:2])
        for corner in np.ndindex(2, 2):
            top, left = np.array(corner) * (height, width)
            for _ in range(n):
                r = top + rng.integers(height - side)
                c = left + rng.integers(width - side)
                X.append(image[r : r + side, c : c + side].ravel() / 255)
                y.append(len(y) // n)
    return np.array(X), np.array(y), (side, side, 3)


def letters(light=False, seed=0, side=24, n=40):
    """Ten letters in Matplotlib's fonts, moved a little, with noise."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.path import Path
    from matplotlib.textpath import TextPath

    rng, X, y = np.random.default_rng(seed), [], []
    fonts = [
        FontProperties(family=family, weight=weight, style=style)
        for family in ("DejaVu Sans", "DejaVu Serif", "DejaVu Sans Mono", "STIXGeneral")
        for weight in ("normal", "bold")
        for style in ("normal", "italic")
    ]
    r, c = np.indices((2 * side, 2 * side)).reshape(2, -1) / 2
    for code, letter in enumerate("ABEGHKMRSX"):
        for i in range(n):
            text = TextPath((0, 0), letter, size=14, prop=fonts[i % len(fonts)])
            angle, grow = rng.normal(0, 0.12), rng.uniform(0.8, 1.2, 2)
            turn = [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
            at = (text.vertices - text.get_extents().corners().mean(axis=0)) * grow
            at = at @ turn * [1, -1] + side / 2 + rng.uniform(-1.5, 1.5, 2)
            inside = Path(at, text.codes).contains_points(np.stack([c, r], axis=1))
            image = inside.reshape(side, 2, side, 2).mean(axis=(1, 3))
            image *= rng.uniform(0.6, 1)
            image = np.clip(image + 0.08 * rng.normal(size=image.shape), 0, 1)
            X.append((1 - image if light else image).ravel())
            y.append(code)
    return np.array(X), np.array(y), (side, side)


def boot(x, z, c, s):
    """Return the shaft and the foot of a boot."""
    return ((z > 0.2) & (x < 0.9)) | ((c < -0.1) & (z > -0.8 * s) & (x < 0.8))


def clothes(seed=0, side=28, n=60):
    """Seven kinds of filled garments with shading and stripes, on black."""
    rng, X, y = np.random.default_rng(seed), [], []
    r, c = np.indices((side, side)) / (side - 1) * 2 - 1
    for code in range(7):
        for _ in range(n):
            w, tall, s = rng.uniform(0.8, 1.2, 3)
            x, z = np.abs(c - rng.normal(0, 0.04)) / w, (r - rng.normal(0, 0.04)) / tall
            body = (x < 0.45) & (np.abs(z) < 0.85)
            mask = {
                0: body | ((z < -0.35) & (z > -0.85) & (x < 0.85 * s)),
                1: body | ((x < 0.95) & (z > -0.85) & (z < 0.8) & (x > 0.35 * s)),
                2: (np.abs(z) < 0.9) & (x < 0.5) & ((z < -0.5) | (x > 0.12 * s)),
                3: (np.abs(z) < 0.9) & (x < 0.3 + 0.3 * s * (z + 0.9) / 1.8),
                4: (np.abs(z) < 0.3 * s) & (x < 0.9) & (z > -0.3 + 0.5 * (c > 0)),
                5: (np.abs(z - 0.2) < 0.55 * s) & (x < 0.75),
                6: (z < 0.6) & (boot(x, z, c, s)),
            }[code]
            along = c if rng.random() < 0.5 else r
            wave = np.sin(rng.uniform(0, 9) * along + rng.uniform(0, 6))
            noise = 0.05 * rng.random((side, side))
            image = mask * ((0.6 + 0.3 * wave) * rng.uniform(0.5, 1) + noise)
            X.append(image.ravel())
            y.append(code)
    return np.array(X), np.array(y), (side, side)


def solids(seed=0, side=20, n=60):
    """Five shaded solids under any light, before a background of any brightness."""
    rng, X, y = np.random.default_rng(seed), [], []
    r, c = np.indices((side, side)) / (side - 1) * 2 - 1
    for code in range(5):
        for _ in range(n):
            x = (c - rng.normal(0, 0.1)) / rng.uniform(0.8, 1.2)
            z = r - rng.normal(0, 0.1)
            light = rng.normal(size=2)
            mask = [
                np.hypot(x, z) < 0.65,
                np.maximum(np.abs(x), np.abs(z)) < 0.55,
                (np.abs(z) < 0.6) & (np.abs(x) < (z + 0.6) / 2),
                (np.abs(z) < 0.6) & (np.abs(x) < 0.3),
                (np.hypot(x, z) < 0.7) & (np.hypot(x, z) > 0.35),
            ][code]
            shade = 0.5 + 0.3 * (light[0] * x + light[1] * z)
            ground = rng.uniform(0, 1) + 0.2 * rng.normal() * c
            image = np.where(mask, shade, ground) + 0.05 * rng.normal(size=(side, side))
            X.append(image.ravel())
            y.append(code)
    return np.array(X), np.array(y), (side, side)


def heights(seed=0, side=16, n=60):
    """Patches of a map of heights, in kilometres; the class is one of eight regions."""
    from matplotlib.cbook import get_sample_data

    with get_sample_data("jacksboro_fault_dem.npz") as file:
        whole = file["elevation"] / 1000
    rng, X, y = np.random.default_rng(seed), [], []
    height, width = whole.shape[0] // 2, whole.shape[1] // 4
    for code, corner in enumerate(np.ndindex(2, 4)):
        top, left = np.array(corner) * (height, width)
        for _ in range(n):
            r, c = top + rng.integers(height - side), left + rng.integers(width - side)
            X.append(whole[r : r + side, c : c + side].ravel())
            y.append(code)
    return np.array(X), np.array(y), (side, side)


def faces(seed=0, side=24, n=50):
    """Ten people by where eyes and mouth are, in any light, before a plain ground."""
    rng, X, y = np.random.default_rng(seed), [], []
    r, c = np.indices((side, side)) / (side - 1) * 2 - 1
    people = rng.uniform(-1, 1, (10, 6))
    for code, (wide, long, apart, high, mouth, lips) in enumerate(people):
        for _ in range(n):
            z = r - rng.normal(0, 0.06)
            x = (c - rng.normal(0, 0.06)) * np.exp(rng.normal(0, 0.06))
            head = np.hypot(x / (0.6 + 0.15 * wide), z / (0.75 + 0.2 * long)) < 1
            eyes = np.hypot(np.abs(x) - 0.25 - 0.07 * apart, z + 0.2 + 0.1 * high) < 0.1
            smile = 0.3 * rng.normal() * x**2
            lip = np.abs(z - 0.35 - 0.1 * mouth - smile) < 0.06 + 0.03 * lips
            dark = eyes | (lip & (np.abs(x) < 0.28))
            ground = rng.uniform(0, 0.6) + 0.1 * rng.normal() * c
            skin = 0.6 + 0.2 * rng.normal() * x + 0.1 * rng.normal()
            image = np.where(head, np.where(dark, 0.3 * skin, skin), ground)
            X.append((image + 0.05 * rng.normal(size=image.shape)).ravel())
            y.append(code)
    return np.array(X), np.array(y), (side, side)


def signs(seed=0, side=16, n=50):
    """Eight traffic signs, shapes in colours, by day and night, anywhere."""
    rng, X, y = np.random.default_rng(seed), [], []
    r, c = np.indices((side, side)) / (side - 1) * 2 - 1
    colours = np.array([[0.8, 0.1, 0.1], [0.1, 0.2, 0.8]])
    for code in range(8):
        for _ in range(n):
            grow = rng.uniform(0.8, 1.2)
            x, z = (c - rng.normal(0, 0.15)) * grow, (r - rng.normal(0, 0.15)) * grow
            mask = [
                np.hypot(x, z) < 0.65,
                np.maximum(np.abs(x), np.abs(z)) < 0.55,
                (np.abs(z) < 0.6) & (np.abs(x) < (z + 0.6) / 1.8),
                np.abs(x) + np.abs(z) < 0.75,
            ][code % 4]
            inner = (np.abs(z) < 0.12) & (np.abs(x) < 0.35)
            sign = np.where(inner[..., None], 0.9, colours[code // 4])
            ground = rng.uniform(0.1, 0.9, 3) + 0.2 * rng.normal() * r[..., None]
            image = np.where(mask[..., None], sign, ground) * rng.uniform(0.4, 1.1)
            X.append((image + 0.05 * rng.normal(size=image.shape)).ravel())
            y.append(code)
    return np.array(X), np.array(y), (side, side, 3)


def textures(seed=0, side=20, n=50):
    """Eight textures: noise that is smoothed along four directions, at two scales."""
    rng, X, y = np.random.default_rng(seed), [], []
    r, c = np.indices((side, side)) - (side - 1) / 2
    for code in range(8):
        for _ in range(n):
            angle = np.pi / 4 * (code % 4) + rng.normal(0, 0.1)
            along = np.cos(angle) * c + np.sin(angle) * r
            across = np.cos(angle) * r - np.sin(angle) * c
            fine = (1.0 + code // 4) * np.exp(rng.normal(0, 0.1))
            kernel = np.exp(-((along / (4 * fine)) ** 2) - (across / fine) ** 2)
            noise = np.fft.fft2(rng.normal(size=(side, side)))
            image = np.fft.ifft2(noise * np.fft.fft2(np.fft.ifftshift(kernel))).real
            image = image / image.std() + 0.5 * rng.normal(size=image.shape)
            X.append((rng.normal() + rng.uniform(0.5, 1) * image).ravel())
            y.append(code)
    return np.array(X), np.array(y), (side, side)


def faint(seed=0, side=16, n=50):
    """Six smooth pictures, always in place, in noise five times as strong."""
    rng, X, y = np.random.default_rng(seed), [], []
    pictures = gaussian_filter(rng.normal(size=(6, side, side)), (0, 2, 2), mode="wrap")
    for code, picture in enumerate(pictures / pictures.std(axis=(1, 2), keepdims=True)):
        for _ in range(n):
            X.append((picture + 5 * rng.normal(size=picture.shape)).ravel())
            y.append(code)
    return np.array(X), np.array(y), (side, side)


OTHERS = {
    "patches of photographs, colour": patches,
    "letters": lambda seed: letters(seed=seed),
    "letters on light paper": lambda seed: letters(light=True, seed=seed),
    "clothes, drawn": clothes,
    "solids, drawn": solids,
    "digits, 8 × 8": lambda _: (*load_digits(return_X_y=True), (8, 8)),
    "faces, drawn": faces,
    "signs, drawn, colour": signs,
    "textures, drawn": textures,
    "patches of a map of heights": heights,
    "faint pictures in noise, drawn": faint,
}
