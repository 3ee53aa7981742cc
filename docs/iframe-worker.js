// Search in pages that are read from a disk, where a browser starts no worker: the worker's script
// runs in a hidden frame instead, and messages go to and fro between the frame and the page.
(() => {
  if (location.protocol !== "file:") return;
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = Object.assign(document.createElement("iframe"), {hidden: true});
      document.body.append(this.frame);
      const {document: inside} = this.window = this.frame.contentWindow;
      inside.open();
      inside.write("<body></body>");
      inside.close();
      const load = (source) => new Promise((resolve, reject) => {
        const script = Object.assign(inside.createElement("script"), {src: source, onload: resolve, onerror: reject});
        inside.body.append(script);
      });
      this.window.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", {data}));
      this.window.importScripts = (...all) => all.reduce((done, one) => done.then(() => load(one)), Promise.resolve());
      this.started = load(url);
    }
    postMessage(data) {
      this.started.then(() => this.window.dispatchEvent(new this.window.MessageEvent("message", {data})));
    }
    terminate() { this.frame.remove(); }
  };
})();
