// What the pages do beyond being read: times as people like them, keys, actions, live updates.
// Everything is also in the HTML; without this script the pages show the same.
const root = document.documentElement;
const base = root.dataset.base;
const $ = (selector, within = document) => within.querySelector(selector);
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];
const kept = (name) => { try { return localStorage.getItem(`perdure.${name}`); } catch { return null; } };
const keep = (name, value) => { try { localStorage.setItem(`perdure.${name}`, value); } catch { /* not kept */ } };

// --- theme and times

const THEMES = ["", "light", "dark"];
const setTheme = (theme) => { theme ? root.dataset.theme = theme : delete root.dataset.theme; keep("theme", theme); };
const nextTheme = () => setTheme(THEMES[(THEMES.indexOf(kept("theme") || "") + 1) % THEMES.length]);
setTheme(kept("theme") || "");

const CLOCKS = ["relative", "local", "UTC"];
const UNITS = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];
function relative(at) {
  const seconds = Math.round((Date.now() - at) / 1000);
  const size = Math.abs(seconds);
  if (size < 1) return "now";
  const place = UNITS.findIndex(([, length]) => size >= length);
  const [unit, length] = UNITS[place];
  let text = `${Math.floor(size / length)} ${unit}`;
  const less = UNITS[place + 1];
  if (less && place < 2) { const rest = Math.floor((size % length) / less[1]); if (rest) text += ` ${rest} ${less[0]}`; }
  return seconds >= 0 ? `${text} ago` : `in ${text}`;
}
function shown(at, clock) {
  if (clock === "relative") return relative(at);
  const there = clock === "UTC" ? at : new Date(at - at.getTimezoneOffset() * 60_000);
  return there.toISOString().slice(0, 19).replace("T", " ");
}
function showTimes() {
  const clock = kept("clock") || "relative";
  $("#clock").textContent = clock;
  for (const one of $$("time[datetime]")) {
    const at = new Date(one.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    one.title = at.toISOString().replace("T", " ").replace("Z", " UTC");
    const text = shown(at, clock);
    if (one.textContent !== text) one.textContent = text;
  }
}
$("#clock").addEventListener("click", () => {
  keep("clock", CLOCKS[(CLOCKS.indexOf(kept("clock") || "relative") + 1) % CLOCKS.length]);
  showTimes();
});
$("#theme").addEventListener("click", nextTheme);
setInterval(showTimes, 1000);

// --- asking

const make = (tag, look, text) => Object.assign(document.createElement(tag), { className: look, textContent: text });
const valueBox = (text, look = "") => Object.assign(make("pre", `value ${look}`, text), { tabIndex: 0 });
const pathOf = (id) => encodeURIComponent(id).replace(/\.json$/, "%2Ejson");
function toast(text) {
  const place = $("#toast");
  place.textContent = text;
  place.classList.add("on");
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => place.classList.remove("on"), 4000);
}
async function ask(method, url, body) {
  const headers = { "X-Perdure-Csrf": root.dataset.csrf, Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const answer = await fetch(url, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  const text = await answer.text();
  const value = text ? JSON.parse(text) : null;
  if (!answer.ok) throw new Error(value?.detail || `${answer.status} ${answer.statusText}`);
  return value;
}

// Show the one dialog; `act` gets the fields and may throw, which keeps it open.
function confirmThen({ title, text, yes, fields = [], danger = false }, act) {
  const dialog = $("#dialog");
  $("#dialog-title").textContent = title;
  $("#dialog-text").textContent = text || "";
  const place = $("#dialog-fields");
  place.replaceChildren(...fields.map((name) => {
    const isValue = name === "value";
    const label = make("label", "", isValue ? "value (JSON)" : name);
    const input = document.createElement(isValue ? "textarea" : "input");
    input.name = name;
    if (isValue) input.value = "null";
    input.required = name === "name";
    label.append(input);
    return label;
  }));
  const button = $("#dialog-yes");
  button.textContent = yes;
  button.className = danger ? "danger" : "primary";
  const problem = $("#dialog-problem");
  problem.hidden = true;
  $("form", dialog).onsubmit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    try {
      const values = Object.fromEntries($$("[name]", place).map((one) => [one.name, one.value]));
      if ("value" in values) values.value = readJson(values.value);
      await act(values);
      dialog.close();
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
    } finally {
      button.disabled = false;
    }
  };
  $("#dialog-no").onclick = () => dialog.close();
  dialog.showModal();
  ($("[name]", place) || $("#dialog-no")).focus();
}
function readJson(text) {
  try { return JSON.parse(text); } catch { throw new Error(`${text.slice(0, 60)} is not JSON: a text is in double quotes`); }
}

const CLICKS = { act: actAfter, press, "go-back": goBack, check, bulk };
document.addEventListener("click", (event) => {
  for (const [name, does] of Object.entries(CLICKS)) {
    const button = event.target.closest(`[data-${name}]`);
    if (button) { does(button); return; }
  }
  const row = event.target.closest("tr[data-href]");
  if (row && !event.target.closest("a, button, input, label") && !getSelection().toString()) location.assign(row.dataset.href);
});
function actAfter({ dataset }) {
  const { act, url, go, title, text, yes, fields, body } = dataset;
  confirmThen({ title, text, yes, fields: fields ? fields.split(" ") : [], danger: "danger" in dataset }, async (values) => {
    const told = await ask(act, url, act === "POST" ? { ...JSON.parse(body || "{}"), ...values } : undefined);
    const has = told?.is_answered;
    toast(has ? `It answered: ${JSON.stringify(told.answer)}` : has === false ? "No answer yet" : "Done");
    if (go) location.assign(go); else refresh();
  });
}

// A button that asks nothing, and is not pressed twice.
async function press(button) {
  await during(button, () => ask("POST", button.dataset.press));
  refresh();
}
async function during(button, work, fail = toast) {
  button.disabled = true;
  try { await work(); } catch (error) { fail(error.message); }
  button.disabled = false;
}

// Go back to an event, in this instance or another one: what that would do is shown first.
async function goBack(button) {
  const { goBack: how, url, plan: planUrl, go } = button.dataset;
  const number = $("#go-back-event").value;
  const version = $("#go-back-version").value.trim();
  const point = { ...(number ? { event: Number(number) } : {}), ...(version ? { version } : {}) };
  const forks = how === "fork";
  await during(button, async () => {
    const plan = await ask("POST", planUrl, point);
    confirmThen({
      title: forks ? "Start another instance from here?" : "Reset this instance?",
      text: planText(plan, forks),
      yes: forks ? "Fork" : "Reset",
      fields: [forks ? "instance_id" : "reason"],
      danger: !forks,
    }, async (values) => {
      const done = await ask("POST", url, { ...point, ...values });
      toast("Done");
      if (forks) location.assign(go + pathOf(done.instance_id)); else refresh();
    });
  });
}
function planText(plan, forks) {
  const said = [`Keeps ${plan.kept_events} events, drops ${plan.dropped_events}.`];
  if (plan.runs_again.length) said.push(`Runs again: ${plan.runs_again.join(", ")}.`);
  if (plan.children_again.length) said.push(`Starts again, under other ids: ${plan.children_again.join(", ")}.`);
  if (plan.signals_kept) said.push(`${plan.signals_kept} signals come again.`);
  if (plan.refused && !forks) said.push(`Would be refused: ${plan.refused}.`);
  if (plan.mismatch) said.push(`The code does not fit: ${plan.mismatch.split("\n")[0]}.`);
  return said.join(" ");
}

// Whether the code fits a history: the word first, then both sides.
async function check(button) {
  const place = $("#check-answer");
  await during(button, async () => {
    const { fits, events, text } = await ask("POST", button.dataset.check, {});
    place.replaceChildren(
      make("span", `status ${fits ? "completed" : "failed"}`, fits ? "✓ it fits" : "✕ it does not fit"),
      fits ? make("p", "", `All ${events} events are what the code asks for now.`) : valueBox(text, "trace"),
    );
  }, (text) => place.replaceChildren(make("span", "problem", text)));
}

// The slider of a decider's events: its number while it moves, the state when it stands.
let sliding = false;
document.addEventListener("input", (event) => {
  if (event.target.id !== "scrub") return;
  sliding = true;
  $(".scrub output").textContent = event.target.value;
});
document.addEventListener("change", (event) => {
  const { id, value, dataset } = event.target;
  if (id !== "scrub") return;
  sliding = false;
  history.replaceState(null, "", `${dataset.url}?at=${value}`);
  tag = "";
  served = null;
  refresh();
});

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (form.matches("[data-start]")) {
    event.preventDefault();
    const problem = $(".problem", form);
    try {
      const started = await ask("POST", form.dataset.url, startBody(form));
      location.assign(form.dataset.go + pathOf(started.instance_id));
    } catch (error) { problem.textContent = error.message; problem.hidden = false; }
  } else if (form.id === "what-if") {
    event.preventDefault();
    const place = $("#what-if-answer");
    try {
      const body = { tag: form.elements.tag.value, value: readJson(form.elements.value.value) };
      showTry(place, await ask("POST", form.dataset.url, body));
    } catch (error) { showTry(place, { outcome: { outcome: "not possible" }, said: error.message }); }
    place.hidden = false;
  } else if (form.id === "bulk") event.preventDefault();
});
// What an input would come to: the word first, then what would be recorded or why it would not.
const SIGNS = { accepted: ["✓", "completed"], rejected: ["✕", "failed"], completed: ["■", "terminated"] };
function showTry(place, tried) {
  const { outcome: word, ...rest } = tried.outcome;
  const [sign, look] = SIGNS[word] || ["▲", "blocked"];
  const more = Object.fromEntries(Object.entries(tried).filter(([name, one]) => name !== "outcome" && (one.length || Object.keys(one).length)));
  const said = tried.said || JSON.stringify({ ...rest, ...more }, null, 2);
  place.replaceChildren(make("span", `status ${look}`, `${sign} ${word}`), valueBox(said));
}
function startBody(form) {
  const body = { name: form.dataset.name, version: form.dataset.version };
  if (form.elements.instance_id.value) body.instance_id = form.elements.instance_id.value;
  const fields = $$("[data-arg]", form);
  if (!fields.length) { if (form.elements.input) body.input = readJson(form.elements.input.value); return body; }
  body.input = {};
  for (const one of fields) {
    if (one.value === "" && !one.required) continue;
    body.input[one.dataset.arg] = one.dataset.type === "text" ? one.value : readJson(one.value);
  }
  return body;
}

// --- many

const picked = () => $$("#bulk [name=id]:checked").map((one) => one.value);
function showPicked() {
  const bar = $("#bulk-bar");
  if (!bar) return;
  const matching = $("#all-matching")?.checked;
  const count = picked().length;
  $("#picked").textContent = matching || !count ? "" : `${count} selected`;
  for (const one of $$("[data-bulk]", bar)) one.hidden = !count && !matching;
}
document.addEventListener("change", (event) => {
  if (event.target.id === "all") for (const one of $$("#bulk [name=id]")) one.checked = event.target.checked;
  if (event.target.closest("#bulk")) showPicked();
});
async function bulk({ dataset: { bulk: action } }) {
  const form = $("#bulk");
  let where = { ids: picked() };
  let expect = where.ids.length;
  if ($("#all-matching")?.checked) {
    if (!form.dataset.hasFilter) { toast("Filter first: without a filter this would be every instance."); return; }
    where = JSON.parse(form.dataset.where);
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(where)) query.set(name, Array.isArray(value) ? value.join(",") : value);
    try { expect = (await ask("GET", `${base}/api/instances-count?${query}`)).count; } catch (error) { toast(error.message); return; }
  }
  const danger = !["unpark", "retry", "signal"].includes(action);
  const fields = { cancel: ["reason"], terminate: ["reason"], signal: ["signal", "value"] }[action] || [];
  confirmThen({ title: `${action} ${expect} instance${expect === 1 ? "" : "s"}?`, text: "If meanwhile they are more or fewer, nothing is done.", yes: action, fields, danger }, async (values) => {
    const done = await ask("POST", `${base}/api/instances-bulk`, { action, where, expect, ...values });
    const failed = Object.keys(done.failed).length;
    toast(failed ? `${done.done} done, ${failed} refused: ${Object.values(done.failed)[0]}` : `${done.done} done`);
    refresh();
  });
}

// --- keys

let pending = "";
function rows() { return $$("[data-rows] tbody tr"); }
function step(by) {
  const events = $$(".pick-list a");
  if (events.length) {
    const here = events.findIndex((one) => one.hasAttribute("aria-current"));
    const there = events[Math.min(events.length - 1, Math.max(0, here + by))];
    if (there && there !== events[here]) there.click();
    return;
  }
  const all = rows();
  if (!all.length) return;
  const now = all.findIndex((one) => one.classList.contains("at"));
  const next = Math.min(all.length - 1, Math.max(0, now + by));
  all[now]?.classList.remove("at");
  all[next].classList.add("at");
  all[next].scrollIntoView({ block: "nearest" });
}
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) {
    if ((event.metaKey || event.ctrlKey) && event.key === "k") { event.preventDefault(); $("#search").select(); }
    return;
  }
  if (event.target.closest("input, textarea, select, dialog")) { if (event.key === "Escape") event.target.blur(); return; }
  if (pending === "g") {
    pending = "";
    $(`.rail [data-key="${CSS.escape(event.key)}"]`)?.click();
    return;
  }
  const at = $("tr.at");
  switch (event.key) {
    case "/": event.preventDefault(); $("#search").select(); break;
    case "g": pending = "g"; setTimeout(() => { pending = ""; }, 1500); break;
    case "j": step(1); break;
    case "k": step(-1); break;
    case "Enter": if (at?.dataset.href && event.target === document.body) location.assign(at.dataset.href); break;
    case "x": { const box = at && $("[name=id]", at); if (box) { box.checked = !box.checked; showPicked(); } break; }
    case "f": $('.rail [data-key="f"]').click(); break;
    case "c": $(".filter [name=children]")?.click(); $(".filter [name=children]")?.form.requestSubmit(); break;
    case "t": nextTheme(); break;
    case "?": $("#keys").showModal(); break;
  }
});
$("#help").addEventListener("click", () => $("#keys").showModal());

// --- live

// A slow page is loaded seldom: however many are open, the server has time for others.
const LEAST_MS = 1000;
const MOST_MS = 5000;
const FACTOR = 20;
let tag = "";
let busy = false;
let again = false;
let notBefore = 0;
let later = 0;
function look() {
  clearTimeout(later);
  const wait = busy ? LEAST_MS : notBefore - performance.now();
  if (wait > 0) later = setTimeout(look, wait); else refresh();
}
async function refresh() {
  again = busy; // What is on its way may be older than what a person has just done.
  if (busy) return;
  busy = true;
  const began = performance.now();
  try {
    const headers = { Accept: "text/html", ...(tag && { "If-None-Match": tag }) };
    let answer = null;
    try { answer = await fetch(location.href, { headers, cache: "no-store" }); } catch { return; } // The stream says that the server is gone.
    if (answer.status === 404) location.reload(); // It was deleted meanwhile: that has a page too.
    if (answer.status === 304 || !answer.ok) return;
    const whole = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = $("#live", whole);
    $("#strip-text")?.replaceChildren(...($("#strip-text", whole)?.childNodes || []));
    if ((!tag && fresh.textContent === served) || put(fresh)) tag = answer.headers.get("ETag") || "";
  } finally {
    busy = false;
    const took = performance.now() - began;
    notBefore = performance.now() + Math.min(MOST_MS, Math.max(LEAST_MS, FACTOR * took));
    if (again) refresh();
  }
}
// Replace the content, and keep selection, row, open parts. While a person types, presses or reads
// why, nothing is replaced, and false is returned: a click on what is gone would be lost.
let pressing = false;
addEventListener("pointerdown", () => { pressing = true; });
for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => setTimeout(() => { pressing = false; }));
function put(fresh) {
  const live = $("#live");
  const active = document.activeElement;
  if (pressing || sliding || $(":popover-open", live) || (live.contains(active) && active.matches("input:not([type=checkbox]):not([type=range]), textarea, select"))) return false;
  const scrubs = active.id === "scrub";
  const chosen = new Set(picked());
  const all = $("#all-matching")?.checked;
  const at = $("tr.at")?.dataset.href;
  const open = $$("details", live).map((one) => one.open);
  if ($$("details[open] form", live).some((form) => [...form.elements].some((one) => one.value !== one.defaultValue && "defaultValue" in one))) return false;
  const answer = $("#check-answer", live);
  if (answer) $("#check-answer", fresh)?.replaceWith(answer);
  live.replaceChildren(...fresh.childNodes);
  for (const one of $$("#bulk [name=id]")) one.checked = chosen.has(one.value);
  if (all && $("#all-matching")) $("#all-matching").checked = true;
  if (at) $$("tr[data-href]").find((one) => one.dataset.href === at)?.classList.add("at");
  $$("details", live).forEach((one, place) => { if (open[place] !== undefined) one.open = open[place]; });
  if (scrubs) $("#scrub")?.focus();
  served = live.textContent;
  showPicked();
  showTimes();
  showWhere();
  drawSparks();
  return true;
}
// On a narrow screen a row of pages or parts is scrolled to the open one.
function showWhere() {
  for (const one of $$(".rail [aria-current], .tabs [aria-current]")) {
    const row = one.closest(".rail, .tabs");
    row.scrollLeft = one.offsetLeft - row.offsetLeft - (row.clientWidth - one.offsetWidth) / 2;
  }
}
// What queues held lately: kept when it changes, in this browser, for five minutes.
const SPARK_MS = 300_000;
let sparks = {};
try { sparks = JSON.parse(sessionStorage.getItem("perdure.sparks")) || {}; } catch { /* not kept */ }
function drawSparks() {
  const now = Date.now();
  for (const one of $$("[data-spark]")) {
    const count = Number(one.dataset.value);
    const seen = (sparks[one.dataset.spark] ||= []);
    if (seen.at(-1)?.[1] !== count) seen.push([now, count]);
    while (seen[1]?.[0] < now - SPARK_MS) seen.shift();
    const counts = seen.map((point) => point[1]);
    const most = Math.max(1, ...counts);
    const place = (at, number) => `${Math.max(0, 96 - 96 * (now - at) / SPARK_MS).toFixed(1)},${(22 - 20 * number / most).toFixed(1)}`;
    const points = seen.flatMap(([at, number], index) => [place(at, counts[index - 1] ?? number), place(at, number)]).slice(1);
    $("polyline", one).setAttribute("points", [...points, place(now, count)].join(" "));
    one.setAttribute("aria-label", `ready in the last five minutes, as seen here: ${Math.min(...counts)} to ${Math.max(...counts)}`);
  }
  try { sessionStorage.setItem("perdure.sparks", JSON.stringify(sparks)); } catch { /* not kept */ }
}
setInterval(drawSparks, 2000);
let served = $("#live").textContent;
let stream = null;
function listen() {
  stream?.close();
  stream = null;
  if (document.hidden || $("#live .big-number")) return;
  stream = new EventSource(`${base}/api/changes`);
  stream.addEventListener("changed", () => { $("#live-dot").className = "live-dot on"; look(); });
  stream.onerror = () => { $("#live-dot").className = "live-dot off"; };
}
document.addEventListener("visibilitychange", listen);
listen();
showTimes();
showPicked();
showWhere();
drawSparks();
