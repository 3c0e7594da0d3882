// What a report's page says and how it looks, as one object. Evaluated in the page by the browser test.
(() => {
  const text = (cell) => (cell.firstChild ? cell.firstChild.textContent.trim() : "");
  const cells = (row) => [...row.cells].map((cell) => cell.textContent);
  const figures = [...document.querySelectorAll("[data-path]")].map((it) => ({
    run: Number(it.dataset.run), path: it.dataset.path, text: text(it),
  }));
  const buckets = [...document.querySelectorAll("[data-hist]")].map((row) => ({
    run: Number(row.dataset.run), path: row.dataset.hist, cells: cells(row).map(Number),
  }));
  const one = (row, name) => row.querySelector("." + name).textContent;
  const worst = [...document.querySelectorAll("tr.worst")].map((row) => ({
    run: Number(row.dataset.run), seq: Number(one(row, "seq")), cpu: Number(one(row, "cpu")),
    due: Number(one(row, "due")), irq: Number(one(row, "irq")), thread: Number(one(row, "thread")),
    causes: [...row.querySelectorAll(".cause")].map((cell) => Number(cell.textContent || 0)),
  }));
  const records = [...document.querySelectorAll("tr[data-record]")].map((row) => cells(row).at(-1));
  const bench = [...document.querySelectorAll("[data-bench]")].map((cell) => ({
    name: cell.dataset.bench, value: Number(cell.textContent),
  }));

  // Colours: how much something stands out from what is behind it (WCAG 2, relative luminance).
  const channel = (value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  };
  const numbers = (color) => color.match(/[\d.]+/g).map(Number);
  const luminance = ([red, green, blue]) =>
    0.2126 * channel(red) + 0.7152 * channel(green) + 0.0722 * channel(blue);
  const behind = (element) => {
    for (let it = element; it; it = it.parentElement) {
      const color = numbers(getComputedStyle(it).backgroundColor);
      if (it.tagName !== "circle" && (color.length < 4 || color[3] > 0) && !(it instanceof SVGElement)) return color;
    }
    return [255, 255, 255];
  };
  const contrast = (a, b) => {
    const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };
  const faint = [];
  const look = (element, color, least) => {
    const found = contrast(numbers(color), behind(element));
    if (found < least) faint.push(`${element.tagName}.${element.getAttribute("class")} ${element.textContent.slice(0, 30)}: ${found.toFixed(2)}`);
  };
  for (const it of document.querySelectorAll("svg text")) look(it, getComputedStyle(it).fill, 4.5);
  for (const it of document.querySelectorAll("p, li, span:not(.swatch), strong, code, td, th, summary, figcaption, a, h1, h2, h3"))
    look(it, getComputedStyle(it).color, 4.5);

  // Text in pictures: large enough, inside its picture, and not upon other text.
  const small = [], cut = [], overlapping = [];
  for (const svg of document.querySelectorAll("svg.plot")) {
    const frame = svg.getBoundingClientRect();
    const scale = frame.width / svg.viewBox.baseVal.width;
    const boxes = [...svg.querySelectorAll("text")].map((it) => ({ it, box: it.getBoundingClientRect() }));
    const name = (it) => `${svg.getAttribute("aria-label")}: ${it.textContent.trim()}`;
    for (const { it, box } of boxes) {
      const size = parseFloat(getComputedStyle(it).fontSize) * scale;
      if (size < 9) small.push(`${name(it)} (${size.toFixed(1)} px)`);
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1)
        cut.push(name(it));
    }
    boxes.forEach((a, at) => boxes.slice(at + 1).forEach((b) => {
      const wide = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
      const high = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
      if (wide > 1 && high > 3) overlapping.push(`${name(a.it)} and ${b.it.textContent.trim()}`);
    }));
  }
  return {
    title: document.title,
    figures, buckets, worst, records, bench,
    pictures: [...document.querySelectorAll("svg.plot")].map((svg) => svg.getAttribute("aria-label")),
    scripts: document.scripts.length,
    elements: [...new Set([...document.querySelectorAll("*")].map((it) => it.tagName.toLowerCase()))],
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    faint: [...new Set(faint)], small, cut, overlapping,
    ground: getComputedStyle(document.body).backgroundColor,
    height: document.documentElement.scrollHeight,
  };
})()
