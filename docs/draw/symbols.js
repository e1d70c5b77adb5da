// Symbols of one's own: a drawing is learned under a name, the next ones are read.
import { SHAPE, imageOf, learned, read, unitOf } from "./fewshot.js";
import { paperOn } from "./paper.js";

const $ = (id) => document.getElementById(id);
const SURE = 0.6; // probability from which the answer is told as one
let examples = [];
let unit = 1;
let drawn = [];

function show(canvas, image) {
  const context = canvas.getContext("2d");
  const pixels = context.createImageData(SHAPE, SHAPE);
  image.forEach((value, k) => pixels.data.set([0, 1, 2].map(() => 255 * (1 - value)).concat(255), 4 * k));
  context.putImageData(pixels, 0, 0);
}

function element(tag, parent, settings) {
  const made = Object.assign(document.createElement(tag), settings);
  parent.append(made);
  return made;
}

function tell() {
  const names = new Set(examples.map((one) => one.label));
  const ready = drawn.length > 0 && names.size > 1;
  const answer = $("answer");
  answer.classList.remove("rejected");
  answer.dataset.label = "";
  $("shares").replaceChildren();
  $("why").textContent = $("timing").textContent = "";
  $("nearest-name").textContent = "nearest example";
  const image = drawn.length ? imageOf(drawn) : new Float64Array(SHAPE * SHAPE);
  show($("seen"), image);
  show($("nearest"), new Float64Array(SHAPE * SHAPE));
  if (!ready) {
    answer.textContent = names.size > 1 ? "Draw one of them" : `Draw a symbol, name it, press Learn (${names.size} of 2)`;
    return;
  }
  const begin = performance.now();
  const found = read(image, examples, unit);
  const share = found.probabilities[found.best];
  answer.dataset.label = found.label;
  answer.classList.toggle("rejected", share < SURE);
  answer.replaceChildren(share < SURE ? "Perhaps " : "This is ");
  element("b", answer, { textContent: found.label });
  if (share < SURE) $("why").textContent = "Not sure. Press Learn under its name, and it is one more example.";
  const order = found.labels.map((_, k) => k).sort((j, k) => found.probabilities[k] - found.probabilities[j]);
  for (const k of order.slice(0, 8)) {
    const percent = (100 * found.probabilities[k]).toFixed(0);
    const item = element("li", $("shares"), { className: k === found.best ? "best" : "" });
    element("span", item, { textContent: found.labels[k] });
    const track = element("span", item, { className: "track" });
    element("i", track, {}).style.width = `${percent}%`;
    element("span", item, { textContent: `${percent} %` });
  }
  show($("nearest"), found.nearest.image);
  $("nearest-name").textContent = `nearest example: ${found.label === found.nearest.label ? "" : "of "}${found.nearest.label}`;
  const took = performance.now() - begin;
  $("timing").textContent = `answered in ${took.toFixed(0)} ms, in this browser`;
  document.documentElement.dataset.took = took.toFixed(2);
}

function list() {
  $("examples").replaceChildren();
  for (const example of examples) {
    const item = element("li", $("examples"), {});
    const picture = element("canvas", item, { width: SHAPE, height: SHAPE });
    picture.setAttribute("role", "img");
    picture.setAttribute("aria-label", `example of ${example.label}`);
    show(picture, example.image);
    element("span", item, { textContent: example.label });
    const remove = element("button", item, { type: "button", textContent: "Forget" });
    remove.setAttribute("aria-label", `Forget this example of ${example.label}`);
    remove.addEventListener("click", () => {
      examples = examples.filter((one) => one !== example);
      known();
      $("paper").focus();
    });
  }
}

function known() {
  unit = unitOf(examples);
  list();
  tell();
  document.documentElement.dataset.examples = examples.length;
}

// The letter after the last new one; names that are taken are passed over.
function nextName() {
  const taken = new Set(examples.map((one) => one.label));
  const letters = [..."ABCDEFGHIJKLMNOPQRSTUVWXYZ"];
  return letters.find((letter) => !taken.has(letter)) ?? "";
}

$("teach").addEventListener("submit", (event) => {
  event.preventDefault();
  const name = $("name").value.trim();
  if (!name) {
    $("why").textContent = "Give the symbol a name first.";
    $("name").focus();
    return;
  }
  if (!drawn.length) {
    $("why").textContent = "Draw the symbol first.";
    $("paper").focus();
    return;
  }
  examples.push(learned(name, drawn));
  $("name").value = nextName();
  clear();
  known();
});
const { undo, clear } = paperOn($("paper"), (strokes) => {
  drawn = strokes;
  tell();
});
$("undo").addEventListener("click", undo);
$("clear").addEventListener("click", clear);

known();
document.documentElement.dataset.ready = "yes";
