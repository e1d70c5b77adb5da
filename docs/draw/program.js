// Evaluates an exported program: steps on the features, then the nearest affine model of
// each class. `digits.json`, written by train.py, has the arrays as 16-bit integers.

function unpack({ shape, factor, data }) {
  const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
  const values = Float64Array.from(new Int16Array(bytes.buffer), (v) => v * factor);
  return { shape, values };
}

function dot(a, i, b, j, n) {
  let sum = 0;
  for (let k = 0; k < n; k += 1) sum += a[i + k] * b[j + k];
  return sum;
}

export function load(stored) {
  const program = { ...stored, points: unpack(stored.points), frames: unpack(stored.frames) };
  program.steps = stored.steps.map(({ kind, ...arrays }) => ({
    kind,
    ...Object.fromEntries(Object.entries(arrays).map(([name, array]) => [name, unpack(array)])),
  }));
  return program;
}

// The features that the decision sees.
export function transform(program, x) {
  return program.steps.reduce((seen, step) => {
    if (step.kind === "affine") {
      const [centre, scale, shift] = [step.centre.values, step.scale.values, step.shift.values];
      return seen.map((value, k) => (value - centre[k]) * scale[k] + shift[k]);
    }
    const [rows, columns] = step.matrix.shape;
    return Float64Array.from({ length: rows }, (_, r) => dot(step.matrix.values, r * columns, seen, 0, columns));
  }, Float64Array.from(x));
}

// Back to pixels, as far as the components reach: rows of a projection are orthonormal.
export function restore(program, features) {
  return program.steps.reduceRight((seen, step) => {
    if (step.kind === "affine") {
      return seen.map((value, k) => (value - step.shift.values[k]) / step.scale.values[k] + step.centre.values[k]);
    }
    const [rows, columns] = step.matrix.shape;
    const back = new Float64Array(columns);
    for (let r = 0; r < rows; r += 1) {
      for (let c = 0; c < columns; c += 1) back[c] += seen[r] * step.matrix.values[r * columns + c];
    }
    return back;
  }, features);
}

// Margins, probabilities, the answer, and the nearest model, bent by a share of its moves.
export function answer(program, x) {
  const z = transform(program, x);
  const [count, width] = program.points.shape;
  const m = program.frames.shape[1];
  const D = new Float64Array(program.classes.length).fill(Infinity);
  let nearest = { distance: Infinity };
  for (let k = 0; k < count; k += 1) {
    const centre = program.points.values.subarray(k * width, (k + 1) * width);
    const rest = z.map((value, j) => value - centre[j]);
    const moves = Array.from({ length: m }, (_, i) => dot(program.frames.values, (k * m + i) * width, rest, 0, width));
    const left = Math.max(0, dot(rest, 0, rest, 0, width) - moves.reduce((sum, v) => sum + v * v, 0));
    const code = program.codes[k];
    D[code] = Math.min(D[code], left);
    if (left < nearest.distance) nearest = { distance: left, model: k, code, moves, centre };
  }
  const sorted = Float64Array.from(D).sort();
  const best = D.indexOf(sorted[0]);
  const margins = Array.from(D, (d, c) => {
    const other = c === best ? sorted[1] : sorted[0];
    return (other - d) / (other + d);
  });
  const scale = program.temperature * (sorted[0] + sorted[1]);
  const weights = Array.from(D, (d, c) => (c === best ? 1 : Math.exp(-(d - sorted[0]) / scale - program.lead)));
  const total = weights.reduce((sum, w) => sum + w, 0);
  const distance = Math.sqrt(nearest.distance);
  const bent = (share) => {
    const at = Float64Array.from(nearest.centre);
    nearest.moves.forEach((move, i) => {
      for (let j = 0; j < width; j += 1) at[j] += share * move * program.frames.values[(nearest.model * m + i) * width + j];
    });
    return restore(program, at);
  };
  return {
    best,
    margins,
    probabilities: weights.map((w) => w / total),
    confidence: margins[best],
    distance,
    unusual: distance > program.limit,
    accepted: margins[best] >= program.threshold && distance <= program.limit,
    label: program.classes[best],
    bent,
  };
}
