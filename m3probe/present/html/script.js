"use strict";
// Tables that sort and filter, plots drawn when they are looked at, links that open folded pages. All text goes in as text.
(() => {
  const root = document.documentElement;
  const SHOWN = 25;
  const MANY = 6; // rows from which on a filter is worth its place
  const make = (name, words, text) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(words || {})) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const toast = document.body.appendChild(make("p", { class: "toast", role: "status" }));
  let leaving = 0;
  const tell = (text) => {
    toast.textContent = text;
    clearTimeout(leaving);
    leaving = setTimeout(() => (toast.textContent = ""), 4000);
  };

  // --- where links lead: the page is opened first, folded ones around it too
  const reveal = (id) => {
    const found = id && document.getElementById(id);
    if (!found) return false;
    for (let up = found; up; up = up.parentElement) if (up.tagName === "DETAILS") up.open = true;
    return found;
  };
  const here = () => {
    const found = reveal(decodeURIComponent(location.hash.slice(1)));
    if (found) found.scrollIntoView();
  };
  const go = (target) => {
    const id = target.replaceAll("%", "=").replaceAll("/", ":");
    if (reveal(id)) location.hash = id;
    else tell(`${decodeURIComponent(target)} is not on this page; m3probe tui opens it.`);
  };
  addEventListener("hashchange", here);
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#"]');
    if (link) return void reveal(link.getAttribute("href").slice(1));
    const row = event.target.closest("tr.opens");
    if (row && !String(getSelection())) row.querySelector("a").click();
  });

  // --- tables
  const number = (cell) => (cell.dataset.v === undefined ? null : Number(cell.dataset.v));
  const fromRow = (row) => ({
    row,
    texts: [...row.cells].map((cell) => cell.textContent.trim()),
    figures: [...row.cells].map(number),
  });
  const fromData = (data, kinds) =>
    data.rows.map(([link, why, linked, ...cells]) => {
      const packed = cells.map((cell) => (Array.isArray(cell) ? cell : [cell, null]));
      const build = () => {
        const row = make("tr");
        packed.forEach(([text, figure, looks], place) => {
          const cell = row.appendChild(make("td", kinds[place] ? { class: kinds[place] } : {}));
          let into = cell;
          if (place === linked && link) into = cell.appendChild(make("a", { href: `#${link}` }));
          else if (place === linked && data.texts[why])
            into = cell.appendChild(make("span", { class: "gone", title: data.texts[why] }));
          if (looks !== undefined && looks !== null) {
            const [glyph, style] = data.looks[looks];
            into = into.appendChild(make("span", { class: style }));
            into.append(make("span", { "aria-hidden": "true" }, glyph), " ");
          }
          into.append(data.texts[text]);
        });
        if (link) row.className = "opens";
        return row;
      };
      return { build, texts: packed.map(([text]) => data.texts[text]), figures: packed.map(([, figure]) => figure) };
    });
  const compared = (place, down) => (a, b) => {
    const [x, y] = [a.figures[place], b.figures[place]];
    if (x !== null && y !== null) return down ? y - x : x - y;
    if (x !== null || y !== null) return x !== null ? -1 : 1;
    const [s, t] = [a.texts[place], b.texts[place]];
    if ((s === "—") !== (t === "—")) return s === "—" ? 1 : -1;
    return down ? t.localeCompare(s) : s.localeCompare(t);
  };

  const lively = (box) => {
    if (box.dataset.lively) return;
    box.dataset.lively = "1";
    const body = box.querySelector("tbody");
    const heads = [...box.querySelectorAll("th")];
    const kinds = heads.map((head) => head.className);
    const title = box.querySelector(".title");
    const count = title.querySelector(".count");
    const held = box.querySelector("script");
    const first = [...body.rows].map(fromRow);
    for (const { row } of first) if (row.querySelector("a")) row.className = "opens";
    let rows = null;
    const all = () => (rows = rows || [...first, ...(held ? fromData(JSON.parse(held.textContent), kinds) : [])]);
    const state = { sort: null, down: false, filter: "", whole: false };
    const every = count.textContent;
    const show = () => {
      let found = all();
      const wanted = state.filter.toLowerCase();
      if (wanted) found = found.filter((each) => each.texts.some((text) => text.toLowerCase().includes(wanted)));
      if (state.sort !== null) found = [...found].sort(compared(state.sort, state.down));
      const most = state.whole || !held ? found.length : SHOWN;
      body.replaceChildren(...found.slice(0, most).map((each) => (each.row = each.row || each.build())));
      count.textContent = wanted ? `${found.length.toLocaleString("en")} of ${every}` : every;
      if (more) {
        more.hidden = found.length <= SHOWN;
        more.textContent = state.whole ? `Show ${SHOWN} rows` : `Show all ${found.length.toLocaleString("en")} rows`;
      }
    };
    const more = held ? box.appendChild(make("button", { type: "button", class: "more" })) : null;
    if (more) {
      more.textContent = `Show all ${every}`;
      held.after(more);
      more.addEventListener("click", () => {
        state.whole = !state.whole;
        show();
      });
    }
    if (first.length + (held ? 1 : 0) > 1)
      heads.forEach((head, place) => {
        const button = make("button", { type: "button" }, head.textContent);
        head.replaceChildren(button);
        button.addEventListener("click", () => {
          const figures = all().some((each) => each.figures[place] !== null);
          state.down = state.sort === place ? !state.down : figures;
          state.sort = place;
          for (const each of heads) each.removeAttribute("aria-sort");
          head.setAttribute("aria-sort", state.down ? "descending" : "ascending");
          show();
        });
      });
    const bar = make("div", { class: "bar" });
    box.prepend(bar);
    bar.append(title);
    if (first.length >= MANY) {
      const label = bar.appendChild(make("label"));
      label.append(make("span", { class: "vh" }, `Filter ${title.firstChild.textContent}`));
      const field = label.appendChild(make("input", { type: "search", placeholder: "Filter rows" }));
      count.setAttribute("role", "status");
      field.addEventListener("input", () => {
        state.filter = field.value.trim();
        show();
      });
    }
  };
  // a folded page's tables wait until it is opened
  const waken = (below) => {
    for (const box of below.querySelectorAll(".table"))
      if (!box.parentElement.closest("details:not([open])")) lively(box);
  };
  document.addEventListener("toggle", (event) => event.target.open && waken(event.target), true);
  waken(document);

  // --- plots
  const PAPER = 690; // CSS pixels between the margins of A4 and Letter, of which a plot leaves a little
  const LEGEND = 24; // and of a line of a legend, for which each plot has room
  let printed = null;
  const colours = () => {
    const of = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();
    return { ink: of("ink"), dim: of("dim"), line: of("line"), ground: of("ground"), panel: of("panel") };
  };
  const narrow = () => innerWidth <= 600 && !printed;
  // an axis title does not wrap by itself, and a phone would cut it
  const wrapped = (title) => {
    const text = title && title.text;
    if (!narrow() || !text || text.includes("<br>")) return title;
    return { ...title, text: text.replace(/(.{24,38}?) /g, "$1<br>") };
  };
  // a matrix of more columns than a telephone has room for is moved sideways
  const broad = (layout) => {
    const columns = ((layout.xaxis || {}).tickvals || []).length;
    if (printed) return { width: PAPER, autosize: false };
    return narrow() && columns > 12 ? { width: 150 + 18 * columns, autosize: false } : {};
  };
  const themed = (layout) => {
    const { ink, dim, line, ground } = colours();
    const made = {
      ...layout, ...broad(layout),
      legend: { ...layout.legend, ...(narrow() && { maxheight: 600 }) },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, ...layout.font, color: ink },
      hoverlabel: { align: "left", ...layout.hoverlabel, bgcolor: ground, bordercolor: dim, font: { color: ink, size: 12 } },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: dim, activecolor: ink },
    };
    for (const name of new Set([...Object.keys(layout).filter((key) => /^[xy]axis\d*$/.test(key)), "xaxis", "yaxis"]))
      made[name] = {
        ...layout[name], title: wrapped((layout[name] || {}).title),
        gridcolor: line, zerolinecolor: line, linecolor: line, tickcolor: line,
      };
    return made;
  };
  const config = {
    responsive: true, displaylogo: false, scrollZoom: false,
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d"],
  };
  const drawn = new Map();
  // what a narrow page has no room for: numbers behind bars that reach past the edge, and a legend of many lines, which
  // would take its lines from the bars above it
  const fit = (canvas, layout) => {
    const edge = canvas.querySelector(".main-svg").getBoundingClientRect().right;
    const over = Math.max(0, ...[...canvas.querySelectorAll(".bartext")].map((text) => text.getBoundingClientRect().right - edge));
    const legend = narrow() && canvas.querySelector(".legend .bg");
    const lines = legend ? legend.getBoundingClientRect().height - LEGEND : 0;
    const more = { ...(over && { "margin.r": 16 + Math.ceil(2 * over) }), ...(lines > 0 && { height: layout.height + lines }) };
    if (Object.keys(more).length) Plotly.relayout(canvas, more);
  };
  const short = (traces) =>
    !narrow() ? traces : traces.map((each) =>
      each.mode === "text" ? { ...each, text: each.text.map((text) => text.replace(/^((?:\S+ ){3}).+/, "$1...")) } : each);
  const draw = (figure) => {
    if (drawn.has(figure) || typeof Plotly === "undefined") return;
    const { data, layout } = JSON.parse(figure.querySelector("script.figure").textContent);
    drawn.set(figure, { data, layout });
    const canvas = figure.querySelector(".canvas");
    Plotly.newPlot(canvas, short(data), themed(layout), config).then(() => {
      fit(canvas, layout);
      canvas.on("plotly_click", ({ points }) => {
        const [target] = [points[0] && points[0].customdata].flat();
        if (typeof target === "string" && target) go(target);
      });
      figure.dataset.drawn = "1";
    });
  };
  const figures = [...document.querySelectorAll(".plot")];
  const watch = new IntersectionObserver(
    (seen) => seen.filter((each) => each.isIntersecting).forEach((each) => draw(each.target)),
    { rootMargin: "600px" },
  );
  figures.forEach((each) => watch.observe(each));
  const redraw = () => {
    for (const [figure, { data, layout }] of drawn) {
      const canvas = figure.querySelector(".canvas");
      const made = themed(layout);
      Plotly.react(canvas, short(data), made, config)
        .then(() => made.width || Plotly.Plots.resize(canvas)) // a width that was set stays where nothing else changed
        .then(() => fit(canvas, layout));
    }
  };
  let turning = 0;
  matchMedia("(max-width: 600px)").addEventListener("change", () => {
    clearTimeout(turning); // a window that is drawn smaller passes through many widths
    turning = setTimeout(redraw, 150);
  });
  // paper is white and narrower than a window: all plots are drawn for it, and for the screen again
  addEventListener("beforeprint", () => {
    printed = { theme: root.dataset.theme };
    root.dataset.theme = "light";
    figures.forEach(draw);
    redraw();
  });
  addEventListener("afterprint", () => {
    if (printed.theme) root.dataset.theme = printed.theme;
    else delete root.dataset.theme;
    printed = null;
    redraw();
  });

  // --- light and dark
  const asked = matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : asked.matches);
  const button = document.querySelector("header").appendChild(make("button", { type: "button", class: "theme" }));
  const name = () => (button.textContent = dark() ? "Light colours" : "Dark colours");
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    try {
      localStorage.setItem("m3probe-theme", root.dataset.theme);
    } catch {
      // a browser that keeps nothing for files: the choice holds until the page is left
    }
    name();
    redraw();
  });
  asked.addEventListener("change", () => {
    name();
    redraw();
  });
  name();
  here();

  // --- which part is being read
  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const reading = new IntersectionObserver(
    (seen) => {
      for (const each of seen)
        if (each.isIntersecting) {
          for (const link of links.values()) link.removeAttribute("aria-current");
          const link = links.get(each.target.id);
          if (link) link.setAttribute("aria-current", "true");
        }
    },
    { rootMargin: "-20% 0px -70% 0px" },
  );
  for (const id of links.keys()) if (document.getElementById(id)) reading.observe(document.getElementById(id));
})();
