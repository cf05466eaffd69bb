/* What runs in the browser: the URL is the only state, so controls write it and everything else follows from it. */
(function () {
  "use strict";
  const skip = () => window.dash_clientside.no_update;
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
  const word = (value) => (Array.isArray(value) ? value.join(",") : value === null || value === undefined ? "" : String(value).trim());

  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    permafrost: {
      state: (path, search, before) => [
        { path: path, search: search || "", scheme: theme(search) },
        theme(search),
        before && before === path ? skip() : path, // a new query is no new page, and its figures need not wait for one
      ],
      links: (path, search, ids) => [ids.map((id) => id.link + (search || "")), ids.map((id) => id.link === path)],
      write: function () {
        const args = Array.from(arguments);
        const [resolved, search] = args.slice(-2);
        const triggered = window.dash_clientside.callback_context.triggered;
        if (!resolved || !triggered.length) return skip();
        const params = new URLSearchParams(search || "");
        let changed = false;
        for (const each of triggered) {
          const key = each.prop_id.split(".")[0].replace("control-", "");
          const value = word(each.value);
          if (value === word(resolved[key])) continue; // set by us, not by the person
          changed = true;
          (clears[key] || []).forEach((other) => params.delete(other));
          if (value === "" || value === resolved.defaults[key]) params.delete(key);
          else params.set(key, value);
        }
        if (!changed) return skip();
        const text = params.toString().replaceAll("%2C", ",");
        return text ? "?" + text : "";
      },
      open: (clicks) => {
        const triggered = window.dash_clientside.callback_context.triggered[0];
        const point = triggered && triggered.value && triggered.value.points && triggered.value.points[0];
        const id = point && point.customdata && point.customdata[0];
        return typeof id === "string" && /^[0-9a-f]{16}$/.test(id) ? "/trial/" + id : skip();
      },
      age: (ticks, about) => {
        if (!about || !about.last_row) return about && about.words ? about.words : "";
        const s = Math.max(0, Math.round(Date.now() / 1000 - about.last_row));
        const ago = s < 120 ? s + " s" : s < 7200 ? Math.round(s / 60) + " min" : s < 172800 ? Math.round(s / 3600) + " h" : Math.round(s / 86400) + " days";
        return about.words + ", last row " + ago + " ago";
      },
    },
  });

  // Exports: files of what the page shows, by its own URL; pictures by Plotly itself, which needs no server.
  document.addEventListener("click", (event) => {
    const link = event.target.closest && event.target.closest("a[data-export]");
    if (link) link.href = link.dataset.export + window.location.search;
    const button = event.target.closest && event.target.closest("button[data-picture]");
    if (!button) return;
    const [name, format] = button.dataset.picture.split(".");
    const graph = document.querySelector('[data-part="' + name + '"] .js-plotly-plot');
    if (graph) window.Plotly.downloadImage(graph, { format: format, filename: "permafrost-" + name, scale: format === "png" ? 2 : 1 });
  });
})();
