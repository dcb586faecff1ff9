// Server-sent events out of a stream of text, however it was cut. Pure: EventSource itself cannot send a token.

const MOST_BUFFERED = 8 * 1024 * 1024;  // characters of an event that does not end

export class EventParser {
  /** @param {(name: string, data: string) => void} onEvent */
  constructor(onEvent) {
    this.onEvent = onEvent;
    this.rest = "";
  }

  /** @param {string} text */
  push(text) {
    this.rest += text;
    let end;
    while ((end = this.rest.search(/\r?\n\r?\n/)) >= 0) {
      const block = this.rest.slice(0, end);
      this.rest = this.rest.slice(end).replace(/^\r?\n\r?\n/, "");
      this.#emit(block);
    }
    if (this.rest.length > MOST_BUFFERED) throw new Error("an event is too long");
  }

  #emit(block) {
    let name = "message";
    const data = [];
    for (const line of block.split(/\r?\n/)) {
      if (line.startsWith(":")) continue;
      const colon = line.indexOf(":");
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (field === "event") name = value;
      if (field === "data") data.push(value);
    }
    if (data.length > 0) this.onEvent(name, data.join("\n"));
  }
}
