/* What runs in the browser: the URL is the only state, so controls write it and everything else follows from it. */
(function () {
  "use strict";
  const skip = () => window.dash_clientside.no_update;
  // The path below which a proxy shows the dashboard, without the last slash; `path` elsewhere is one below it.
  const root = JSON.parse(document.getElementById("_dash-config").textContent).requests_pathname_prefix.slice(0, -1);
  const below = (path) => (path === root || path.startsWith(root + "/") ? path.slice(root.length) || "/" : path);
  // What a new choice makes meaningless.
  const clears = {
    sweep: ["corpus", "model", "setup", "size", "strategy", "metric", "freeze", "level"],
    corpus: ["model", "setup", "size", "strategy", "metric", "freeze", "level"],
    model: ["setup", "size", "strategy", "freeze"],
    setup: ["size", "strategy", "freeze"],
    cost: ["budget"],
  };
  const theme = (search) => {
    const asked = new URLSearchParams(search || "").get("theme");
    if (asked === "light" || asked === "dark") return asked;
    return window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  };
  // Figures of a phone have one column, those of a large screen are higher: keys of LOOKS in dashboards/views/kit/drawing.py.
  const screens = { narrow: "(max-width: 900px)", large: "(min-width: 1800px) and (min-height: 1000px)" };
  const screen = () => ["narrow", "large"].find((size) => window.matchMedia(screens[size]).matches);
  const look = (search) => [theme(search), screen()].filter(Boolean).join("-");
  const word = (value) => (Array.isArray(value) ? value.join(",") : value === null || value === undefined ? "" : String(value).trim());

  // --- What is asked of the server: the parts of a page, one after the other, those in sight first.

  const set = (id, props) => window.dash_clientside.set_props(id, props);
  const meaning = (state, version) => JSON.stringify([state.path, state.search, state.scheme, version]);
  let turn = 0; // of whoever asks; what an older one is still waiting for is let go
  let asked = null; // what is asked for now
  let shown = {}; // what each part shows
  let leaving = null; // stops the request that is on its way
  let last = null; // state and version that were asked for last

  const cards = () => Array.from(document.querySelectorAll("#page [data-part]")).filter((card) => !card.closest("details:not([open])"));
  const plotOf = (card) => card.querySelector(".js-plotly-plot");
  const frame = () => new Promise((done) => {
    requestAnimationFrame(done);
    setTimeout(done, 100); // a hidden tab gets no frame
  });
  const inSight = (card) => {
    const box = card.getBoundingClientRect();
    return box.bottom > 0 && box.top < window.innerHeight;
  };
  const inOrder = () => {
    const all = cards();
    return all.filter(inSight).concat(all.filter((card) => !inSight(card)));
  };

  // Whether a figure that came is drawn; a table, or why there is nothing to show, is there at once.
  const drawn = async (card, before) => {
    for (let n = 0; n < 200 && card.isConnected; n++) {
      const plot = plotOf(card);
      if (!plot && !card.querySelector(".place:not(:has(.nothing))")) return;
      if (plot && plot._fullData && plot.querySelector(".main-svg") && plot._fullLayout !== before) return;
      await frame();
    }
  };

  const request = async (card, state, signal) => {
    const opened = card.querySelector(".place") && card.querySelector(".menu[open]") ? "/opened" : "";
    const address = root + "/part/" + state.scheme + "/" + card.dataset.part + opened + state.search;
    const answer = await fetch(address, { signal: signal });
    return answer.ok ? answer.json() : null;
  };

  const put = async (card, found) => {
    const part = card.dataset.part, plot = plotOf(card), before = plot && plot._fullLayout;
    const inner = found.graph && found.graph.props.children, figure = inner && inner.props && inner.props.figure;
    if (figure && plot) set({ kind: "figure", part: part }, { figure: figure });
    else if (found.graph) set({ kind: "place", part: part }, { children: found.graph });
    if (found.table) set({ kind: found.graph ? "table" : "only", part: part }, { children: found.table });
    if (figure) await drawn(card, before);
  };

  const ask = async (state, version) => {
    const mine = ++turn, wanted = meaning(state, version);
    asked = wanted;
    last = [state, version];
    if (leaving) leaving.abort();
    leaving = new AbortController();
    const all = inOrder(), todo = all.filter((card) => shown[card.dataset.part] !== wanted);
    cards().forEach((card) => card.setAttribute("aria-busy", "true"));
    const over = () => mine !== turn;
    const later = async () => { // the controls and what else stands around: what is looked at is there
      await Promise.all(all.filter((card) => inSight(card) && !todo.includes(card)).map((card) => drawn(card, null)));
      if (!over()) set(document.querySelector("#controls > *") ? "later" : "first", { data: { ...state, version: version } });
    };
    const signal = leaving.signal;
    let coming = todo.length ? request(todo[0], state, signal) : null;
    if (coming) coming.catch(() => 0); // an error is met where the answer is waited for
    let told = todo.length < all.length || !todo.length;
    if (told) await later();
    all.filter((card) => !todo.includes(card)).forEach((card) => over() || card.removeAttribute("aria-busy"));
    for (const [n, card] of todo.entries()) {
      let found = null;
      try {
        found = await coming;
      } catch (error) {
        coming = null;
      }
      if (over()) return;
      if (!coming) asked = null; // the server is gone: what comes next asks again, whatever it is
      // While the browser draws one, the server computes the next.
      const next = todo[n + 1];
      const drawing = found ? put(card, found) : null;
      coming = next && coming ? request(next, state, signal) : null;
      if (coming) coming.catch(() => 0);
      await drawing;
      if (over()) return;
      if (found) shown[card.dataset.part] = wanted;
      card.removeAttribute("aria-busy");
      if (!told) { told = true; await later(); }
      if (!coming) break;
      await frame();
    }
    if (!over()) cards().forEach((card) => card.removeAttribute("aria-busy"));
  };

  // --- The tolerance as a line that one drags, also with the keyboard: an element over each panel; its handle is beside.

  const STEP = 0.1;
  const rounded = (value) => Math.min(100, Math.max(0, Math.round(value / STEP) * STEP));
  const setTolerance = (value) => {
    const params = new URLSearchParams(last ? last[0].search : window.location.search);
    params.set("tolerance", String(Number(value.toFixed(2))));
    const rest = params.toString().replaceAll("%2C", ","), search = rest ? "?" + rest : "";
    set("url", { search: search });
  };
  const handlesOf = (plot) => {
    const layout = plot._fullLayout;
    return Object.keys(layout).filter((key) => /^yaxis\d*$/.test(key)).map((key) => layout[key]).filter((axis) => axis._length);
  };
  const dress = (plot) => {
    const meta = plot.layout && plot.layout.meta;
    if (!meta || meta.tolerance === undefined || !plot._fullLayout) return;
    const holder = plot.parentElement;
    holder.classList.add("with-line");
    let lines = Array.from(holder.querySelectorAll(".tolerance-line"));
    const axes = handlesOf(plot);
    while (lines.length > axes.length) lines.pop().remove();
    axes.forEach((axis, n) => {
      let line = lines[n];
      if (!line) {
        line = document.createElement("div");
        line.className = "tolerance-line";
        line.setAttribute("role", "slider");
        line.setAttribute("aria-label", "Tolerance in points");
        line.setAttribute("aria-orientation", "vertical");
        line.setAttribute("aria-valuemin", "0");
        line.setAttribute("aria-valuemax", "100");
        line.tabIndex = n ? -1 : 0;
        line.append(document.createElement("span"));
        holder.append(line);
        drag(line);
      }
      line.plot = plot;
      line.axis = axis;
      const across = plot._fullLayout[axis.anchor.replace("x", "xaxis")];
      line.style.left = across._offset + "px";
      line.style.width = across._length + "px";
      if (!line.held) put_at(line, line.wanted === undefined ? meta.tolerance : line.wanted);
    });
  };
  const put_at = (line, value) => {
    const axis = line.axis, [low, high] = axis.range;
    line.value = value;
    line.hidden = value < low || value > high;
    line.style.top = axis._offset + axis.d2p(value) + "px";
    const short = String(Number(value.toFixed(2)));
    if (line.firstChild.textContent !== short) line.firstChild.textContent = short;
    line.setAttribute("aria-valuenow", short);
    line.setAttribute("aria-valuetext", "tolerance " + short + (value === 1 ? " point" : " points"));
  };
  const drag = (line) => {
    let typed = null;
    const all = (value) => line.parentElement.querySelectorAll(".tolerance-line").forEach((each) => put_at(each, value));
    line.addEventListener("pointerdown", (event) => {
      line.held = true;
      line.setPointerCapture(event.pointerId);
      line.focus();
      event.preventDefault();
    });
    line.addEventListener("pointermove", (event) => {
      if (!line.held) return;
      const box = line.plot.getBoundingClientRect();
      all(rounded(line.axis.p2d(event.clientY - box.top - line.axis._offset)));
    });
    const release = () => {
      if (!line.held) return;
      line.held = false;
      if (line.value !== line.plot.layout.meta.tolerance) setTolerance(line.value);
    };
    line.addEventListener("pointerup", release);
    line.addEventListener("pointercancel", release);
    line.addEventListener("keydown", (event) => {
      const by = { ArrowUp: STEP, ArrowRight: STEP, ArrowDown: -STEP, ArrowLeft: -STEP, PageUp: 1, PageDown: -1 }[event.key];
      const value = event.key === "Home" ? 0 : by === undefined ? null : rounded(line.value + by);
      if (value === null) return;
      event.preventDefault();
      line.wanted = value; // until the server's answer to the last key has come
      all(value);
      clearTimeout(typed);
      typed = setTimeout(() => { line.wanted = undefined; setTolerance(value); }, 250);
    });
  };
  // --- Hovering over one of several traces lights all of its name up and dims the rest; nothing is drawn again.

  const light = (plot, points) => {
    const lines = (plot.calcdata || []).map((part) => [part[0].trace, part[0].node3 && part[0].node3.node()]).filter((pair) => pair[1]);
    const named = new Set(lines.map(([trace]) => trace.legendgroup || trace.name));
    const point = points && points[0], on = named.size > 2 && point && point.data && !plot.layout.meta;
    lines.forEach(([trace, node]) => {
      const mine = on && (trace.legendgroup || trace.name) === (point.data.legendgroup || point.data.name);
      node.classList.toggle("dim", Boolean(on && !mine));
    });
  };

  const dressed = new WeakSet();
  const dressAll = () => document.querySelectorAll(".js-plotly-plot").forEach((plot) => {
    if (dressed.has(plot) || !plot.on) return;
    dressed.add(plot);
    plot.on("plotly_hover", (event) => light(plot, event.points));
    plot.on("plotly_unhover", () => light(plot, null));
    if (!plot.closest('[data-part="answer-losses"]')) return;
    plot.on("plotly_afterplot", () => dress(plot));
    dress(plot);
  });
  new MutationObserver(dressAll).observe(document.documentElement, { childList: true, subtree: true });

  // --- The report's dialog

  document.addEventListener("click", (event) => {
    const id = event.target.id, dialog = document.getElementById("report-dialog");
    if (id === "report-open" && dialog) dialog.showModal();
    if (dialog && (id === "report-close" || event.target === dialog)) dialog.close();
  });

  // A part that opens on demand is asked for then, and so is the table in a part's menu.
  document.addEventListener("toggle", (event) => {
    if (event.target.matches(".on-demand[open]") && last) ask(...last);
    const card = event.target.matches(".menu[open]") && event.target.closest("[data-part]");
    if (!card || !card.querySelector(".place") || !last) return;
    request(card, last[0]).then((found) => found && set({ kind: "table", part: card.dataset.part }, { children: found.table }), () => 0);
  }, true);

  // Files and paper are light, whatever the page.
  const inLight = JSON.parse(document.querySelector('meta[name="in-light"]').content);
  const lit = (plot) => JSON.parse(JSON.stringify({ data: plot.data, layout: plot.layout })
    .replace(/#[0-9A-F]{6}|rgba[(][0-9]+,[0-9]+,[0-9]+/gi, (colour) => (scheme === "dark" && inLight[colour]) || colour));
  const unlit = new Map(); // the figures of a dark page that is printed
  window.addEventListener("beforeprint", () => scheme === "dark" && document.querySelectorAll(".js-plotly-plot").forEach((plot) => {
    unlit.set(plot, [plot.data, plot.layout]);
    window.Plotly.react(plot, lit(plot));
  }));
  window.addEventListener("afterprint", () => {
    unlit.forEach((drawing, plot) => window.Plotly.react(plot, ...drawing));
    unlit.clear();
  });
  // On paper a figure keeps its drawing and is scaled to what fits between the margins of an A4 sheet.
  const SHEET = 690;
  window.addEventListener("beforeprint", () => document.querySelectorAll(".dash-graph").forEach((graph) => {
    graph.style.setProperty("--on-paper", Math.min(1, SHEET / graph.getBoundingClientRect().width));
  }));
  // The grid of trials only has the rows in sight: a table of all takes its place, which must be there on return.
  window.addEventListener("beforeprint", () => document.querySelectorAll("table[data-print]").forEach((table) => {
    const rows = new XMLHttpRequest();
    rows.open("GET", root + table.dataset.print + window.location.search, false);
    rows.send();
    if (rows.status === 200) fill(table, rows.responseText);
  }));

  const run = (address) => new Promise((done) => {
    const script = document.createElement("script");
    script.onload = script.onerror = done; // without it the page says that the component is missing
    script.src = address;
    document.head.append(script);
  });
  // The grid's component, which only Trials has: its script is as large as Plotly's.
  const grid = () => run(document.querySelector('meta[name="grid-script"]').content);
  // Dash's graphs wait for what `window.Plotly` resolves to; the first of them runs the script, which replaces this.
  let plotly = null;
  window.Plotly = { then: (done, failed) => {
    plotly = plotly || run(document.getElementById("plotly-script").getAttribute("href"));
    plotly.then(() => (window.Plotly.react ? done(window.Plotly) : failed(new Error("no plotly.js"))));
  } };

  // --- Dash's callbacks that run here

  let scheme = "light"; // as the page comes
  let known = null, chosen = {}; // what the controls show as far as the server said, and what was chosen since
  let lastVersion = 0;
  let arranged = null; // its sort and filters
  let listed = null; // the picked trials and the words searched for, as the grid shows them
  const ago = (time) => {
    const s = Math.max(0, Math.round(Date.now() / 1000 - time));
    const words = s < 120 ? s + " s" : s < 7200 ? Math.round(s / 60) + " min" : s < 172800 ? Math.round(s / 3600) + " h" : Math.round(s / 86400) + " days";
    return words + " ago";
  };
  const picks = (search) => (new URLSearchParams(search).get("trials") || "").split(",").filter(Boolean);
  const showing = (search) => JSON.stringify([picks(search), new URLSearchParams(search).get("find")]);

  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    permafrost: {
      state: (address, search, before) => {
        const path = below(address);
        const now = { path: path, search: search || "", scheme: look(search) };
        const same = before && before.path === path && before.search === now.search && before.scheme === now.scheme;
        const repaint = theme(search) !== scheme;
        scheme = theme(search);
        // The colour scheme is a property of what is around everything: setting it draws everything.
        const changes = [same ? skip() : now, repaint ? scheme : skip(), before && before.path === path ? skip() : path];
        return path === "/trials" && !window.dash_ag_grid ? grid().then(() => changes) : changes;
      },
      links: (path, later, ids) => {
        const search = later && later.search !== undefined && later.path === path ? later.search : window.location.search;
        return [ids.map((id) => root + id.link + (search || "")), ids.map((id) => id.link === path)];
      },
      news: (state, version, rendered) => {
        lastVersion = version;
        if (!state || !rendered || rendered.path !== state.path) return; // another page is on its way
        const came = window.dash_clientside.callback_context.triggered.some((each) => each.prop_id === "rendered.data");
        if (came) {
          const first = cards()[0];
          shown = first ? { [first.dataset.part]: meaning(rendered, version) } : {};
        } else if (asked === meaning(state, version)) return; // the control that wrote it has asked already
        ask(state, version);
      },
      write: function () {
        const args = Array.from(arguments);
        const [resolved, before] = args.slice(-2);
        const triggered = window.dash_clientside.callback_context.triggered;
        const nothing = [skip(), skip()];
        if (!resolved || !before || !triggered.length) return nothing;
        if (known !== resolved) { known = resolved; chosen = {}; }
        const params = new URLSearchParams(before.search);
        let changed = false;
        for (const each of triggered) {
          const key = each.prop_id.split(".")[0].replace("control-", "");
          const value = word(each.value);
          if (value === (key in chosen ? chosen[key] : word(resolved[key]))) continue; // set by us, not by the person
          changed = true;
          chosen[key] = value;
          (clears[key] || []).forEach((other) => params.delete(other));
          if (value === "" || value === resolved.defaults[key]) params.delete(key);
          else params.set(key, value);
        }
        if (!changed) return nothing;
        const text = params.toString().replaceAll("%2C", ",");
        const search = text ? "?" + text : "";
        const state = { path: before.path, search: search, scheme: look(search) };
        if (cards().length) ask(state, lastVersion); // at once: Dash would take two rounds until it comes to `news`
        return [search, state];
      },
      pick: (changes, state) => {
        const params = new URLSearchParams(state.search), ids = picks(state.search);
        for (const each of changes || []) {
          if (!each.data.id) continue; // the row is still on its way
          const at = ids.indexOf(each.data.id);
          if (each.value && at < 0) ids.push(each.data.id);
          if (!each.value && at >= 0) ids.splice(at, 1);
        }
        params.delete("trials");
        if (ids.length) params.set("trials", ids.join(","));
        const text = params.toString().replaceAll("%2C", ","), search = text ? "?" + text : "";
        listed = showing(search);
        return [search, { ...state, search: search }];
      },
      arrange: (filters, columns, shown, state) => {
        const came = new Set(window.dash_clientside.callback_context.triggered.map((each) => each.prop_id));
        if (!state || state.path !== "/trials") return [skip(), skip()];
        const params = new URLSearchParams(state.search);
        const put = (key, value) => (value ? params.set(key, value) : params.delete(key));
        if (came.has("trials-grid.filterModel")) put("filters", filters && Object.keys(filters).length ? JSON.stringify(filters) : "");
        if (came.has("trials-grid.columnState") && columns) {
          const sorted = columns.filter((each) => each.sort).sort((one, other) => one.sortIndex - other.sortIndex);
          const text = sorted.map((each) => each.colId + "." + each.sort).join(",");
          put("sort", text === "score.desc" ? "" : text);
        }
        if (came.has("trials-columns.value") && shown && columns) {
          const visible = columns.filter((each) => !each.hide).map((each) => each.colId);
          const free = columns.map((each) => each.colId).filter((name) => name !== "picked" && name !== "trial_id");
          if (free.some((name) => visible.includes(name) !== shown.includes(name))) {
            window.dash_ag_grid.getApiAsync("trials-grid").then((grid) => {
              grid.setColumnsVisible(free.filter((name) => !shown.includes(name)), false);
              grid.setColumnsVisible(shown, true);
            }, () => 0);
            put("columns", shown.join(","));
          }
        }
        const text = params.toString().replaceAll("%2C", ","), search = text ? "?" + text : "";
        arranged = [params.get("sort") || "", params.get("filters") || ""].join(" ");
        return search === (state.search || "") ? [skip(), skip()] : [search, { ...state, search: search }];
      },
      picked: (state, id) => {
        const search = (state && state.search) || "", ids = picks(search);
        const params = new URLSearchParams(search);
        const now = [params.get("sort") || "", params.get("filters") || ""].join(" ");
        if (arranged !== null && arranged !== now) { // another address: the grid follows it
          const sorts = (params.get("sort") || "score.desc").split(",").map((each, n) => {
            const dot = each.lastIndexOf(".");
            return { colId: each.slice(0, dot), sort: each.slice(dot + 1), sortIndex: n };
          });
          window.dash_ag_grid.getApiAsync("trials-grid").then((grid) => {
            grid.applyColumnState({ state: sorts, defaultState: { sort: null } });
            grid.setFilterModel(params.get("filters") ? JSON.parse(params.get("filters")) : null);
          }, () => 0);
        }
        arranged = now;
        params.delete("trials");
        if (listed !== null && listed !== showing(search)) { // another address: the grid's rows or ticks are old
          window.dash_ag_grid.getApiAsync("trials-grid").then((grid) => grid.refreshInfiniteCache(), () => 0);
        }
        listed = showing(search);
        const words = ids.length === 0 ? "Tick two to six trials to compare them."
          : ids.length === 1 ? "1 trial ticked; tick one to five more to compare them."
          : ids.length > 6 ? ids.length + " trials ticked; at most six can be compared." : ids.length + " trials ticked.";
        const rest = params.toString().replaceAll("%2C", ",");
        return [words, root + "/compare" + search, root + "/trials" + (rest ? "?" + rest : "")];
      },
      open: (clicks) => {
        const triggered = window.dash_clientside.callback_context.triggered[0];
        const point = triggered && triggered.value && triggered.value.points && triggered.value.points[0];
        const id = point && point.customdata && point.customdata[0], trials = point && point.customdata && point.customdata[2];
        if (typeof trials === "string" && trials.startsWith("/trials?")) { // of a setting
          set("url", { pathname: root + "/trials", search: trials.slice("/trials".length) });
          return skip();
        }
        return typeof id === "string" && /^[0-9a-f]{16}$/.test(id) ? root + "/trial/" + id : skip();
      },
      age: (ticks, about) => {
        if (!about || !about.last_row) return about && about.words ? about.words : "";
        return about.words + ", last row " + ago(about.last_row);
      },
      ages: (ticks, times) => times.map(ago),
    },
  });

  // Layer strips in the grid of trials, as elements.
  const components = (window.dashAgGridComponentFunctions = window.dashAgGridComponentFunctions || {});
  components.LayerStrip = (props) => {
    const row = props.data || {}, make = window.React.createElement;
    const strip = row.squares && make("span", { className: "strip", role: "img", title: row.heard, "aria-label": row.heard }, row.squares);
    return make("span", null, strip, props.value);
  };
  // Tables without links arrive as one component with their text, as React takes long over thousands of cells.
  const fill = (table, rows_in_json) => {
    const { caption, head, body } = JSON.parse(rows_in_json);
    table.replaceChildren();
    if (caption) table.createCaption().textContent = caption;
    const heads = table.createTHead().insertRow();
    for (const name of head) {
      const cell = heads.appendChild(document.createElement("th"));
      cell.scope = "col";
      cell.textContent = name;
    }
    const rows = table.createTBody();
    for (const words of body) {
      const row = rows.insertRow();
      for (const word of words) {
        const cell = row.insertCell(), [text, heard] = Array.isArray(word) ? word : [word];
        cell.textContent = text;
        if (heard) cell.setAttribute("aria-label", heard);
      }
    }
  };
  const filled = new WeakMap();
  let filling = 0;
  new MutationObserver(() => {
    filling = filling || requestAnimationFrame(() => {
      filling = 0;
      document.querySelectorAll("table[data-rows]").forEach((table) => {
        if (filled.get(table) !== table.dataset.rows) fill(table, table.dataset.rows);
        filled.set(table, table.dataset.rows);
      });
    });
  }).observe(document.documentElement, { childList: true, subtree: true, attributes: true, attributeFilter: ["data-rows"] });

  // The answers of other sweeps take long: one after the other, once all parts of the page are there.
  const answered = new WeakMap();
  let answering = false;
  const waiting = () => document.querySelector("[data-part][aria-busy=true]") ? null
    : Array.from(document.querySelectorAll("[data-answer]")).find((each) => answered.get(each) !== each.dataset.answer);
  const answerAll = async () => {
    if (answering) return;
    answering = true;
    for (let next = waiting(); next; next = waiting()) {
      answered.set(next, next.dataset.answer);
      const reply = await fetch(root + next.dataset.answer).catch(() => null);
      next.textContent = reply && reply.ok ? await reply.text() : "The answer did not come; open the sweep to see it.";
    }
    answering = false;
  };
  setInterval(answerAll, 250);

  // On a phone the filters open on demand.
  document.addEventListener("click", (event) => {
    const button = event.target.closest && event.target.closest("#filters");
    if (button) button.setAttribute("aria-expanded", button.getAttribute("aria-expanded") === "true" ? "false" : "true");
  });

  // Exports: files of what the page shows, by its own URL; pictures by Plotly itself, which needs no server.
  // Where the numbers come from is inside the file, as in dashboards/report/picture_source.py.
  const crc32 = (bytes) => {
    let crc = ~0;
    for (const byte of bytes) {
      crc ^= byte;
      for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return ~crc >>> 0;
  };
  const withSource = (picture, format, source) => {
    if (format === "svg") {
      const box = document.createElement("i");
      box.textContent = source;
      return new TextDecoder().decode(picture).replace(/<svg\b[^>]*>/, (start) => start + "<metadata>" + box.innerHTML + "</metadata>");
    }
    const body = new Uint8Array([...new TextEncoder().encode("iTXtSource"), 0, 0, 0, 0, 0, ...new TextEncoder().encode(source)]);
    const chunk = new DataView(new ArrayBuffer(body.length + 8));
    chunk.setUint32(0, body.length - 4);
    body.forEach((byte, n) => chunk.setUint8(4 + n, byte));
    chunk.setUint32(4 + body.length, crc32(body));
    const header = 33; // the signature and the chunk IHDR
    return new Blob([picture.slice(0, header), chunk.buffer, picture.slice(header)], { type: "image/png" });
  };
  const save = async (graph, name, format) => {
    const address = await window.Plotly.toImage({ ...lit(graph), config: { staticPlot: true } }, { width: graph.offsetWidth, height: graph.offsetHeight, format: format, scale: format === "png" ? 2 : 1 });
    const data = address.slice(address.indexOf(",") + 1);
    const bytes = format === "svg" ? new TextEncoder().encode(decodeURIComponent(data)) : Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
    const content = withSource(bytes, format, document.getElementById("footer").textContent);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([content], { type: format === "svg" ? "image/svg+xml" : "image/png" }));
    link.download = "permafrost-" + name + "." + format;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  };

  document.addEventListener("click", (event) => {
    const link = event.target.closest && event.target.closest("a[data-export]");
    if (link) link.href = link.dataset.export + window.location.search;
    const button = event.target.closest && event.target.closest("button[data-picture]");
    if (!button) return;
    const [name, format] = button.dataset.picture.split(".");
    const graph = document.querySelector('[data-part="' + name + '"] .js-plotly-plot');
    if (graph) save(graph, name, format);
  });
})();
