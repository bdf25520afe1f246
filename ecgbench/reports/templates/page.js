// What a reader may ask of the page: sort, filter, point at a figure, where a number comes from. It adds to a page
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
  const json = async (id) => {
    const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (sign) => sign.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
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
  const joined = (series) => {
    const line = one(".line", series);
    const dots = all(".at:not(.apart):not(.off)", series);
    if (line) line.setAttribute("d", dots.length ? "M" + dots.map((dot) => `${dot.dataset.x} ${dot.dataset.y}`).join("L") : "");
  };
  const filter = () => {
    for (const element of all(about)) if (!element.closest("thead")) element.classList.toggle("off", !shown(element));
    all("table").forEach(columns);
    for (const body of all("tbody")) {
      const rows = all("tr:not(.g)", body);
      body.classList.toggle("off", rows.length > 0 && rows.every((row) => row.classList.contains("off")));
    }
    for (const fold of all("details:has(> figure)")) fold.classList.toggle("off", all("figure", fold).every((x) => x.classList.contains("off")));
    all(".series").forEach(joined);
    all("select[data-views]").forEach(allowed);
    for (const plot of all(".plot")) {
      const there = new Set(all(".at:not(.off)", plot).map((dot) => dot.dataset.l));
      for (const name of all(".name", plot)) name.classList.toggle("off", name.dataset.l !== undefined && !there.has(name.dataset.l));
    }
    wide();
  };
  const allowed = (select) => {  // a map shows no model and no lead setting that is hidden
    const options = [...select.options];
    for (const option of options) option.disabled = option.classList.contains("off");
    const next = options.find((option) => !option.disabled);
    if (!next || !options[select.selectedIndex].disabled) return;
    select.value = next.value;
    select.dispatchEvent(new Event("change"));
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
  const sortable = (table) => {
    if (all("tbody tr:not(.g)", table).length < 3) return;
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
  };
  all("table.sortable").forEach(sortable);

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

  // ---- figures: the point under the pointer, or chosen with the arrow keys, says its number
  const tip = document.getElementById("tip");
  const hide = (plot) => {
    tip.hidden = true;
    plot.classList.remove("picked");
    for (const dot of all(".here", plot)) dot.classList.remove("here");
  };
  const pick = (plot, dot) => {
    hide(plot);
    dot.classList.add("here");
    plot.classList.add("picked");
    tip.textContent = dot.dataset.said;
    tip.hidden = false;
    const spot = one(".dot", dot).getBoundingClientRect();
    const [width, height] = [tip.offsetWidth, tip.offsetHeight];
    tip.style.left = `${Math.max(4, Math.min(innerWidth - width - 4, spot.left + spot.width / 2 - width / 2))}px`;
    tip.style.top = `${spot.top > height + 12 ? spot.top - height - 8 : spot.bottom + 8}px`;
  };
  for (const plot of all(".plot")) {
    const dots = () => all(".at:not(.off)", plot).filter((dot) => !dot.parentNode.classList.contains("off"));
    plot.addEventListener("pointermove", (event) => {
      const scale = plot.viewBox.baseVal.width / plot.getBoundingClientRect().width;
      const [x, y] = [event.clientX, event.clientY];
      const near = dots().map((dot) => {
        const spot = one(".dot", dot).getBoundingClientRect();
        return [Math.hypot(spot.left + spot.width / 2 - x, spot.top + spot.height / 2 - y), dot];
      }).sort((a, b) => a[0] - b[0])[0];
      if (near && near[0] < Math.max(28, 28 / scale)) pick(plot, near[1]); else hide(plot);
    });
    plot.addEventListener("pointerleave", () => hide(plot));
    plot.addEventListener("blur", () => hide(plot));
    plot.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (event.key === "Escape") hide(plot);
      if (!step) return;
      event.preventDefault();
      const there = dots();
      if (!there.length) return;
      const now = there.findIndex((dot) => dot.classList.contains("here"));
      let next = now < 0 ? 0 : now + step;
      if (now >= 0 && event.key.match(/Up|Down/)) {  // the next series, at the same setting
        const [series, leads] = [there[now].parentNode, there[now].dataset.l];
        while (there[next] && (there[next].parentNode === series || there[next].dataset.l !== leads)) next += step;
      }
      if (there[next]) pick(plot, there[next]);
    });
  }

  // ---- maps of colours: another view of the same labels
  const points = (tenths) => (tenths / 10).toFixed(1);
  const cell = (spot) => {
    if (!spot) return made("td", "--", { class: "n none" });
    const [number, level, low, high] = spot;
    const element = made("td", points(number), { class: `n h${level}`, "data-v": number });
    if (low !== undefined) element.append(made("small", `[${points(low)}, ${points(high)}]`));
    return element;
  };
  const attributes = (element, text) => {
    for (const [, name, of] of text.matchAll(/data-([a-z])="(\d+)"/g)) element.dataset[name] = of;
  };
  for (const select of all("select[data-views]")) {
    const table = one("table", select.closest("figure"));
    select.closest(".tools").hidden = false;
    select.value = "0";
    let views = null;
    select.addEventListener("change", async () => {
      views ??= await json(select.dataset.views);
      const view = views[select.value];
      one("caption span", table).textContent = view.title;
      const head = one("thead tr", table);
      const rows = all("tbody tr", table).sort((a, b) => (a.dataset.place ?? 0) - (b.dataset.place ?? 0));
      all("th", head).forEach((th, at) => {
        if (at > 1) th.remove(); else { th.removeAttribute("aria-sort"); th.replaceChildren(one(".sort", th)?.textContent ?? th.textContent); }
      });
      for (const [name, of] of view.columns) {
        const th = made("th", name, { scope: "col", class: "n" });
        attributes(th, of);
        head.append(th);
      }
      rows.forEach((row, at) => {
        while (row.children.length > 2) row.lastChild.remove();
        row.append(...view.spots[at].map(cell));
      });
      one("tbody", table).append(...rows);
      sortable(table);
      filter();
    });
  }

  // ---- where a number comes from
  const dialog = document.getElementById("trace");
  let traces = null;
  const listed = (facts) => {
    const list = made("dl");
    for (const [word, text] of facts) list.append(made("dt", word), made("dd", text));
    return list;
  };
  const celled = (cells) => {
    const table = made("table");
    const heads = made("tr");
    for (const word of ["Setting", "Fit", "Fold", "Score", "Folder of the cell", "Line of cells.csv"]) heads.append(made("th", word, { scope: "col" }));
    const body = made("tbody");
    for (const cell of cells) {
      const row = made("tr");
      cell.forEach((text, at) => row.append(at ? made("td", text) : made("th", text, { scope: "row" })));
      body.append(row);
    }
    const top = made("thead");
    top.append(heads);
    table.append(made("caption", "Cells behind it", { class: "vh" }), top, body);
    const box = made("div", "", { class: "wide" });
    box.append(table);
    return box;
  };
  const trace = async (line) => {
    traces ??= await json("traces");
    const row = traces.rows[line];
    if (!row) return;
    const close = made("button", "Close", { type: "button", class: "close" });
    close.addEventListener("click", () => dialog.close());
    const where = made("p", "Line ");
    where.append(line, " of ", made("a", "main_table.csv", { href: "main_table.csv" }), `; the run: ${traces.run}`);
    dialog.replaceChildren(made("h2", row.title, { id: "trace-title" }), listed(row.facts), where, celled(row.cells), close);
    dialog.showModal();
    wide();
  };
  // one stop of the Tab key per table; arrows go on from there
  for (const table of all("table")) {
    const buttons = all("td > button[data-line]", table);
    buttons.forEach((button, at) => { button.tabIndex = at ? -1 : 0; button.title = "Where this number comes from"; });
    table.addEventListener("click", (event) => {
      const button = event.target.closest("button[data-line]");
      if (button) trace(button.dataset.line);
    });
    table.addEventListener("keydown", (event) => {
      const here = event.target.closest("td");
      if (!here || !event.target.matches("button[data-line]")) return;
      const at = here.cellIndex;
      const rows = all("tr:not(.g):not(.off)", table);
      const row = rows.indexOf(here.parentNode);
      const near = {
        ArrowRight: () => [...here.parentNode.children].slice(at + 1),
        ArrowLeft: () => [...here.parentNode.children].slice(0, at).reverse(),
        ArrowDown: () => rows.slice(row + 1).map((other) => other.children[at]),
        ArrowUp: () => rows.slice(0, row).reverse().map((other) => other.children[at]),
      }[event.key];
      if (!near) return;
      event.preventDefault();
      const next = near().find((cell) => cell && !cell.classList.contains("off") && one("button[data-line]", cell));
      if (!next) return;
      event.target.tabIndex = -1;
      const button = one("button[data-line]", next);
      button.tabIndex = 0;
      button.focus();
    });
  }
})();
