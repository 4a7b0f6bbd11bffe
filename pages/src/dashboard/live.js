"use strict";
// Asks every two seconds what is so now, and puts it in place of what was, as long as somebody looks.
(() => {
  let tag = null;
  const look = async () => {
    if (document.hidden) return;
    let answer;
    try {
      answer = await fetch(location.pathname, { headers: tag ? { "If-None-Match": tag } : {} });
    } catch {
      document.title = "away: bluefin";
      return;
    }
    if (answer.status !== 200) return;
    const first = tag === null;
    tag = answer.headers.get("ETag");
    const text = await answer.text();
    if (first && tag !== null) return;
    const page = new DOMParser().parseFromString(text, "text/html");
    const [old, now] = [document.querySelector("main"), page.querySelector("main")];
    if (!now || old.innerHTML === now.innerHTML) return;
    const named = (root) => [...root.querySelectorAll("details")];
    const open = new Set(named(old).filter((one) => one.open).map((one) => one.textContent.slice(0, 80)));
    named(now).forEach((one) => { one.open = open.has(one.textContent.slice(0, 80)); });
    const focus = document.activeElement?.getAttribute("href");
    old.replaceChildren(...now.childNodes);
    document.title = page.title;
    if (focus) [...document.links].find((link) => link.getAttribute("href") === focus)?.focus();
  };
  setInterval(look, 2000);
})();
