// The form of choose.html: formulas of rules.js, evaluated at the sizes that were asked for.
(() => {
  const form = document.getElementById("rule-form"), answer = document.getElementById("rule-answer");
  if (!form) return;
  const rules = window.deepnetRules, chosen = {placement: "post-ln", norm: "layer", layer: "attention,ffn", optimizer: "adamw"};
  for (const name of Object.keys(chosen)) {
    const values = [...new Set(rules.map((rule) => rule[name]))];
    form.elements[name].append(...values.map((value) => new Option(value, value, false, value === chosen[name])));
  }

  // A formula in N or d is written with + - * / ** and parentheses, which JavaScript reads alike.
  const at = (formula, sizes) => {
    if (!/^[-+*/()\d.\sNdsqrt]*$/.test(formula)) return NaN;
    return Function("N", "d", "sqrt", `"use strict"; return ${formula}`)(sizes.N, sizes.d, Math.sqrt);
  };
  const shown = (number) => Number.isFinite(number) ? String(Number(number.toPrecision(4))) : "";
  const made = (tag, properties, ...inside) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...inside);
    return element;
  };
  const said = (words) => made("p", {textContent: words});
  const row = (what, formula, N) =>  // the formula as its own page draws it, and its value
    made("tr", {}, made("td", {textContent: what}), made("td", {innerHTML: window.deepnetDrawn[formula]}),
      made("td", {textContent: shown(at(formula, {N}))}));

  const whole = (name) => {  // the number of a field; an empty field is no number, and a wrong one is said
    const {value, min, max, validity} = form.elements[name], number = Number(value);
    if (value === "" && !validity.badInput && name !== "depth") return NaN;
    if (value !== "" && Number.isInteger(number) && number >= Number(min) && number <= Number(max)) return number;
    const label = form.elements[name].labels[0].firstChild.data.trim();
    throw new RangeError(`${label} cannot be ${value || "empty"}: give a whole number from ${min} to ${max}.`);
  };

  const show = () => {
    answer.replaceChildren();
    try { answered(); } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      answer.replaceChildren(said(error.message));
    }
  };
  const answered = () => {
    const given = Object.fromEntries(new FormData(form));
    history.replaceState(null, "", `?${new URLSearchParams(Object.entries(given).filter(([, value]) => value))}`);
    const N = whole("depth"), d = whole("width"), base = whole("base");
    if (base && !d) throw new RangeError(`Give the width of your model, too: you tuned at width ${base}.`);
    if (d && !base) throw new RangeError(`Give the width that you tuned at, too: your model has width ${d}.`);
    const rule = rules.find((r) => Object.keys(chosen).every((name) => r[name] === given[name]));
    answer.append(...Object.entries(rule.words).map(([name, words]) => said(`${given[name]}: ${words}.`)));
    if (rule.refused) return answer.append(said(`No rule: ${rule.refused}`));
    answer.append(made("p", {innerHTML: `Each sublayer: ${window.deepnetDrawn[rule.equation]}`}));
    for (const one of rule.rows) showRow(one, N);
    answer.append(said(rule.advice));
    if (d) showWidth(rule, N, d, base);
    showCommands(given, rule.closure, d);
  };
  const showRow = (rule, N) => {  // one of the two rules
    const table = made("table", {});
    for (const entry of rule.rule) {
      const whose = entry.sublayer === "*" ? "" : ` (${entry.sublayer})`;
      const scaled = {"*": "value, output and the feed-forward", attention: "value and output"}[entry.sublayer] || "the feed-forward";
      table.append(row(`α${whose}`, entry.alpha, N));
      table.append(row(`β${whose}, Xavier gain of ${scaled}`, entry.beta, N));
      if (entry.rate !== "1") table.append(row(`κ${whose}, their learning rate times`, entry.rate, N));
    }
    if (rule.eta !== "1") table.append(row("all learning rates times", rule.eta, N));
    for (const [formula, names] of Object.entries(rule.beside)) {
      table.append(row(`learning rate of ${names.join(", ").replaceAll("_", " ")}, times`, formula, N));
    }
    answer.append(made("h2", {textContent: rule.named}), table, made("p", {innerHTML: rule.in_depth}));
  };
  const showWidth = (rule, N, d, base) => {  // depth times width: relative to the width that was tuned
    const table = made("table", {innerHTML: "<thead><tr><th>matrices<th>initial size ×<th>multiplier ×<th>learning rate ×"});
    for (const {roles, init, multiplier, rate} of rule.widths) {
      const values = [init, multiplier, rate].map((formula) =>
        shown(at(formula, {N, d: 1}) * at(formula, {N, d}) / at(formula, {N, d: base})));
      table.append(made("tr", {}, ...[roles.join(", "), ...values].map((textContent) => made("td", {textContent}))));
    }
    answer.append(made("h2", {textContent: `With ${N} layers, from width ${base} to ${d}`}), table,
      said("Each number is the product of both factors: of the depth, and of the width compared with the tuned one."));
  };
  const showCommands = (given, closure, wide) => {  // what to type, and where to find this choice again
    const words = `deepnet-theory derive --optimizer ${given.optimizer} --placement ${given.placement} --norm ${given.norm} --layer ${given.layer} --closure ${closure}`;
    const lines = [`${words} --depth ${given.depth}`];
    if (wide) lines.push(`${words.replace("derive", "export")} --depth ${given.depth} --width ${given.width} --base-width ${given.base} -o constants.json`);
    const code = made("code", {textContent: lines.join("\n")});
    const copy = made("button", {type: "button", textContent: "Copy", onclick: () => {
      getSelection().selectAllChildren(code);  // the clipboard's own interface is not there from a disk
      if (document.execCommand("copy")) copy.textContent = "Copied";
    }});
    answer.append(made("h2", {textContent: "As commands"}), made("pre", {}, code),
      made("p", {}, copy, " ", made("a", {href: location.href, textContent: "Address of this choice"})));
  };
  for (const [name, value] of new URLSearchParams(location.search)) {
    if (form.elements[name]) form.elements[name].value = value;
  }
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  show();
})();
