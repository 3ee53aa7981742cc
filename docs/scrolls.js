// Says of a table that it scrolls, and shades the edge of code that does.
addEventListener("load", () => requestAnimationFrame(() => {
  const tables = ".md-typeset__scrollwrap, .jp-RenderedHTML", code = ".md-typeset pre > code, .highlight-ipynb";
  const scrolls = (box) => box.scrollWidth > box.clientWidth + 1;
  const watch = new ResizeObserver((seen) => {
    for (const {target} of seen) {
      target.classList.toggle("scrolls", scrolls(target));
      if (target.nextElementSibling?.className === "scroll-note") target.nextElementSibling.hidden = !scrolls(target);
    }
  });
  for (const box of document.querySelectorAll(tables)) {
    box.after(Object.assign(document.createElement("div"), {className: "scroll-note", textContent: "scrolls to the right →", hidden: true}));
  }
  for (const box of document.querySelectorAll(`${tables}, ${code}`)) watch.observe(box);
}));
