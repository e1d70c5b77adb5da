// Boxes above the table of what estimators can do: only rows with all that is ticked stay.
document.addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll("table.capabilities")) {
    const rows = [...table.tBodies[0].rows];
    const form = document.createElement("form");
    const told = document.createElement("output");
    form.className = "capabilities-filter";
    form.setAttribute("aria-label", "Show estimators that have");
    const boxes = [...table.tHead.rows[0].cells].flatMap((head, column) => {
      if (!rows.some((row) => row.cells[column].textContent.trim() === "·")) return [];
      const label = document.createElement("label");
      const box = document.createElement("input");
      box.type = "checkbox";
      label.append(box, " " + head.textContent.trim());
      form.append(label);
      return [{ box, column }];
    });
    const show = () => {
      const asked = boxes.filter(({ box }) => box.checked);
      for (const row of rows)
        row.hidden = asked.some(({ column }) => row.cells[column].textContent.trim() === "·");
      told.textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length}`;
    };
    form.append(told);
    form.addEventListener("change", show);
    form.addEventListener("submit", (event) => event.preventDefault());
    table.closest(".pst-scrollable-table-container, .table-wrapper, table").before(form);
    show();
  }
});
