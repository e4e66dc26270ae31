"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const drawing = document.getElementById("drawing");
  const circles = Array.from(document.querySelectorAll("#points circle"));
  const numbers = document.getElementById("numbers");
  const ring = document.getElementById("ring");
  const tip = document.getElementById("tip");
  const status = document.getElementById("status");
  const NEAR = 14; // Pixels from the pointer within which a dot is meant.
  const NOWHERE = -100; // Where a dot is that has no position, outside of the drawing.
  let view = data.views[0];
  let chosen = -1;
  let alone = null; // The cluster that is shown alone.

  const x = (i) => view.positions[2 * i];
  const y = (i) => view.positions[2 * i + 1];
  const shown = (i) => x(i) !== NOWHERE && (alone === null || data.clusters[i] === alone);

  function words(i) {
    const cluster = data.clusters[i] < 0 ? "outlier" : `cluster ${data.clusters[i]}`;
    const sure = data.sure[i] === null ? "" : `, probability ${data.sure[i].toFixed(2)}`;
    return `row ${data.ids[i]}: ${cluster}${sure}`;
  }

  function choose(i) {
    chosen = i;
    tip.hidden = i < 0;
    ring.toggleAttribute("hidden", i < 0);
    if (i < 0) {
      status.textContent = "No row is selected.";
      return;
    }
    const text = words(i);
    status.textContent = text[0].toUpperCase() + text.slice(1);
    tip.textContent = text;
    ring.setAttribute("cx", x(i));
    ring.setAttribute("cy", y(i));
    const scale = drawing.getBoundingClientRect().width / drawing.viewBox.baseVal.width;
    const left = Math.min(x(i) * scale + 14, drawing.parentNode.clientWidth - tip.offsetWidth - 2);
    const above = y(i) * scale - tip.offsetHeight - 12;
    tip.style.left = `${Math.max(0, left)}px`;
    tip.style.top = `${above < 0 ? y(i) * scale + 16 : above}px`;
  }

  // With the keyboard the dot itself has the focus, so that a screen reader says what it is.
  function focus(i) {
    const circle = circles[i];
    circle.setAttribute("tabindex", "-1");
    circle.setAttribute("role", "img");
    circle.setAttribute("aria-label", words(i));
    circle.focus({ preventScroll: true });
    choose(i);
  }

  function best(cost) {
    let found = -1;
    let least = Infinity;
    for (let i = 0; i < circles.length; i += 1) {
      const distance = shown(i) ? cost(i) : Infinity;
      if (distance < least) [found, least] = [i, distance];
    }
    return found;
  }

  function nearest(px, py, most) {
    const i = best((j) => Math.hypot(x(j) - px, y(j) - py));
    return i >= 0 && Math.hypot(x(i) - px, y(i) - py) <= most ? i : -1;
  }

  // The nearest dot in a direction; what lies to the side counts twice.
  function next(dx, dy) {
    return best((i) => {
      const ahead = (x(i) - x(chosen)) * dx + (y(i) - y(chosen)) * dy;
      const aside = Math.abs((x(i) - x(chosen)) * dy) + Math.abs((y(i) - y(chosen)) * dx);
      return i !== chosen && ahead > 0 ? ahead + 2 * aside : Infinity;
    });
  }

  drawing.addEventListener("pointermove", (event) => {
    const box = drawing.getBoundingClientRect();
    const scale = drawing.viewBox.baseVal.width / box.width;
    const i = nearest((event.clientX - box.left) * scale, (event.clientY - box.top) * scale, NEAR * scale);
    if (i >= 0 && i !== chosen) choose(i);
  });
  drawing.addEventListener("pointerleave", () => {
    if (!drawing.contains(document.activeElement)) choose(-1);
  });
  drawing.addEventListener("focus", () => {
    if (drawing.matches(":focus-visible")) {
      choose(chosen >= 0 && shown(chosen) ? chosen : nearest(500, 350, Infinity));
    }
  });
  drawing.addEventListener("focusout", (event) => {
    if (!drawing.contains(event.relatedTarget)) tip.hidden = true;
  });
  drawing.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (event.key === "Escape") {
      drawing.focus();
      choose(-1);
    } else if (event.key in steps) {
      event.preventDefault();
      const i = chosen < 0 ? nearest(500, 350, Infinity) : next(...steps[event.key]);
      if (i >= 0) focus(i);
    }
  });

  function show(cluster) {
    alone = alone === cluster ? null : cluster;
    circles.forEach((circle, i) => circle.classList.toggle("dim", !shown(i)));
    document.querySelectorAll("button.cluster").forEach((button) => {
      button.setAttribute("aria-pressed", String(Number(button.dataset.cluster) === alone));
    });
    if (chosen >= 0 && !shown(chosen)) choose(-1);
  }
  document.querySelectorAll("button.cluster").forEach((button) => {
    button.addEventListener("click", () => show(Number(button.dataset.cluster)));
  });
  document.querySelectorAll("button.row").forEach((button) => {
    button.addEventListener("click", () => {
      const i = data.ids.indexOf(button.dataset.row);
      if (i < 0) return;
      if (!shown(i)) show(alone);
      drawing.scrollIntoView({ block: "center" });
      focus(i);
    });
  });

  function see(other) {
    view = other;
    circles.forEach((circle, i) => {
      circle.setAttribute("cx", x(i));
      circle.setAttribute("cy", y(i));
    });
    if (numbers) {
      view.centres.forEach(([, cx, cy], index) => {
        numbers.children[index].setAttribute("x", cx);
        numbers.children[index].setAttribute("y", cy);
      });
    }
    document.getElementById("across").textContent = view.across;
    document.getElementById("up").textContent = view.up;
    choose(-1);
  }

  function median(values) {
    const sorted = Array.from(values).sort((a, b) => a - b);
    return sorted.length ? sorted[Math.floor(sorted.length / 2)] : NOWHERE;
  }

  // A map of two columns as they are; rows without one of the values are not on it.
  function twoColumns(across, up) {
    const [width, height, margin, steps] = data.drawing;
    const positions = data.clusters.flatMap((_, i) => {
      const [one, other] = [across.positions[i], up.positions[i]];
      if (one === null || other === null) return [NOWHERE, NOWHERE];
      const share = other / steps;
      return [margin + (one / steps) * (width - 2 * margin), height - margin - share * (height - 2 * margin)].map(Math.round);
    });
    const centres = data.views[0].centres.map(([cluster]) => {
      const members = data.clusters.flatMap((k, i) => (k === cluster && positions[2 * i] !== NOWHERE ? [i] : []));
      return [cluster, median(members.map((i) => positions[2 * i])), median(members.map((i) => positions[2 * i + 1]))];
    });
    const missing = positions.includes(NOWHERE) ? " (rows without one of the two values are not drawn)" : "";
    return { positions, centres, across: across.title, up: up.title + missing };
  }

  const columns = document.getElementById("columns");
  const chosenColumns = columns ? Array.from(columns.querySelectorAll("select")) : [];
  const seeColumns = () => see(twoColumns(...chosenColumns.map((select) => data.columns[Number(select.value)])));
  chosenColumns.forEach((select) => select.addEventListener("change", seeColumns));
  document.querySelectorAll("input[name=view]").forEach((input) => {
    input.addEventListener("change", () => {
      if (columns) columns.hidden = input.value !== "columns";
      if (input.value === "columns") seeColumns();
      else see(data.views[Number(input.value)]);
    });
  });
})();
