// Where the nodes of a graph without cycles go: a layer behind all that they wait for, and in it near what they hang on. Pure.

/**
 * @param {number} count of nodes
 * @param {[number, number][]} edges from and to
 * @returns {{layer: number[], place: number[], layers: number[][]}}
 */
export function layOut(count, edges) {
  const before = Array.from({ length: count }, () => []);
  const after = Array.from({ length: count }, () => []);
  for (const [from, to] of edges) {
    if (!(from >= 0 && from < count && to >= 0 && to < count) || from === to) continue;
    before[to].push(from);
    after[from].push(to);
  }
  const layer = new Array(count).fill(0);
  const open = before.map(list => list.length);
  const ready = [...open.keys()].filter(node => open[node] === 0);
  for (let at = 0; at < ready.length; at += 1) {
    for (const next of after[ready[at]]) {
      layer[next] = Math.max(layer[next], layer[ready[at]] + 1);
      if (--open[next] === 0) ready.push(next);
    }
  }
  const layers = Array.from({ length: Math.max(0, ...layer) + (count > 0 ? 1 : 0) }, () => []);
  for (let node = 0; node < count; node += 1) layers[layer[node]].push(node);
  const place = new Array(count).fill(0);
  const number = () => layers.forEach(nodes => nodes.forEach((node, index) => { place[node] = index; }));
  number();
  // A few sweeps to the mean place of the neighbours take out most crossings.
  for (let sweep = 0; sweep < 4; sweep += 1) {
    const neighbours = sweep % 2 === 0 ? before : after;
    for (const nodes of layers) {
      const mean = new Map(nodes.map(node => [node, meanOf(neighbours[node].map(other => place[other]), place[node])]));
      nodes.sort((a, b) => mean.get(a) - mean.get(b) || a - b);
    }
    number();
  }
  return { layer, place, layers };
}

function meanOf(values, otherwise) {
  return values.length > 0 ? values.reduce((sum, value) => sum + value, 0) / values.length : otherwise;
}
