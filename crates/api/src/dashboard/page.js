// Keeps the regions marked `data-live` fresh. Everything works without it, too: pages are complete, forms are plain.
(() => {
  "use strict";
  document.documentElement.classList.add("js");

  // One box ticks all of a page.
  document.addEventListener("change", (event) => {
    const all = event.target.closest("[data-all]");
    if (!all) return;
    for (const box of document.querySelectorAll(`input[name="${all.dataset.all}"]`)) box.checked = all.checked;
  });

  const said = document.getElementById("live");
  const regions = () => [...document.querySelectorAll("[data-live]")];
  if (!said || regions().length === 0) return;
  const say = (text) => { if (said.textContent !== text) said.textContent = text; };

  // Whoever is ticking boxes or typing is not disturbed.
  const isBusy = (region) => {
    if (region.querySelector("input[type=checkbox]:checked")) return true;
    const focused = document.activeElement;
    return region.contains(focused) && focused.matches("input, select, textarea");
  };
  // Finds what had the focus again.
  const nameOf = (element) =>
    [element.tagName, element.getAttribute("href"), element.name, element.value, element.form?.getAttribute("action"), element.textContent].join("|");

  const replace = (region, fresh) => {
    if (region.innerHTML === fresh.innerHTML) return;
    const focused = region.contains(document.activeElement) ? nameOf(document.activeElement) : null;
    region.replaceChildren(...fresh.childNodes);
    if (focused === null) return;
    const again = [...region.querySelectorAll("a, button, input, summary, [tabindex]")].find((element) => nameOf(element) === focused);
    again?.focus({ preventScroll: true });
  };

  let asking = false;
  let again = false;
  // Once more a little later: what was not answered, and what was still under way when a change was told.
  let later;
  const onceMore = () => { clearTimeout(later); later = setTimeout(refresh, 2000); };
  const refresh = async () => {
    if (document.hidden || asking) { again = true; return; }
    asking = true;
    again = false;
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" } });
      if (answer.redirected) { location.reload(); return; }
      if (answer.ok) {
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        let waiting = false;
        for (const region of regions()) {
          const fresh = page.getElementById(region.id);
          if (!fresh) continue;
          if (isBusy(region)) waiting = true; else replace(region, fresh);
        }
        say(waiting ? "Live; waits while you select or type." : "Live.");
        if (waiting) onceMore();
      } else {
        onceMore();
      }
    } catch {
      say("No answer: what is shown may be old.");
      onceMore();
    } finally {
      asking = false;
      if (again && !document.hidden) setTimeout(refresh, 250);
    }
  };

  const source = new EventSource("/live");
  source.addEventListener("open", () => { say("Live."); refresh(); });
  source.addEventListener("changed", () => { refresh(); onceMore(); });
  source.addEventListener("error", () => say("Not connected: what is shown may be old. It is tried again."));
  document.addEventListener("visibilitychange", () => { if (!document.hidden && again) refresh(); });
  // A page kept by the browser comes back as it was left.
  window.addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
  window.addEventListener("pagehide", () => source.close());
})();
