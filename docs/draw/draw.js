// Draw a digit: strokes become eight by eight counts, as those the models learned from;
// an exported model answers with every stroke; the nearest model is bent to the drawing.
import * as ort from "./ort/ort.wasm.min.mjs";

const $ = (id) => document.getElementById(id);
const SIZE = 280; // of the paper
const FINE = 64; // pixels of the square that a drawing is brought to
const STROKE = 0.145; // width of a stroke in units of that square
const STEP = 10; // of the pen, by keyboard
const SPRING = 1e-5;

ort.env.wasm.numThreads = 1;
ort.env.wasm.wasmPaths = new URL("./ort/", import.meta.url).href;

const page = await (await fetch("models.json")).json();
const [HEIGHT, WIDTH] = page.shape;
const sessions = {};
async function session(name) {
  sessions[name] ??= ort.InferenceSession.create(`${name}.onnx`);
  return sessions[name];
}

// The paper.
const paper = $("paper");
const ink = paper.getContext("2d");
let strokes = [];
let current = null;
const pen = { x: SIZE / 2, y: SIZE / 2, shown: false };

function redraw() {
  ink.clearRect(0, 0, SIZE, SIZE);
  ink.strokeStyle = ink.fillStyle = "#1f2933";
  ink.lineWidth = 20;
  ink.lineCap = ink.lineJoin = "round";
  for (const stroke of strokes) trace(ink, stroke);
  if (pen.shown) {
    ink.strokeStyle = current ? "#c33a3a" : "#1f5f8b";
    ink.lineWidth = 3;
    ink.beginPath();
    ink.arc(pen.x, pen.y, 9, 0, 7);
    ink.stroke();
  }
}
function trace(context, points) {
  context.beginPath();
  context.moveTo(points[0].x, points[0].y);
  for (const point of points) context.lineTo(point.x + 0.01, point.y);
  context.stroke();
}

// A drawing as the models know digits: brought to one size, counted by blocks.
const fine = document.createElement("canvas");
fine.width = fine.height = FINE;
const small = fine.getContext("2d", { willReadFrequently: true });
function asDigit() {
  const points = strokes.flat();
  const xs = points.map((p) => p.x);
  const ys = points.map((p) => p.y);
  const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const width = STROKE * FINE;
  const room = FINE - width * 0.9;
  const tall = Math.max(bottom - top, 1);
  const broad = Math.max(right - left, 1);
  const scale = Math.min(room / tall, (0.8 * FINE - width * 0.9) / broad, 1.2);
  small.setTransform(1, 0, 0, 1, 0, 0);
  small.clearRect(0, 0, FINE, FINE);
  small.lineCap = small.lineJoin = "round";
  small.strokeStyle = "#000";
  small.setTransform(scale, 0, 0, scale,
    FINE / 2 - (scale * (left + right)) / 2, FINE / 2 - (scale * (top + bottom)) / 2);
  small.lineWidth = width / scale;
  for (const stroke of strokes) trace(small, stroke);
  const pixels = small.getImageData(0, 0, FINE, FINE).data;
  const digit = new Float32Array(HEIGHT * WIDTH);
  const block = [FINE / HEIGHT, FINE / WIDTH];
  for (let y = 0; y < FINE; y += 1) {
    for (let x = 0; x < FINE; x += 1) {
      digit[Math.floor(y / block[0]) * WIDTH + Math.floor(x / block[1])] += pixels[4 * (y * FINE + x) + 3];
    }
  }
  const full = 255 * block[0] * block[1];
  return digit.map((value) => Math.round((16 * value) / full) / 16);
}

// How a model bends: along its tangents to where it is nearest to the drawing.
function bend(model, digit) {
  const moves = model.frame.map((row) =>
    row.reduce((sum, t, k) => sum + t * (digit[k] - model.centre[k]), 0) / (1 + SPRING));
  const bent = (share) => model.centre.map((value, k) =>
    value + share * model.frame.reduce((sum, row, m) => sum + moves[m] * row[k], 0));
  const rest = bent(1).reduce((sum, value, k) => sum + (digit[k] - value) ** 2, 0);
  return { bent, distance: Math.sqrt(rest) };
}
function show(id, values, signed) {
  const canvas = $(id);
  canvas.width = WIDTH;
  canvas.height = HEIGHT;
  const context = canvas.getContext("2d");
  const image = context.createImageData(WIDTH, HEIGHT);
  values.forEach((value, k) => {
    let colour = [1 - value, 1 - value, 1 - value];
    if (signed) {
      const end = value > 0 ? [178, 24, 43] : [33, 102, 172];
      colour = end.map((c) => 1 + Math.min(1, Math.abs(value)) * (c / 255 - 1));
    }
    colour.forEach((c, i) => { image.data[4 * k + i] = 255 * Math.max(0, Math.min(1, c)); });
    image.data[4 * k + 3] = 255;
  });
  context.putImageData(image, 0, 0);
}

// The answer.
const bars = page.classes.map((label) => {
  const item = document.createElement("li");
  const [name, track, said] = [0, 0, 0].map(() => document.createElement("span"));
  name.textContent = label;
  track.className = "track";
  const [bar, need, zero] = ["i", "u", "s"].map((tag) => document.createElement(tag));
  track.append(bar, zero, need);
  item.append(name, track, said);
  $("margins").append(item);
  return { item, bar, need, said };
});
let asked = 0;
let busy = false;
let stale = false;
async function answer() {
  if (busy) {
    stale = true;
    return;
  }
  busy = true;
  document.documentElement.dataset.busy = "yes";
  asked += 1;
  const name = $("model").value;
  const model = await session(name);
  if (strokes.length) {
    const begin = performance.now();
    const digit = asDigit();
    const input = new ort.Tensor("float32", digit, [1, digit.length]);
    const outputs = await model.run({ [model.inputNames[0]]: input });
    tell(name, digit, outputs);
    const took = performance.now() - begin;
    $("timing").textContent = `answered in ${took.toFixed(1)} ms, in this browser`;
    document.documentElement.dataset.took = took.toFixed(2);
  } else rest();
  busy = false;
  document.documentElement.dataset.asked = asked;
  if (stale) {
    stale = false;
    await answer();
  } else document.documentElement.dataset.busy = "no";
}
function tell(name, digit, outputs) {
  const margins = Array.from(outputs.margin.data);
  const best = margins.indexOf(Math.max(...margins));
  const found = page.models.map((one) => ({ one, ...bend(one, digit) }))
    .sort((a, b) => a.distance - b.distance)[0];
  const strange = found.distance > page.limit;
  const accepted = Boolean(Number(outputs.accepted.data[0])) && !strange;
  const sure = Number(outputs.confidence.data[0]);
  const { threshold, maxError } = page[name];
  bars.forEach(({ item, bar, need, said }, k) => {
    const value = Math.max(-1, Math.min(1, margins[k]));
    item.classList.toggle("best", k === best);
    bar.style.left = `${50 + 50 * Math.min(value, 0)}%`;
    bar.style.width = `${50 * Math.abs(value)}%`;
    need.style.left = `${50 + 50 * threshold}%`;
    said.textContent = margins[k].toFixed(2).replace("-", "−");
  });
  const line = $("answer");
  line.classList.toggle("refused", !accepted);
  line.dataset.label = accepted ? page.classes[best] : "";
  line.replaceChildren();
  if (accepted) {
    const digitSaid = document.createElement("b");
    digitSaid.textContent = page.classes[best];
    line.append("This is a ", digitSaid);
  } else if (strange) line.textContent = "I would rather not say: this looks like no digit";
  else line.textContent = `I would rather not say (perhaps ${page.classes[best]})`;
  $("why").textContent = strange
    ? `Bent as far as it goes, the nearest model is ${found.distance.toFixed(2)} away; ` +
      `98 % of digits are within ${page.limit.toFixed(2)}.`
    : `Confidence ${sure.toFixed(3)}; it answers from ${threshold.toFixed(3)}, ` +
    `so that of digits by writers it does not know at most ${100 * maxError} % of its answers are wrong.`;
  const bent = found.bent(Number($("bend").value));
  show("seen", Array.from(digit));
  show("nearest", found.one.centre);
  show("bent", bent);
  show("left", bent.map((value, k) => digit[k] - value), true);
  const left = Math.sqrt(bent.reduce((sum, value, k) => sum + (digit[k] - value) ** 2, 0));
  $("nearest-name").textContent = `nearest TVQ model: a ${found.one.label}`;
  $("left-name").textContent = `left between them: ${left.toFixed(2)}`;
}
function rest() {
  $("answer").textContent = "Draw, and it will tell";
  $("answer").classList.remove("refused");
  $("answer").dataset.label = "";
  $("why").textContent = "";
  $("timing").textContent = "";
  for (const { item, bar, said } of bars) {
    item.classList.remove("best");
    bar.style.width = "0";
    said.textContent = "";
  }
  for (const id of ["seen", "nearest", "bent", "left"]) show(id, new Array(HEIGHT * WIDTH).fill(0));
}

// Mouse, touch and pen.
function at(event) {
  const box = paper.getBoundingClientRect();
  return {
    x: ((event.clientX - box.left) * SIZE) / box.width,
    y: ((event.clientY - box.top) * SIZE) / box.height,
  };
}
paper.addEventListener("pointerdown", (event) => {
  paper.setPointerCapture(event.pointerId);
  pen.shown = false;
  current = [at(event)];
  strokes.push(current);
  redraw();
  answer();
});
paper.addEventListener("pointermove", (event) => {
  if (!current || !paper.hasPointerCapture(event.pointerId)) return;
  current.push(...(event.getCoalescedEvents?.() ?? [event]).map(at), at(event));
  redraw();
  answer();
});
for (const name of ["pointerup", "pointercancel"]) {
  paper.addEventListener(name, () => {
    current = null;
    answer();
  });
}

// Keyboard.
const MOVES = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
paper.addEventListener("keydown", (event) => {
  const move = MOVES[event.key];
  if (move) {
    pen.x = Math.max(10, Math.min(SIZE - 10, pen.x + move[0] * STEP));
    pen.y = Math.max(10, Math.min(SIZE - 10, pen.y + move[1] * STEP));
    if (current) current.push({ x: pen.x, y: pen.y });
  } else if (event.key === " ") {
    current = current ? null : [{ x: pen.x, y: pen.y }];
    if (current) strokes.push(current);
  } else if (event.key === "Backspace") undo();
  else if (event.key === "Delete") clear();
  else return;
  event.preventDefault();
  pen.shown = true;
  redraw();
  answer();
});
paper.addEventListener("blur", () => {
  pen.shown = false;
  current = null;
  redraw();
});
function undo() {
  strokes.pop();
  current = null;
  redraw();
  answer();
}
function clear() {
  strokes = [];
  current = null;
  redraw();
  answer();
}
$("undo").addEventListener("click", undo);
$("clear").addEventListener("click", clear);
$("model").addEventListener("change", answer);
$("bend").addEventListener("input", answer);

rest();
$("answer").textContent = "Loading the model …";
// The first answer compiles; that is not the visitor's time.
const first = await session("tvq");
await first.run({ [first.inputNames[0]]: new ort.Tensor("float32", new Float32Array(HEIGHT * WIDTH), [1, HEIGHT * WIDTH]) });
rest();
document.documentElement.dataset.ready = "yes";
