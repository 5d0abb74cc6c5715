// Keeps a page current without a reload. While the page is visible, fetches it every data-every seconds, and replaces the
// changed regions that are marked data-live. Focus, open details, typed text and ticked boxes are kept. The key `/` moves to the search.
"use strict";

const every = 1000 * Number(document.body.dataset.every || 0);
const button = document.createElement("button");
// Milliseconds after which a request is given up. The server gives up its own statements after 30 s.
const patience = 35000;
let paused = false;
let begun = null; // when the request in progress was sent
let current = new Date();

function show(text, isStale = false) {
  if (button.textContent !== text) button.textContent = text; // a screen reader announces each assignment
  button.classList.toggle("late", isStale);
  button.setAttribute("aria-pressed", String(!paused));
}

function showStale(reason, isFault = true) {
  show(`not live since ${current.toISOString().slice(11, 19)} UTC: ${reason}`, isFault);
}

function isInUse() {
  const selected = document.getSelection();
  const at = document.activeElement;
  const typing = at && at.closest("[data-live]") && at.matches("input:not([type=checkbox]), select, textarea");
  return typing || (selected && !selected.isCollapsed);
}

function place(element, region) {
  if (!element || !region.contains(element)) return null;
  if (element.id) return (root) => root.querySelector("#" + CSS.escape(element.id));
  const same = [...region.querySelectorAll(element.tagName)];
  const number = same.indexOf(element);
  const address = element.getAttribute("href");
  return (root) => {
    const found = [...root.querySelectorAll(element.tagName)];
    return address ? found.find((each) => each.getAttribute("href") === address) : found[number];
  };
}

function swap(region, fresh) {
  for (const details of region.querySelectorAll("details[open][id]")) {
    const same = fresh.querySelector("#" + CSS.escape(details.id));
    if (same) same.open = true;
  }
  for (const ticked of region.querySelectorAll("input[type=checkbox]:checked[value]")) {
    const same = fresh.querySelector(`input[name="${CSS.escape(ticked.name)}"][value="${CSS.escape(ticked.value)}"]`);
    if (same) same.checked = true;
  }
  if (region.innerHTML === fresh.innerHTML) return;
  const find = place(document.activeElement, region);
  region.replaceChildren(...fresh.childNodes);
  const focused = find && find(region);
  if (focused) focused.focus({ preventScroll: true });
}

async function refresh() {
  if (document.hidden || paused) return;
  if (begun) {
    if (Date.now() - begun >= every / 2) showStale("the server does not respond");
    return;
  }
  begun = Date.now();
  try {
    const signal = AbortSignal.timeout(patience);
    const response = await fetch(location.href, { cache: "no-store", redirect: "error", signal });
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    if (document.hidden || paused) return;
    if (!response.ok) {
      const reason = fresh.querySelector("main p");
      showStale(reason ? reason.textContent : response.statusText);
      return;
    }
    if (isInUse()) {
      showStale("text is selected", false); // a change would remove the selection or the typed text
      return;
    }
    for (const region of document.querySelectorAll("[data-live]")) {
      const other = fresh.getElementById(region.id);
      if (other) swap(region, other);
    }
    current = new Date();
    show("live");
  } catch {
    if (!document.hidden && !paused) showStale("the server does not respond");
  } finally {
    begun = null;
  }
}

if (every && document.querySelector("[data-live]")) {
  button.type = "button";
  button.id = "live";
  button.setAttribute("aria-live", "polite");
  button.addEventListener("click", () => {
    paused = !paused;
    show(paused ? "live: paused" : "live");
    refresh();
  });
  show("live");
  document.querySelector("header").append(button);
  setInterval(refresh, every);
  document.addEventListener("visibilitychange", refresh);
}

// Only a script can tick all rows, so the page shows this box only to browsers that run it.
document.documentElement.classList.add("scripted");
document.addEventListener("change", (event) => {
  if (event.target.id !== "tick-all") return;
  for (const box of document.querySelectorAll("input[name=pick]")) box.checked = event.target.checked;
});

document.addEventListener("keydown", (event) => {
  const search = document.querySelector("input[type=search]");
  if (event.key !== "/" || !search || event.target.matches("input, select, textarea")) return;
  event.preventDefault();
  search.focus();
});
