// What a reader may ask of the page: sort and filter. It adds to a page
// that is whole without it, writes text only (never markup), keeps nothing and asks nothing of any network.
"use strict";
(() => {
  const all = (css, of = document) => [...of.querySelectorAll(css)];
  const one = (css, of = document) => of.querySelector(css);
  const made = (tag, text = "", more = {}) => {
    const element = document.createElement(tag);
    element.textContent = text;
    for (const [name, value] of Object.entries(more)) element.setAttribute(name, value);
    return element;
  };

  // ---- on a narrow screen a row is a card: every value says what it is, and is a cell still to who hears the page
  for (const table of all("table.cards")) {
    const heads = all("thead th", table).map((head) => head.dataset.h);
    const roles = { TABLE: "table", THEAD: "rowgroup", TBODY: "rowgroup", TR: "row", TD: "cell" };
    for (const part of [table, ...all("thead, tbody, tr, td, th", table)]) {
      part.setAttribute("role", roles[part.tagName] ?? (part.scope === "col" ? "columnheader" : "rowheader"));
    }
    for (const row of all("tbody tr:not(.g)", table)) [...row.children].forEach((cell, at) => { cell.dataset.h = heads[at]; });
    table.classList.add("labelled");
  }

  // ---- filters: an element shows while every thing it is about is chosen
  const chosen = { m: null, p: null, t: null, l: null };
  const letters = Object.keys(chosen);
  const about = "[data-m],[data-p],[data-t],[data-l]";
  const shown = (element) =>
    letters.every((x) => !chosen[x] || element.dataset[x] === undefined || chosen[x].has(element.dataset[x]));

  const columns = (table) => {
    const heads = all("thead th", table);
    const off = heads.map((head) => !shown(head));
    for (const row of all("tr:not(.g)", table)) [...row.children].forEach((cell, at) => cell.classList.toggle("off", off[at]));
  };
  const filter = () => {
    for (const element of all(about)) if (!element.closest("thead")) element.classList.toggle("off", !shown(element));
    all("table").forEach(columns);
    for (const body of all("tbody")) {
      const rows = all("tr:not(.g)", body);
      body.classList.toggle("off", rows.length > 0 && rows.every((row) => row.classList.contains("off")));
    }
    wide();
  };
  for (const panel of all(".filters")) {
    if (!one("fieldset", panel)) continue;
    panel.hidden = false;
    const count = one("summary span", panel);
    const read = () => {
      let left = 0;
      for (const x of letters) {
        const boxes = all(`input[name=${x}]`, panel);
        const some = boxes.filter((box) => box.checked);
        chosen[x] = some.length === boxes.length ? null : new Set(some.map((box) => box.value));
        left += boxes.length - some.length;
      }
      count.textContent = left ? ` (${left} hidden)` : "";
      filter();
    };
    panel.addEventListener("change", read);
    one("button", panel).addEventListener("click", () => {
      for (const box of all("input", panel)) box.checked = true;
      read();
    });
    panel.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { panel.open = false; one("summary", panel).focus(); }
    });
  }

  // ---- sorting, within each group of rows; the third click gives the first order back
  const value = (row, at) => {
    const cell = row.children[at];
    const number = cell && (cell.dataset.v ?? parseFloat(cell.textContent.replace("−", "-").replace(/[,<]/g, "")));
    return cell ? { number: number === "" ? NaN : Number(number), text: cell.textContent.trim() } : { number: NaN, text: "" };
  };
  const order = (table, at, way, numeric) => {
    for (const body of all("tbody", table)) {
      const rows = all("tr:not(.g)", body);
      rows.forEach((row, place) => { row.dataset.place ??= place; });
      const key = new Map(rows.map((row) => [row, value(row, at)]));
      rows.sort((a, b) => {
        const [x, y] = [key.get(a), key.get(b)];
        const first = Number(a.dataset.place) - Number(b.dataset.place);
        if (!way) return first;
        if (!numeric) return way * x.text.localeCompare(y.text, "en", { numeric: true }) || first;
        if (isNaN(x.number) || isNaN(y.number)) return isNaN(x.number) - isNaN(y.number) || first;
        return way * (x.number - y.number) || first;
      });
      body.append(...rows);
    }
  };
  for (const table of all("table.sortable")) {
    if (all("tbody tr:not(.g)", table).length < 3) continue;
    for (const head of all("thead th", table)) {
      const button = made("button", "", { type: "button", class: "sort" });
      const small = one("small", head);
      button.append(...[...head.childNodes].filter((node) => node !== small));
      head.prepend(button);
      button.addEventListener("click", () => {
        const at = [...head.parentNode.children].indexOf(head);
        const numeric = head.classList.contains("n");
        const now = head.getAttribute("aria-sort");
        const first = numeric ? "descending" : "ascending";
        const second = numeric ? "ascending" : "descending";
        const next = !now ? first : now === first ? second : "";
        for (const other of all("th", head.parentNode)) other.removeAttribute("aria-sort");
        if (next) head.setAttribute("aria-sort", next);
        order(table, at, { ascending: 1, descending: -1 }[next] || 0, numeric);
      });
    }
  }

  // ---- what scrolls in a box of its own can be scrolled by keyboard
  function wide() {
    for (const box of all(".wide")) {
      if (box.scrollWidth > box.clientWidth + 1 || box.scrollHeight > box.clientHeight + 1) {
        box.tabIndex = 0;
        box.setAttribute("role", "group");
        box.setAttribute("aria-label", (one("caption", box)?.textContent || "Figure") + ", scrolls");
      } else for (const name of ["tabindex", "role", "aria-label"]) box.removeAttribute(name);
    }
  }
  wide();
  addEventListener("resize", wide);
  addEventListener("toggle", wide, true);
})();
