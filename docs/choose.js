// The form of choose.html: formulas of rules.js, evaluated at the depth that was asked for.
(() => {
  const form = document.getElementById("rule-form"), answer = document.getElementById("rule-answer");
  if (!form) return;
  const rules = window.deepnetRules;
  const offer = (name, chosen) => {
    for (const value of [...new Set(rules.map((rule) => rule[name]))]) {
      form.elements[name].append(new Option(value, value, false, value === chosen));
    }
  };
  offer("placement", "post-ln");
  offer("optimizer", "adamw");

  // A formula in N is written with + - * / ** and parentheses, which JavaScript reads alike.
  const at = (formula, N) => {
    if (!/^[-+*/()\d.\sNsqrt]*$/.test(formula)) return NaN;
    return Function("N", "sqrt", `"use strict"; return ${formula}`)(N, Math.sqrt);
  };
  const shown = (number) => Number.isFinite(number) ? String(Number(number.toPrecision(4))) : "";
  const row = (what, formula, N) => {  // the formula as its own page draws it, and its value
    const line = document.createElement("tr");
    const cells = [{textContent: what}, {innerHTML: window.deepnetDrawn[formula]}, {textContent: shown(at(formula, N))}];
    for (const cell of cells) line.append(Object.assign(document.createElement("td"), cell));
    return line;
  };
  const told = (words) => Object.assign(document.createElement("p"), {textContent: words});

  const show = () => {
    const {placement, optimizer, depth} = Object.fromEntries(new FormData(form));
    const N = Number(depth);
    const rule = rules.find((r) => r.placement === placement && r.optimizer === optimizer);
    answer.replaceChildren();
    if (!Number.isInteger(N) || N < 1) return answer.append(told("The number of layers is a whole number from 1."));
    if (rule.refused) return answer.append(told(`No rule: ${rule.refused}`));
    const equation = Object.assign(document.createElement("p"), {innerHTML: `Each sublayer: ${window.deepnetDrawn[rule.equation]}`});
    answer.append(equation);
    for (const row of rule.rows) showRow(row, N);
  };
  const showRow = (rule, N) => {  // one of the two rules
    const table = document.createElement("table");
    for (const entry of rule.rule) {
      const whose = entry.sublayer === "*" ? "" : ` (${entry.sublayer})`;
      table.append(row(`α${whose}`, entry.alpha, N));
      table.append(row(`β${whose}, Xavier gain of value, output, fc1, fc2`, entry.beta, N));
      if (entry.rate !== "1") table.append(row(`κ${whose}, their learning rate times`, entry.rate, N));
    }
    if (rule.eta !== "1") table.append(row("all learning rates times", rule.eta, N));
    for (const [formula, names] of Object.entries(rule.beside)) {
      table.append(row(`learning rate of ${names.join(", ")}, times`, formula, N));
    }
    const title = Object.assign(document.createElement("h2"), {textContent: rule.named});
    answer.append(title, table, told(rule.in_depth));
  };
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  show();
})();
