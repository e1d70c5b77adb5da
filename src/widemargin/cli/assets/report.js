"use strict";
// The report, to touch. Everything here is also on the page without it: tables and
// pictures. All strings come from data and go into the page as text, never as HTML.
(() => {
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("data").textContent);
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const array = (Type, text) => new Type(bytes(text).buffer);
  const truth = array(Uint16Array, data.truth);
  const answer = array(Uint16Array, data.answer);
  const level = array(Uint32Array, data.level);
  const levels = array(Float32Array, data.levels);
  const margin = array(Float32Array, data.margin);
  const place = array(Int32Array, data.place); // in the sprites, -1 where not shown
  const n = truth.length;
  const percent = (share, digits) => `${(100 * share).toFixed(digits)} %`;
  const number = (value) => {
    const short = value.toPrecision(3);
    return Math.abs(value) >= 1e-4 && Math.abs(value) < 1e5
      ? String(Number(short)) : short;
  };
  const make = (tag, text, className) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (className) element.className = className;
    return element;
  };

  // At least how sure: error, refused share and marks move together.
  const rightAt = new Uint32Array(levels.length + 1);
  const wrongAt = new Uint32Array(levels.length + 1);
  for (let i = 0; i < n; i += 1) (truth[i] === answer[i] ? rightAt : wrongAt)[level[i]] += 1;
  for (let t = levels.length - 1; t >= 0; t -= 1) {
    rightAt[t] += rightAt[t + 1];
    wrongAt[t] += wrongAt[t + 1];
  }
  const slider = $("threshold");
  let threshold = 0;
  const svgX = (plot, value) =>
    plot.left + (plot.width * (value - plot.low)) / (plot.high - plot.low);
  const svgY = (plot, value) =>
    plot.top + plot.height * (1 - (value - plot.bottom) / (plot.ceiling - plot.bottom));
  function moveThreshold() {
    threshold = Number(slider.value);
    const accepted = rightAt[threshold] + wrongAt[threshold];
    const error = accepted ? wrongAt[threshold] / accepted : 0;
    const refused = 1 - accepted / n;
    const at = threshold < levels.length ? number(levels[threshold]) : "∞";
    $("said-threshold").textContent = at;
    $("said-error").textContent = percent(error, 2);
    $("said-refused").textContent = percent(refused, 1);
    $("said-counts").textContent = `${wrongAt[threshold]} wrong of ${accepted} answered`;
    slider.setAttribute("aria-valuetext",
      `answers from a confidence of ${at}: error ${percent(error, 2)}, ` +
      `rejected ${percent(refused, 1)}`);
    const sure = data.plots.margin;
    const value = threshold < levels.length ? levels[threshold] : sure.high;
    const left = Math.max(svgX(sure, -value), sure.left);
    const right = Math.min(Math.max(svgX(sure, value), sure.left), sure.left + sure.width);
    for (const [id, x] of [["mark-low", left], ["mark-high", right]]) {
      $(id).setAttribute("x1", x);
      $(id).setAttribute("x2", x);
    }
    $("band").setAttribute("x", left);
    $("band").setAttribute("width", Math.max(right - left, 0));
    const buys = data.plots.reject;
    $("reject-dot").setAttribute("cx", Math.min(svgX(buys, 100 * refused), buys.left + buys.width));
    $("reject-dot").setAttribute("cy", svgY(buys, 100 * error));
    for (const id of ["marks", "reject-dot"]) $(id).removeAttribute("hidden");
    if ($("which").value === "refused" || $("which").value === "answered") list();
    else for (const item of document.querySelectorAll(".samples button")) dash(item);
  }

  // Pictures: cells of sprites, or curves drawn from numbers.
  const sprites = {};
  for (const name of ["samples", "references", "residuals"]) {
    if ($(`sprite-${name}`)) sprites[name] = $(`sprite-${name}`);
  }
  const curves = data.curves && {
    samples: array(Uint8Array, data.curves.samples),
    references: data.curves.references && array(Uint8Array, data.curves.references),
    residuals: data.curves.residuals && array(Uint8Array, data.curves.residuals),
  };
  const hasPictures = Boolean(curves) || "samples" in sprites;
  function picture(name, cell, size, words) {
    const canvas = make("canvas");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", words);
    const [h, w] = data.cell || [1, 1.6];
    canvas.width = w >= h ? size : Math.round((size * w) / h);
    canvas.height = w >= h ? Math.round((size * h) / w) : size;
    const pen = canvas.getContext("2d");
    if (curves) {
      curve(pen, curves[name], cell, canvas.width, canvas.height);
    } else {
      pen.imageSmoothingEnabled = false;
      const perRow = data.perRow;
      const x = (cell % perRow) * w;
      const y = Math.floor(cell / perRow) * h;
      pen.drawImage(sprites[name], x, y, w, h, 0, 0, canvas.width, canvas.height);
    }
    return canvas;
  }
  function curve(pen, values, cell, width, height) {
    const length = data.curves.length;
    pen.strokeStyle = pen.fillStyle = "#1f2933";
    pen.lineWidth = Math.max(1, width / 120);
    pen.beginPath();
    for (let k = 0; k < length; k += 1) {
      const x = 3 + ((width - 6) * (length > 1 ? k / (length - 1) : 0.5));
      const y = 3 + (height - 6) * (1 - values[cell * length + k] / 255);
      if (data.curves.dots) {
        pen.moveTo(x, y);
        pen.arc(x, y, Math.max(1.6, width / 70), 0, 7);
      } else pen.lineTo(x, y);
    }
    if (data.curves.dots) pen.fill();
    else pen.stroke();
  }

  // The list of samples.
  const order = Array.from({ length: n }, (_, i) => i);
  const STEP = 60;
  let shownCount = STEP;
  let chosen = -1;
  for (const id of ["truth", "answer"]) {
    data.classes.forEach((label, code) => {
      const option = make("option", label);
      option.value = code;
      $(id).append(option);
    });
  }
  function matches() {
    const wanted = $("which").value;
    const a = $("truth").value;
    const b = $("answer").value;
    const words = $("search").value.trim().toLowerCase();
    const found = order.filter((i) => {
      const right = truth[i] === answer[i];
      const accepted = level[i] >= threshold;
      return (a === "" || truth[i] === Number(a)) && (b === "" || answer[i] === Number(b)) &&
        (wanted === "all" || (wanted === "right" && right) || (wanted === "wrong" && !right) ||
          (wanted === "refused" && !accepted) || (wanted === "answered" && accepted)) &&
        (!words || name(i).toLowerCase().includes(words));
    });
    const by = $("order").value;
    if (by !== "row") found.sort((i, j) => (by === "least" ? 1 : -1) * (margin[i] - margin[j]) || i - j);
    return found;
  }
  const name = (i) => (data.rows ? data.rows[i] : `row ${i + 1}`);
  const says = (i) => `${name(i)}: ${data.classes[truth[i]]} taken for ` +
    `${data.classes[answer[i]]}, margin ${number(margin[i])}`;
  function dash(item) {
    const kept = level[Number(item.dataset.sample)] < threshold;
    item.classList.toggle("kept", kept);
  }
  function list() {
    const found = matches();
    const items = found.slice(0, shownCount).map((i) => {
      const button = make("button");
      button.type = "button";
      button.dataset.sample = i;
      button.setAttribute("aria-pressed", String(i === chosen));
      button.setAttribute("aria-label", says(i));
      dash(button);
      if (hasPictures && place[i] >= 0) {
        button.append(picture("samples", place[i], 72, ""));
        button.firstChild.removeAttribute("role");
        button.firstChild.removeAttribute("aria-label");
      }
      const right = truth[i] === answer[i];
      button.append(make("div", right ? data.classes[truth[i]]
        : `${data.classes[truth[i]]} as ${data.classes[answer[i]]}`, right ? "" : "wrong"));
      button.append(make("div", number(margin[i]), "soft"));
      button.addEventListener("click", () => choose(i));
      const item = make("li");
      item.append(button);
      return item;
    });
    $("samples").replaceChildren(...items);
    $("found").textContent = `${found.length} of ${n} samples` +
      (found.length > items.length ? `, the first ${items.length} shown` : "");
    $("more").hidden = found.length <= items.length;
  }
  function choose(i) {
    chosen = i;
    for (const item of document.querySelectorAll(".samples button")) {
      item.setAttribute("aria-pressed", String(Number(item.dataset.sample) === i));
    }
    const detail = $("detail");
    const words = make("div", undefined, "words");
    words.append(make("h3", name(i)));
    const refused = level[i] < threshold;
    for (const line of [
      `is ${data.classes[truth[i]]}, taken for ${data.classes[answer[i]]}`,
      `margin ${number(margin[i])}, confidence ${number(levels[level[i]])}`,
      refused ? "rejected at this threshold" : "answered at this threshold",
    ]) words.append(make("div", line));
    const figures = [words];
    const cell = place[i];
    const figure = (kind, where, caption) => {
      const box = make("figure");
      box.append(picture(kind, where, 168, caption), make("figcaption", caption));
      figures.push(box);
    };
    if (hasPictures && cell >= 0) {
      figure("samples", cell, "the sample");
      if (data.reference) {
        const k = data.reference.index[cell];
        const label = data.reference.labels[k];
        figure("references", k, `nearest ${data.reference.what}${label ? ` (${label})` : ""}`);
        figure("residuals", cell, `left between them: ${number(data.reference.distance[cell])}`);
      }
    } else if (hasPictures) {
      words.append(make("div", "its picture was left out to keep this file small", "soft"));
    }
    detail.replaceChildren(...figures);
    detail.hidden = false;
  }
  function restart() {
    shownCount = STEP;
    list();
  }
  for (const id of ["which", "truth", "answer", "order"]) $(id).addEventListener("change", restart);
  $("search").addEventListener("input", restart);
  $("more").addEventListener("click", () => {
    const first = shownCount;
    shownCount += STEP;
    list();
    $("samples").children[first].firstChild.focus();
  });

  // A cell of the confusion matrix lists its samples.
  for (const cell of document.querySelectorAll("td[data-cell]")) {
    const [i, j] = cell.dataset.cell.split(" ");
    const button = make("button", cell.textContent);
    button.type = "button";
    button.setAttribute("aria-label",
      `${cell.textContent} samples of ${data.classes[i]} taken for ${data.classes[j]}: list them`);
    button.addEventListener("click", () => {
      $("truth").value = i;
      $("answer").value = j;
      $("which").value = "all";
      $("search").value = "";
      restart();
      $("list").scrollIntoView({ block: "start" });
      $("samples").querySelector("button").focus({ preventScroll: true });
    });
    cell.replaceChildren(button);
  }

  // What may vary: a sample or a model, moved along its tangents.
  function sweeps() {
    const part = data.sweeps;
    const values = array(Int16Array, part.values);
    const [h, w] = part.cell;
    const size = h * w * part.channels;
    const moves = new Array(part.names.length).fill(0);
    const canvas = $("swept");
    const pen = canvas.getContext("2d");
    const small = document.createElement("canvas");
    small.width = w;
    small.height = h;
    canvas.width = 8 * Math.max(w, 24);
    canvas.height = Math.round((canvas.width * h) / w);
    if (part.curve) canvas.height = Math.round(canvas.width * 0.62);
    function draw() {
      const start = Number($("swept-what").value) * (part.names.length + 1) * size;
      const row = new Float32Array(size);
      for (let k = 0; k < size; k += 1) {
        let value = values[start + k] / 16383;
        for (let m = 0; m < moves.length; m += 1) {
          if (moves[m]) value += (moves[m] * values[start + (m + 1) * size + k]) / 16383;
        }
        row[k] = value;
      }
      if (part.curve) {
        pen.clearRect(0, 0, canvas.width, canvas.height);
        pen.strokeStyle = "#1f2933";
        pen.lineWidth = 2;
        pen.beginPath();
        row.forEach((value, k) => pen.lineTo((k * canvas.width) / (size - 1),
          canvas.height * (0.85 - 0.7 * value)));
        pen.stroke();
        return;
      }
      const ink = small.getContext("2d");
      const pixels = ink.createImageData(w, h);
      for (let k = 0; k < h * w; k += 1) {
        for (let c = 0; c < 3; c += 1) {
          const value = row[part.channels === 1 ? k : k * part.channels + c];
          const dark = part.channels === 1 && !part.light;
          const grey = Math.max(0, Math.min(1, dark ? 1 - value : value));
          pixels.data[4 * k + c] = 255 * grey;
        }
        pixels.data[4 * k + 3] = 255;
      }
      ink.putImageData(pixels, 0, 0);
      pen.imageSmoothingEnabled = false;
      pen.drawImage(small, 0, 0, canvas.width, canvas.height);
    }
    part.what.forEach((label, k) => {
      const option = make("option", label);
      option.value = k;
      $("swept-what").append(option);
    });
    $("swept-what").addEventListener("change", draw);
    const inputs = part.names.map((label, m) => {
      const text = make("label", label);
      const input = make("input");
      input.type = "range";
      input.min = -1;
      input.max = 1;
      input.step = 0.02;
      input.value = 0;
      input.id = `move-${m}`;
      text.htmlFor = input.id;
      const said = make("output", "0");
      said.htmlFor = input.id;
      input.addEventListener("input", () => {
        moves[m] = Number(input.value);
        said.textContent = moves[m].toFixed(2);
        draw();
      });
      $("moves").append(text, input, said);
      return [input, said];
    });
    $("still").addEventListener("click", () => {
      moves.fill(0);
      for (const [input, said] of inputs) {
        input.value = 0;
        said.textContent = "0";
      }
      draw();
    });
    draw();
  }

  slider.max = levels.length;
  slider.value = data.start;
  slider.addEventListener("input", moveThreshold);
  for (const part of document.querySelectorAll(".touch")) part.hidden = false;
  for (const part of document.querySelectorAll(".still")) part.hidden = true;
  const waiting = Object.values(sprites).filter((image) => !image.complete);
  for (const image of waiting) image.addEventListener("load", list);
  list();
  moveThreshold();
  if (data.sweeps) sweeps();
  document.documentElement.dataset.ready = "yes";
})();
