// Draw a digit: strokes become an image as MNIST's are, 28 by 28; a program that TVQ
// exported answers with every stroke; its nearest model is bent to the drawing.
import { paperOn, trace } from "./paper.js";
import { answer, load } from "./program.js";

const $ = (id) => document.getElementById(id);
const SHAPE = 28; // pixels of an image along each side
const FINE = 4; // finer pixels, along each side, that one pixel is the mean of
const BOX = 20; // pixels that the longer side of a digit has, as in MNIST
const STROKE = 2.7; // pixels that a stroke is wide

const program = load(await (await fetch("digits.json")).json());

// A drawing as MNIST has digits: within 20 pixels, its centre of mass in the middle.
const fine = document.createElement("canvas");
fine.width = fine.height = SHAPE * FINE;
const small = fine.getContext("2d", { willReadFrequently: true });
export function asDigit(lines) {
  const points = lines.flat();
  const xs = points.map((p) => p.x);
  const ys = points.map((p) => p.y);
  const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const scale = Math.min((BOX - STROKE) / Math.max(bottom - top, right - left, 1), 0.2);
  const painted = (x, y) => paint(lines, scale * FINE,
    FINE * (SHAPE / 2 + x - (scale * (left + right)) / 2),
    FINE * (SHAPE / 2 + y - (scale * (top + bottom)) / 2));
  const digit = painted(0, 0);
  let [mass, x, y] = [0, 0, 0];
  digit.forEach((value, k) => {
    mass += value;
    x += value * ((k % SHAPE) + 0.5);
    y += value * (Math.floor(k / SHAPE) + 0.5);
  });
  return painted(SHAPE / 2 - x / mass, SHAPE / 2 - y / mass);
}
function paint(lines, scale, x, y) {
  small.setTransform(1, 0, 0, 1, 0, 0);
  small.clearRect(0, 0, SHAPE * FINE, SHAPE * FINE);
  small.setTransform(scale, 0, 0, scale, x, y);
  small.lineCap = small.lineJoin = "round";
  small.strokeStyle = "#000";
  small.lineWidth = (STROKE * FINE) / scale;
  for (const line of lines) trace(small, line);
  const pixels = small.getImageData(0, 0, SHAPE * FINE, SHAPE * FINE).data;
  const digit = new Float64Array(SHAPE * SHAPE);
  for (let v = 0; v < SHAPE * FINE; v += 1) {
    for (let u = 0; u < SHAPE * FINE; u += 1) {
      digit[Math.floor(v / FINE) * SHAPE + Math.floor(u / FINE)] += pixels[4 * (v * SHAPE * FINE + u) + 3] / (255 * FINE * FINE);
    }
  }
  return digit;
}

function show(id, values, signed) {
  const canvas = $(id);
  canvas.width = SHAPE;
  canvas.height = SHAPE;
  const context = canvas.getContext("2d");
  const image = context.createImageData(SHAPE, SHAPE);
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
const bars = program.classes.map((label) => {
  const item = document.createElement("li");
  const [name, track, said] = [0, 0, 0].map(() => document.createElement("span"));
  name.textContent = label;
  track.className = "track";
  const bar = document.createElement("i");
  track.append(bar);
  item.append(name, track, said);
  $("margins").append(item);
  return { item, bar, said };
});
let asked = 0;
function tell() {
  asked += 1;
  if (strokes.length) {
    const begin = performance.now();
    const digit = asDigit(strokes);
    say(digit, answer(program, digit));
    const took = performance.now() - begin;
    $("timing").textContent = `answered in ${took.toFixed(1)} ms, in this browser`;
    document.documentElement.dataset.took = took.toFixed(2);
  } else rest();
  document.documentElement.dataset.asked = asked;
}
function say(digit, found) {
  bars.forEach(({ item, bar, said }, k) => {
    const share = found.probabilities[k];
    item.classList.toggle("best", k === found.best);
    bar.style.width = `${100 * share}%`;
    said.textContent = `${(100 * share).toFixed(share > 0.995 && share < 0.9995 ? 1 : 0)} %`;
  });
  const line = $("answer");
  line.classList.toggle("rejected", !found.accepted);
  line.dataset.label = found.accepted ? found.label : "";
  line.replaceChildren();
  const digitSaid = document.createElement("b");
  digitSaid.textContent = found.label;
  if (found.accepted) line.append("This is a ", digitSaid);
  else if (found.unusual) line.textContent = "I abstain: this looks like no digit";
  else line.append("I abstain: this may be a ", digitSaid);
  const errors = 100 * program.maxError;
  $("why").textContent = found.unusual
    ? `The nearest prototype, moved to the drawing, is ${found.distance.toFixed(2)} away; ` +
      `${100 * program.likeADigit} % of digits are within ${program.limit.toFixed(2)}.`
    : `Margin ${found.confidence.toFixed(2)}. It answers if the margin is at least ` +
      `${program.threshold.toFixed(2)}. Then at most ${errors} % of its answers on digits ` +
      "by new writers are wrong.";
  const bent = found.bent(Number($("bend").value));
  const rest = bent.map((value, k) => digit[k] - value);
  show("seen", Array.from(digit));
  show("nearest", Array.from(found.bent(0)));
  show("bent", Array.from(bent));
  show("left", Array.from(rest), true);
  const left = Math.sqrt(rest.reduce((sum, value) => sum + value ** 2, 0));
  $("nearest-name").textContent = `nearest prototype: a ${found.label}`;
  $("left-name").textContent = `difference: ${left.toFixed(2)}`;
}
function rest() {
  $("answer").textContent = "Draw a digit";
  $("answer").classList.remove("rejected");
  $("answer").dataset.label = "";
  $("why").textContent = "";
  $("timing").textContent = "";
  for (const { item, bar, said } of bars) {
    item.classList.remove("best");
    bar.style.width = "0";
    said.textContent = "";
  }
  for (const id of ["seen", "nearest", "bent", "left"]) show(id, new Array(SHAPE * SHAPE).fill(0));
}

let strokes = [];
const { undo, clear } = paperOn($("paper"), (drawn) => {
  strokes = drawn;
  tell();
});
$("undo").addEventListener("click", undo);
$("clear").addEventListener("click", clear);
$("bend").addEventListener("input", tell);

rest();
document.documentElement.dataset.ready = "yes";
