// Sorts a table by the column whose name is clicked: descending at first, by number where cells hold numbers.
document.querySelectorAll("table.sortable").forEach((table) => {
  table.querySelectorAll("th").forEach((head, column) => {
    head.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") !== "descending";
      const key = (row) => row.cells[column].dataset.key ?? row.cells[column].textContent;
      const rows = [...table.tBodies[0].rows];
      const numbers = rows.some((row) => row.cells[column].dataset.key);
      const compare = (a, b) => {
        const [x, y] = [key(a), key(b)];
        if (x === "" || y === "") return (x === "") - (y === "");  // missing values stay last
        return (down ? -1 : 1) * (numbers ? x - y : x.localeCompare(y));
      };
      table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      table.tBodies[0].append(...rows.sort(compare));
    });
  });
});

// A field shows the rows with its text; a button saves the rows that are shown, as csv. A cell that a spreadsheet would run begins with '.
document.querySelectorAll(".tools").forEach((tools) => {
  const [field, button] = [tools.querySelector("input"), tools.querySelector("button")];
  const table = tools.parentElement.querySelector("table");
  field.addEventListener("input", () => {
    const wanted = field.value.toLowerCase();
    for (const row of table.tBodies[0].rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
  });
  button.addEventListener("click", () => {
    const text = (cell) => cell.textContent.trim().replace(/^(?=[=+\-@\t\r])(?!-?[\d.]+$)/, "'");
    const rows = [...table.rows].filter((row) => !row.hidden);
    const lines = rows.map((row) => [...row.cells].map((cell) => `"${text(cell).replaceAll('"', '""')}"`).join(","));
    const link = document.createElement("a");
    link.href = `data:text/csv;charset=utf-8,${encodeURIComponent("\ufeff" + lines.join("\r\n") + "\r\n")}`;
    link.download = button.dataset.file;
    link.click();
  });
});
