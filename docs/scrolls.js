// Says of a table that it scrolls, and shades the edge of code that does. The keyboard reaches both.
addEventListener("load", () => requestAnimationFrame(() => {
  const tables = ".md-typeset__scrollwrap, .jp-RenderedHTML", code = ".md-typeset pre > code, .highlight-ipynb, .jp-OutputArea-output pre";
  const notes = new Map(), scrolls = (box) => box.scrollWidth > box.clientWidth + 1;
  const watch = new ResizeObserver((seen) => {
    for (const {target} of seen) {
      target.classList.toggle("scrolls", scrolls(target));
      if (scrolls(target)) target.tabIndex = 0;
      if (notes.has(target)) notes.get(target).hidden = !scrolls(target);
    }
  });
  for (const box of document.querySelectorAll(tables)) {  // above a table, below a result beside its prompt
    const note = Object.assign(document.createElement("div"), {className: "scroll-note", textContent: "scrolls to the right →", hidden: true});
    box.matches(".jp-RenderedHTML") ? box.after(note) : box.before(note);
    notes.set(box, note);
  }
  // what the theme leaves without a name of its own
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  for (const nav of document.querySelectorAll("nav.md-nav[aria-labelledby]")) {
    nav.setAttribute("aria-label", nav.querySelector(".md-nav__title").textContent.trim());
    nav.removeAttribute("aria-labelledby");
  }
  const copies = () => document.querySelectorAll("nav.md-code__nav").forEach((nav) => nav.setAttribute("role", "none"));
  new MutationObserver(copies).observe(document.body, {childList: true, subtree: true});
  copies();
  for (const box of document.querySelectorAll(`${tables}, ${code}`)) watch.observe(box);
}));
