// Elements out of values, and the page changed to match them, so that focus, selection and scroll places stay. Text is only
// ever set as text: no string becomes markup.

const SVG = "http://www.w3.org/2000/svg";

function make(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element[name] = value;
    else if (name === "style") for (const [key, text] of Object.entries(value)) element.style.setProperty(key, text);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined && child !== false)
    .map(child => (child instanceof Node ? child : document.createTextNode(String(child)))));
  return element;
}

/** An HTML element. @param {string} tag @param {Record<string, any> | null} properties @param {...any} children */
export function h(tag, properties, ...children) {
  return make(document.createElement(tag), properties, children);
}

/** An SVG element. */
export function s(tag, properties, ...children) {
  return make(document.createElementNS(SVG, tag), properties, children);
}

/** Makes the children of `parent` be like `wanted`; nodes with `data-keep` stay what they are. */
export function morph(parent, wanted) {
  const nodes = wanted.flat(Infinity).filter(Boolean);
  nodes.forEach((node, index) => {
    const there = parent.childNodes[index];
    if (there === undefined) parent.append(node);
    else if (!alike(there, node)) parent.replaceChild(node, there);
    else update(there, node);
  });
  while (parent.childNodes.length > nodes.length) parent.lastChild.remove();
}

function alike(a, b) {
  return a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);
}

function keyOf(node) {
  return node.nodeType === Node.ELEMENT_NODE ? node.getAttribute("data-key") : null;
}

const HANDLERS = ["onclick", "oninput", "onchange", "onsubmit", "onkeydown"];

function update(there, wanted) {
  if (there.nodeType === Node.TEXT_NODE) {
    if (there.data !== wanted.data) there.data = wanted.data;
    return;
  }
  if (there.hasAttribute("data-keep")) return;
  for (const { name } of [...there.attributes]) if (!wanted.hasAttribute(name)) there.removeAttribute(name);
  for (const { name, value } of wanted.attributes) {
    // Styles are set one by one: the page's policy forbids them as an attribute.
    if (name !== "style" && there.getAttribute(name) !== value) there.setAttribute(name, value);
  }
  if (there.style && wanted.style && there.style.cssText !== wanted.style.cssText) there.style.cssText = wanted.style.cssText;
  for (const handler of HANDLERS) if (there[handler] !== wanted[handler]) there[handler] = wanted[handler];
  morph(there, [...wanted.childNodes]);
}
