// A part of a screen that waits for an answer: loading, stopped, failed, or shown.

import { h, say } from "./dom.js";
import { Problems } from "./api.js";
import { linkTo, readState } from "./state.js";

const QUIET = 150;

// `work(signal, progress)` gives the nodes to show. A new `run` ends the one before.
export class Region {
  constructor(label, { parent, keep = false } = {}) {
    this.element = h("section", { class: "region", "aria-label": label, "aria-busy": "false" });
    this.label = label;
    this.keep = keep;
    parent?.addEventListener("abort", () => this.controller?.abort("left"));
  }

  async run(work) {
    this.controller?.abort("again");
    const controller = this.controller = new AbortController();
    this.work = work;
    this.element.setAttribute("aria-busy", "true");
    const timer = setTimeout(() => this.loading(controller), this.keep && this.shown ? 1500 : QUIET);
    try {
      const nodes = await work(controller.signal, (progress) => this.progress(controller, progress));
      if (this.controller !== controller || controller.signal.aborted) return;
      this.element.replaceChildren(...[nodes].flat(3).filter(Boolean));
      this.shown = true;
      say(`${this.label}: shown`);
    } catch (error) {
      if (this.controller !== controller || controller.signal.reason === "left") return;
      this.shown = false;
      if (controller.signal.aborted) this.stopped();
      else this.failed(error);
    } finally {
      clearTimeout(timer);
      if (this.controller === controller) this.element.setAttribute("aria-busy", "false");
    }
  }

  loading(controller) {
    if (this.controller !== controller || this.element.getAttribute("aria-busy") !== "true") return;
    this.bar = h("progress", { "aria-label": this.label });
    this.doing = h("span", {}, "Working …");
    const stop = h("button", { class: "quiet", onclick: () => controller.abort("stopped") }, "Stop");
    this.element.replaceChildren(h("div", { class: "state" }, this.bar, h("p", {}, this.doing, " ", stop)));
  }

  progress(controller, { done, total }) {
    if (!this.bar) this.loading(controller);
    if (!this.bar || !total) return;
    this.bar.max = total;
    this.bar.value = done;
    this.doing.textContent = `${done.toLocaleString("en")} of ${total.toLocaleString("en")}`;
  }

  stopped() {
    this.element.replaceChildren(h("div", { class: "state" }, h("p", {}, "Stopped. ", this.again("Ask again"))));
    say(`${this.label}: stopped`);
  }

  failed(error) {
    const lines = error instanceof Problems ? error.lines : [`${error.name}: ${error.message}`];
    if (!(error instanceof Problems)) console.error(error);
    const current = readState(), title = error.status === 1 ? "The answer is no" : error.status === 503 ? "Not answered" : "This cannot be asked";
    this.element.replaceChildren(h("div", { class: "state failed", role: "alert" }, h("h2", {}, title),
      lines.map((line) => h("p", { class: "terminal" }, `podsim: ${line}`)), h("p", { class: "row" },
        error.instead?.gpus ? h("a", { class: "button", href: linkTo(current.screen, { ...current.values, ...error.instead }) },
          `Take ${error.instead.gpus} GPUs`) : null, this.again("Try again"))));
  }

  again(label) {
    return h("button", { class: "quiet", onclick: () => this.run(this.work) }, label);
  }

  empty(...content) {
    this.controller?.abort("again");
    this.controller = null;
    this.element.replaceChildren(h("div", { class: "state" }, ...content));
  }
}
