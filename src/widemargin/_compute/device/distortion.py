"""Image distortion distances on a device: a warp for a pair, a lane for a column.

A pair of gradient images needs (2w + 1)^2 comparisons of every pixel, each summed over
a patch. A block keeps one reference in shared memory; its warps meet one query after
the other, whose columns stay in registers. For every displacement along the rows the
column of the reference is read once and serves all displacements down the columns.
Sums over a patch go down the column first and then across the lanes. The kernel is
CUDA C, compiled for the size of the images when first needed; where that cannot be
done, or the images are wider than a warp, plain torch does the same. The pseudo
two-dimensional model is plain torch.

`x` is (n_x, channels, height + 2 patch, width + 2 patch), `y` (n_y, channels,
height + 2 (patch + reach), width + 2 (patch + reach)), where reach is the window, and
one more for the pseudo two-dimensional model; the result (n_x, n_y).
"""

from functools import cache
from typing import Any

import torch
from torch import Tensor

from widemargin._compute.device.pairs import chunk_until_fits

WARPS, QUERIES = 4, 8
_LANES = 32
# Costs of the pseudo two-dimensional model held at once.
_NUMBERS = 2**28

_SOURCE = r"""
#define ROWS (HEIGHT + 2 * PATCH)
#define COLUMNS (WIDTH + 2 * PATCH)
#define REACH (2 * WINDOW + 1)
#define Y_ROWS (ROWS + 2 * WINDOW)
#define Y_COLUMNS (COLUMNS + 2 * WINDOW)
#define AREA (Y_ROWS * Y_COLUMNS)

__device__ __forceinline__ float across(float v) {
  // Sum of 2 PATCH + 1 lanes from here on, by doubling.
  float total = 0.0f, run = v;
  int width = 1, done = 0;
  #pragma unroll
  for (int bit = 0; bit < 4; bit++) {
    if ((2 * PATCH + 1) & (1 << bit)) {
      total += done ? __shfl_down_sync(0xffffffffu, run, done) : run;
      done += 1 << bit;
    }
    if ((2 * PATCH + 1) >> (bit + 1)) {
      run += __shfl_down_sync(0xffffffffu, run, width);
      width *= 2;
    }
  }
  return total;
}

extern "C" __global__ void distortion(
    const float *x, const float *y, float *out, int n_x, int n_y,
    const float *per_move) {
  const float penalty = per_move[0];
  __shared__ float reference[CHANNELS * AREA];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const long long j = blockIdx.x;
  for (int k = threadIdx.x; k < CHANNELS * AREA; k += blockDim.x)
    reference[k] = y[j * CHANNELS * AREA + k];
  __syncthreads();
  const int column = lane < COLUMNS ? lane : COLUMNS - 1;
  #pragma unroll 1
  for (int t = 0; t < QUERIES; t++) {
    const long long i = ((long long)blockIdx.y * QUERIES + t) * WARPS + warp;
    if (i >= n_x) return;
    float query[CHANNELS][ROWS], best[HEIGHT];
    #pragma unroll
    for (int c = 0; c < CHANNELS; c++)
      #pragma unroll
      for (int r = 0; r < ROWS; r++)
        query[c][r] = x[((i * CHANNELS + c) * ROWS + r) * COLUMNS + column];
    #pragma unroll
    for (int r = 0; r < HEIGHT; r++) best[r] = 3.0e38f;
    // Not unrolled: the code must stay in the instruction cache.
    #pragma unroll 1
    for (int right = 0; right < REACH; right++) {
      float other[CHANNELS][Y_ROWS];
      #pragma unroll
      for (int c = 0; c < CHANNELS; c++)
        #pragma unroll
        for (int r = 0; r < Y_ROWS; r++)
          other[c][r] = reference[c * AREA + r * Y_COLUMNS + column + right];
      #pragma unroll
      for (int down = 0; down < REACH; down++) {
        const float cost = penalty * ((right - WINDOW) * (right - WINDOW)
                                    + (down - WINDOW) * (down - WINDOW));
        float square[2 * PATCH + 1];
        #pragma unroll
        for (int r = 0; r < ROWS; r++) {
          float e = 0.0f;
          #pragma unroll
          for (int c = 0; c < CHANNELS; c++) {
            const float d = query[c][r] - other[c][r + down];
            e += d * d;
          }
          square[r % (2 * PATCH + 1)] = e;
          if (r >= 2 * PATCH) {
            float patch = 0.0f;
            #pragma unroll
            for (int p = 0; p <= 2 * PATCH; p++) patch += square[p];
            best[r - 2 * PATCH] = fminf(best[r - 2 * PATCH], across(patch) + cost);
          }
        }
      }
    }
    float total = 0.0f;
    #pragma unroll
    for (int r = 0; r < HEIGHT; r++) total += best[r];
    if (lane >= WIDTH) total = 0.0f;
    for (int step = 16; step; step >>= 1)
      total += __shfl_down_sync(0xffffffffu, total, step);
    if (lane == 0) out[i * n_y + j] = total;
  }
}
"""


def distortion_pairs(
    x: Tensor, y: Tensor, model: Any, penalty: float, n_jobs: Any
) -> Tensor:
    """As `metrics.distortion.distortion_pairs`."""
    return distortion_distances(
        *_ends(x, y, model, model.window), patch=model.patch, window=model.window,
        penalty=penalty,
    )  # fmt: skip


def pseudo_2d_pairs(x: Tensor, y: Tensor, model: Any, n_jobs: Any) -> Tensor:
    """As `metrics.distortion.pseudo_2d_pairs`."""
    ends = _ends(x, y, model, model.window + 1)
    return pseudo_2d_distances(*ends, patch=model.patch, window=model.window)


def _ends(x: Tensor, y: Tensor, model: Any, reach: int) -> tuple[Tensor, Tensor]:
    """Gradient images of both ends; of `y` the columns and rows within reach, too."""
    options = (model.shape, model.background, model.softness)
    return (
        gradient_images(x, model.patch, *options),
        gradient_images(y, model.patch + reach, *options),
    )


def distortion_distances(
    x: Tensor, y: Tensor, *, patch: int, window: int, penalty: float = 0.0
) -> Tensor:
    """Distances of all pairs of padded gradient images, as above."""
    channels, rows, columns = x.shape[1:]
    height, width = rows - 2 * patch, columns - 2 * patch
    out = torch.empty((len(x), len(y)), dtype=x.dtype, device=x.device)
    kernel = None
    if x.is_cuda and x.dtype == torch.float32 and columns <= _LANES and patch <= 7:
        kernel = _kernel(height, width, channels, patch, window)
    if kernel is None:
        return _plain(x, y, out, patch, window, penalty)
    if len(x) and len(y):
        groups = -(-len(x) // (WARPS * QUERIES))
        kernel(
            grid=(len(y), groups, 1),
            block=(32 * WARPS, 1, 1),
            # The penalty in an array: torch hands numbers over as doubles.
            args=(
                x.contiguous(),
                y.contiguous(),
                out,
                len(x),
                len(y),
                torch.full((1,), penalty, device=x.device),
            ),
        )
    return out


@cache
def _kernel(height: int, width: int, channels: int, patch: int, window: int) -> Any:
    shared = (
        4 * channels * (height + 2 * (patch + window)) * (width + 2 * (patch + window))
    )
    build = getattr(torch.cuda, "_compile_kernel", None)
    # More shared memory must be asked for; taller images than this leave registers.
    if build is None or shared > 48 * 1024 or height > 64:
        return None
    return build(source_for(height, width, channels, patch, window), "distortion")


def source_for(height: int, width: int, channels: int, patch: int, window: int) -> str:
    """Write the kernel out for images of one size."""
    sizes = {
        "HEIGHT": height,
        "WIDTH": width,
        "CHANNELS": channels,
        "PATCH": patch,
        "WINDOW": window,
        "WARPS": WARPS,
        "QUERIES": QUERIES,
    }
    defines = "".join(f"#define {name} {value}\n" for name, value in sizes.items())
    return defines + _SOURCE


def _plain(
    x: Tensor, y: Tensor, out: Tensor, patch: int, window: int, penalty: float
) -> Tensor:
    def fill(at: slice) -> None:
        best: Any = None
        for down in range(2 * window + 1):
            for right in range(2 * window + 1):
                far = (down - window) ** 2 + (right - window) ** 2
                costs = _costs(x[at], y, patch, down, right) + penalty * far
                best = costs if best is None else torch.minimum(best, costs)
        out[at] = best.sum((2, 3))

    chunk_until_fits(max(1, 2**26 // max(1, y.numel())), len(x), fill)
    return out


def _costs(x: Tensor, y: Tensor, patch: int, down: int, right: int) -> Tensor:
    """Costs (n_x, n_y, height, width) of moving all pixels alike."""
    rows, columns = x.shape[2:]
    size = 2 * patch + 1
    moved = y[:, :, down : down + rows, right : right + columns]
    square = ((x[:, None] - moved[None]) ** 2).sum(2)
    return torch.nn.functional.avg_pool2d(square, size, 1) * size**2


def pseudo_2d_distances(x: Tensor, y: Tensor, *, patch: int, window: int) -> Tensor:
    """Distances of the pseudo two-dimensional model, of all pairs."""
    out = torch.empty((len(x), len(y)), dtype=x.dtype, device=x.device)
    moves = 2 * window + 1
    numbers = moves * (moves + 2) * x[0, 0].numel()
    # References that one query meets at once, and queries that meet them.
    some = max(1, min(len(y), _NUMBERS // numbers))
    for start in range(0, len(y), some):
        at_y = slice(start, start + some)

        def fill(at: slice, at_y: slice = at_y) -> None:
            out[at, at_y] = _pseudo_2d(x[at], y[at_y], patch, moves)

        chunk_until_fits(max(1, _NUMBERS // (some * numbers)), len(x), fill)
    return out


def _pseudo_2d(x: Tensor, y: Tensor, patch: int, moves: int) -> Tensor:
    # The moves along the rows are one wider, for single pixels.
    costs = [
        torch.stack([_costs(x, y, patch, a + 1, b) for a in range(moves)], -1)
        for b in range(moves + 2)
    ]
    near = torch.stack(
        [
            torch.minimum(torch.minimum(costs[b], costs[b + 1]), costs[b + 2])
            for b in range(moves)
        ]
    )
    columns = _cheapest_path(near.permute(3, 0, 1, 2, 4, 5))
    return _cheapest_path(columns.permute(3, 1, 2, 0))


def _cheapest_path(costs: Tensor) -> Tensor:
    """Least sum along the first axis, of entries of the last that are near by."""
    found = costs[0]
    for more in costs[1:]:
        before = found.clone()
        before[..., 1:] = torch.minimum(before[..., 1:], found[..., :-1])
        before[..., :-1] = torch.minimum(before[..., :-1], found[..., 1:])
        found = before + more
    return found.amin(-1)


def gradient_images(
    X: Tensor, pad: int, shape: tuple, background: float, softness: float
) -> Tensor:
    """Sobel gradients (n, 2, height + 2 pad, width + 2 pad), 1/8 of the usual sums.

    Divided by sqrt(|g|^2 + softness) unless that is negative.
    """
    images = torch.nn.functional.pad(
        X.reshape(len(X), *shape), (pad + 1,) * 4, value=background
    )
    along_y = images[:, 2:] - images[:, :-2]
    along_x = images[:, :, 2:] - images[:, :, :-2]
    gradients = (
        along_x[:, :-2] + 2 * along_x[:, 1:-1] + along_x[:, 2:],
        along_y[:, :, :-2] + 2 * along_y[:, :, 1:-1] + along_y[:, :, 2:],
    )
    found = torch.stack(gradients, 1) / 8
    if softness >= 0:
        found = found / ((found**2).sum(1, keepdim=True) + softness).sqrt()
    return found
