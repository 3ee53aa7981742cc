// Says of a table that it scrolls, and shades the edge of code that does.
addEventListener("load", () => requestAnimationFrame(() => {
  const tables = ".md-typeset__scrollwrap, .jp-RenderedHTML", code = ".md-typeset pre > code, .highlight-ipynb";
  const notes = new Map(), scrolls = (box) => box.scrollWidth > box.clientWidth + 1;
  const watch = new ResizeObserver((seen) => {
    for (const {target} of seen) {
      target.classList.toggle("scrolls", scrolls(target));
      if (notes.has(target)) notes.get(target).hidden = !scrolls(target);
    }
  });
  for (const box of document.querySelectorAll(tables)) {  // above a table, below a result beside its prompt
    const note = Object.assign(document.createElement("div"), {className: "scroll-note", textContent: "scrolls to the right →", hidden: true});
    box.matches(".jp-RenderedHTML") ? box.after(note) : box.before(note);
    notes.set(box, note);
  }
  for (const box of document.querySelectorAll(`${tables}, ${code}`)) watch.observe(box);
}));
