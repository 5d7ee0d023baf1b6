
"use strict";
// Puts newer content in as it comes. What a reader has opened or closed stays so.
const main = document.querySelector("main");
const stale = document.querySelector("#stale");
const show = (content) => {
  const opened = new Map([...main.querySelectorAll("details")].map((part) => [part.id, part.open]));
  main.innerHTML = content;
  for (const part of main.querySelectorAll("details")) {
    if (opened.has(part.id)) part.open = opened.get(part.id);
  }
};
const listen = () => {
  const events = new EventSource("/events");
  events.onopen = () => { stale.hidden = true; };
  events.onmessage = (event) => { stale.hidden = true; show(event.data); };
  events.onerror = () => {
    // A connection that ends by its age is made again at once; a refused one is not, by itself.
    setTimeout(() => { stale.hidden = events.readyState === EventSource.OPEN; }, 4000);
    if (events.readyState === EventSource.CLOSED) setTimeout(listen, 5000);
  };
};
listen();
