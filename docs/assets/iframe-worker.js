// The search of the site runs in a worker, and browsers refuse workers to pages opened from disk.
// There it runs in a hidden frame of the page instead, which looks to it like a worker.
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      const inside = frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.postMessage = (data) => ready.then(() => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
      const script = inside.document.createElement("script");
      script.src = url;
      const ready = new Promise((done) => (script.onload = done));
      inside.document.body.appendChild(script);
    }
    terminate() {}
  };
}
