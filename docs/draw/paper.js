// Paper to draw on by mouse, finger, pen or keyboard. `changed(strokes)` hears of every
// change; a stroke is a list of points {x, y}, in pixels of the paper.
export const SIZE = 280; // of the paper
const STEP = 10; // of the pen, by keyboard
const MOVES = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

export function trace(context, points) {
  context.beginPath();
  context.moveTo(points[0].x, points[0].y);
  for (const point of points) context.lineTo(point.x + 0.01, point.y);
  context.stroke();
}

export function paperOn(canvas, changed) {
  const ink = canvas.getContext("2d");
  const pen = { x: SIZE / 2, y: SIZE / 2, shown: false };
  let strokes = [];
  let current = null;

  function redraw() {
    ink.clearRect(0, 0, SIZE, SIZE);
    ink.strokeStyle = "#1f2933";
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
  function tell() {
    redraw();
    changed(strokes);
  }
  function undo() {
    strokes.pop();
    current = null;
    tell();
  }
  function clear() {
    strokes = [];
    current = null;
    tell();
  }

  function at(event) {
    const box = canvas.getBoundingClientRect();
    return {
      x: ((event.clientX - box.left) * SIZE) / box.width,
      y: ((event.clientY - box.top) * SIZE) / box.height,
    };
  }
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    pen.shown = false;
    current = [at(event)];
    strokes.push(current);
    tell();
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!current || !canvas.hasPointerCapture(event.pointerId)) return;
    current.push(...(event.getCoalescedEvents?.() ?? [event]).map(at), at(event));
    tell();
  });
  for (const name of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(name, () => {
      current = null;
      tell();
    });
  }
  canvas.addEventListener("keydown", (event) => {
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
    tell();
  });
  canvas.addEventListener("blur", () => {
    pen.shown = false;
    current = null;
    redraw();
  });
  return { clear, undo };
}
