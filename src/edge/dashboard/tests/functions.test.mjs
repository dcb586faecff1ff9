// The table of functions, drawn into elements that only keep what they are given.
import test from "node:test";
import assert from "node:assert/strict";

class Element {
  constructor(name) {
    this.name = name;
    this.attributes = {};
    this.children = [];
  }
  setAttribute(name, value) {
    this.attributes[name] = value;
  }
  append(...children) {
    this.children.push(...children);
  }
}
class Text extends Element {
  constructor(text) {
    super("#text");
    this.text = text;
  }
}
globalThis.Node = Element;
globalThis.document = {
  createElement: name => new Element(name), createElementNS: (_, name) => new Element(name), createTextNode: text => new Text(text),
};
const { functions } = await import("../web/view_functions.js");

const textOf = element => element.text ?? element.children.map(textOf).join("");
const all = (element, name) => [...(element.name === name ? [element] : []), ...element.children.flatMap(child => all(child, name))];

test("each function has its kind, and a model is no http function", () => {
  const row = (name, kind, serves_model) => [name, { name, kind, serves_model, queued: 0, running: 0, cold: 0, gpu_cold: 0, warm: 0,
    failed: 0, refused: 0, in_time: 0, late: 0, p50_ms: 0, p95_ms: 0, p99_ms: 0, ahead_ms: 0 }];
  const store = { functions: new Map([row("faces", "http", true), row("hello", "handler", false), row("site", "http", false)]), cut: false };
  const page = new Element("main");
  page.append(...functions({ store, redraw() {} }).filter(Boolean));
  const kinds = Object.fromEntries(all(page, "tbody")[0].children.map(line => [line.attributes["data-key"], textOf(line.children[1])]));
  assert.deepEqual(kinds, { faces: "model", hello: "handler", site: "http" });
});
