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
