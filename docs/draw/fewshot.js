// Reads symbols from one example of each, as widemargin's FewShotImageClassifier does:
// copies of every example, candidates by their features, a density in the image
// distortion model. Strokes are lists of points {x, y}; images have 28 by 28 pixels.
export const SHAPE = 28;
const BOX = 20; // pixels that the longer side of a symbol has
const STROKE = 2.7; // pixels that a stroke is wide
const WINDOW = 3; // pixels that a pixel may move
const PATCH = 2; // pixels on each side that are compared with it
const PENALTY = 0.033; // of a move, times its squared length
const SOFT = 0.1; // gradient from which an edge is an edge
const GAMMA = 8; // of the density, over the distance between symbols
const LABELS = 6; // labels, the nearest by features, whose copies are compared
const CANDIDATES = 2; // copies of each of them
const COPIES = [-0.15, 0, 0.15].flatMap((turn) => [1 / 1.15, 1, 1.15].map((wide) => ({ turn, wide })));

// The image of strokes within a box of 20 pixels, its centre of mass in the middle. A
// copy is drawn turned and stretched, by its strokes: nothing is interpolated.
export function imageOf(strokes, { turn, wide } = { turn: 0, wide: 1 }) {
  const [c, s] = [Math.cos(turn), Math.sin(turn)];
  const moved = strokes.map((stroke) => stroke.map(({ x, y }) => ({ x: wide * (c * x - s * y), y: s * x + c * y })));
  const xs = moved.flat().map((p) => p.x);
  const ys = moved.flat().map((p) => p.y);
  const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const scale = Math.min((BOX - STROKE) / Math.max(right - left, bottom - top, 1), 0.2);
  const lines = moved.map((stroke) => thinned(stroke.map((p) => ({
    x: SHAPE / 2 + scale * (p.x - (left + right) / 2),
    y: SHAPE / 2 + scale * (p.y - (top + bottom) / 2),
  }))));
  const image = painted(lines);
  let [mass, x, y] = [0, 0, 0];
  image.forEach((value, k) => {
    mass += value;
    x += value * ((k % SHAPE) + 0.5);
    y += value * (Math.floor(k / SHAPE) + 0.5);
  });
  const [right1, down] = [SHAPE / 2 - x / mass, SHAPE / 2 - y / mass];
  return painted(lines.map((line) => line.map((p) => ({ x: p.x + right1, y: p.y + down }))));
}

// Points less than half a pixel from the last are left out; the end stays.
function thinned(line) {
  const kept = [line[0]];
  for (const p of line) {
    const last = kept[kept.length - 1];
    if (Math.hypot(p.x - last.x, p.y - last.y) >= 0.5) kept.push(p);
  }
  if (kept.length > 1) kept[kept.length - 1] = line[line.length - 1];
  return kept;
}

// A pixel is as dark as it is near a stroke.
function painted(lines) {
  const image = new Float64Array(SHAPE * SHAPE);
  for (const line of lines) {
    for (let i = 0; i < Math.max(1, line.length - 1); i += 1) {
      const [p, q] = [line[i], line[Math.min(i + 1, line.length - 1)]];
      const [dx, dy] = [q.x - p.x, q.y - p.y];
      const length = dx * dx + dy * dy;
      const first = (low) => Math.max(0, Math.floor(low - STROKE));
      const last = (high) => Math.min(SHAPE - 1, Math.ceil(high + STROKE));
      for (let r = first(Math.min(p.y, q.y)); r <= last(Math.max(p.y, q.y)); r += 1) {
        for (let k = first(Math.min(p.x, q.x)); k <= last(Math.max(p.x, q.x)); k += 1) {
          const [x, y] = [k + 0.5 - p.x, r + 0.5 - p.y];
          const t = length ? Math.max(0, Math.min(1, (x * dx + y * dy) / length)) : 0;
          const dark = STROKE / 2 + 0.5 - Math.hypot(x - t * dx, y - t * dy);
          const at = r * SHAPE + k;
          image[at] = Math.max(image[at], Math.min(1, dark));
        }
      }
    }
  }
  return image;
}

// Normalised gradients of an image with a border of `pad` pixels, both channels.
function gradients(image, pad) {
  const side = SHAPE + 2 * pad;
  const value = (r, c) => (r < 0 || c < 0 || r >= SHAPE || c >= SHAPE ? 0 : image[r * SHAPE + c]);
  const [gx, gy] = [new Float64Array(side * side), new Float64Array(side * side)];
  for (let r = 0; r < side; r += 1) {
    for (let c = 0; c < side; c += 1) {
      const at = (a, b) => value(r - pad + a, c - pad + b);
      const one = at(1, 1) - at(-1, -1);
      const other = at(-1, 1) - at(1, -1);
      const x = (one + other + 2 * (at(0, 1) - at(0, -1))) / 8;
      const y = (one - other + 2 * (at(1, 0) - at(-1, 0))) / 8;
      const root = Math.sqrt(x * x + y * y + SOFT * SOFT);
      gx[r * side + c] = x / root;
      gy[r * side + c] = y / root;
    }
  }
  return { gx, gy, side };
}

// How far `y`, distorted, is from `x`: gradients of a query and of a reference.
function distance(x, y) {
  const around = x.side;
  const difference = new Float64Array(around * around);
  const sums = new Float64Array(around * SHAPE);
  const best = new Float64Array(SHAPE * SHAPE).fill(Infinity);
  for (let a = 0; a <= 2 * WINDOW; a += 1) {
    for (let b = 0; b <= 2 * WINDOW; b += 1) {
      const extra = PENALTY * ((a - WINDOW) ** 2 + (b - WINDOW) ** 2);
      for (let r = 0; r < around; r += 1) {
        let [i, j] = [r * around, (r + a) * y.side + b];
        for (const end = i + around; i < end; i += 1, j += 1) {
          const [u, v] = [x.gx[i] - y.gx[j], x.gy[i] - y.gy[j]];
          difference[i] = u * u + v * v;
        }
        for (let c = 0; c < SHAPE; c += 1) {
          let sum = 0;
          for (let k = 0; k <= 2 * PATCH; k += 1) sum += difference[r * around + c + k];
          sums[r * SHAPE + c] = sum;
        }
      }
      for (let p = 0; p < SHAPE * SHAPE; p += 1) {
        let cost = extra;
        for (let k = 0; k <= 2 * PATCH; k += 1) cost += sums[p + k * SHAPE];
        if (cost < best[p]) best[p] = cost;
      }
    }
  }
  return best.reduce((sum, cost) => sum + cost, 0);
}

export function distortion(query, reference) {
  return distance(gradients(query, PATCH), gradients(reference, PATCH + WINDOW));
}

// Gradients averaged over squares of four pixels: what candidates are found by.
function features(image) {
  const { gx, gy } = gradients(image, 0);
  const cells = SHAPE / 4;
  const found = new Float64Array(4 * cells * cells);
  gx.forEach((x, k) => {
    const at = 4 * (Math.floor(k / SHAPE / 4) * cells + Math.floor((k % SHAPE) / 4));
    const parts = [Math.max(0, x), Math.max(0, -x), Math.max(0, gy[k]), Math.max(0, -gy[k])];
    parts.forEach((part, i) => { found[at + i] += part; });
  });
  return found;
}

// What is kept of one labelled drawing.
export function learned(label, strokes) {
  const copies = COPIES.map((copy) => {
    const image = imageOf(strokes, copy);
    return { image, label, features: features(image), seen: gradients(image, PATCH + WINDOW) };
  });
  return { label, image: imageOf(strokes), copies };
}

// The nearest copies of the labels that are near by their features, by distortion.
function nearestOf(image, examples) {
  const z = features(image);
  const seen = gradients(image, PATCH);
  const lists = new Map();
  for (const { label, copies } of examples) {
    if (!lists.has(label)) lists.set(label, []);
    for (const copy of copies) {
      lists.get(label).push({ copy, label, far: copy.features.reduce((sum, v, k) => sum + (v - z[k]) ** 2, 0) });
    }
  }
  for (const list of lists.values()) list.sort((p, q) => p.far - q.far);
  return [...lists.values()]
    .sort((p, q) => p[0].far - q[0].far)
    .slice(0, LABELS)
    .flatMap((list) => list.slice(0, CANDIDATES))
    .map((one) => ({ ...one, distance: distance(seen, one.copy.seen) }));
}

// How far symbols are apart: the unit of distances. One symbol has none.
export function unitOf(examples) {
  const apart = [];
  for (const example of examples) {
    const others = examples.filter(({ label }) => label !== example.label);
    if (!others.length) continue;
    apart.push(Math.min(...nearestOf(example.image, others).map((one) => one.distance)));
  }
  apart.sort((a, b) => a - b);
  return apart.length ? (apart[(apart.length - 1) >> 1] + apart[apart.length >> 1]) / 2 : 1;
}

// Labels, their probabilities, and the copy that the image is nearest to. A label that
// was not compared counts as one copy at the distance of the farthest.
export function read(image, examples, unit, gamma = GAMMA) {
  const found = nearestOf(image, examples);
  const nearest = found.reduce((best, one) => (one.distance < best.distance ? one : best));
  const farthest = Math.max(...found.map((one) => one.distance));
  const bump = (far) => Math.exp((-gamma * (far - nearest.distance)) / unit);
  const labels = [...new Set(examples.map((one) => one.label))];
  const shares = labels.map((label) => {
    const own = found.filter((one) => one.label === label);
    return own.length ? own.reduce((sum, one) => sum + bump(one.distance), 0) : bump(farthest);
  });
  const total = shares.reduce((sum, share) => sum + share, 0);
  const probabilities = shares.map((share) => share / total);
  const best = probabilities.indexOf(Math.max(...probabilities));
  return { labels, probabilities, best, label: labels[best], nearest: nearest.copy, distance: nearest.distance / unit };
}
