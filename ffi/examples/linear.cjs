// linear.c in Node, with koffi (npm install koffi): node linear.cjs LIBFOREBAY FOLDER
//
// `next` blocks the event loop here; koffi's `function.async(...)` calls it on a separate thread.
const koffi = require("koffi");

const [, , path, folder] = process.argv;
const SAMPLES = 1000, INPUTS = 4, EPOCHS = 10, CHECKPOINT_AFTER = 110;
const OK = 0, END = 1;
const FLOAT = 5, ARRAY = 8;

for (const handle of ["ForebayLoader", "ForebayBatch", "ForebayWriter"]) koffi.opaque(handle);
koffi.struct("ForebayValue", {
  column: "const char *", kind: "uint32", ndim: "uint32", integer: "int64", number: "double",
  data: "const void *", len: "size_t", type_name: "const char *", shape: "const uint64 *",
});
koffi.struct("ForebayTensorView", {
  data: "void *", bytes: "size_t", shape: "const int64 *", ndim: "uint32", dtype_code: "uint8", dtype_bits: "uint8",
  device_type: "int32", device_id: "int32",
});
const library = koffi.load(path);
const forebay = Object.fromEntries([
  "const char *forebay_last_error()",
  "void forebay_string_free(void *)",
  "int forebay_writer_new(const char *, _Out_ ForebayWriter **)",
  "int forebay_writer_write(ForebayWriter *, const ForebayValue *, size_t)",
  "int forebay_writer_finish(ForebayWriter *)",
  "void forebay_writer_free(ForebayWriter *)",
  "int forebay_loader_new(const char *, const char *, _Out_ ForebayLoader **)",
  "void forebay_loader_free(ForebayLoader *)",
  "int forebay_loader_start_epoch(ForebayLoader *)",
  "int forebay_loader_next(ForebayLoader *, _Out_ ForebayBatch **)",
  "int forebay_loader_state(ForebayLoader *, _Out_ void **)",
  "int forebay_loader_load_state(ForebayLoader *, void *, uint32_t)",
  "int forebay_batch_find(ForebayBatch *, const char *, _Out_ size_t *)",
  "int forebay_batch_view(ForebayBatch *, size_t, _Out_ ForebayTensorView *)",
  "void forebay_batch_free(ForebayBatch *)",
].map((prototype) => [prototype.match(/forebay_(\w+)/)[1], library.func(prototype)]));

function must(status) {
  if (status !== OK && status !== END) throw new Error(`forebay: ${forebay.last_error()} (status ${status})`);
  return status;
}

/** Calls a function with these arguments and room for its result, and returns the result. */
function made(name, ...inputs) {
  const out = [null];
  must(forebay[name](...inputs, out));
  return out[0];
}

function writeData() {
  const columns = { x: `ndarray:float32:${INPUTS}`, y: "float32" };
  const writer = made("writer_new", JSON.stringify({ out: folder, columns, hashes: ["xxh64"] }));
  const nothing = { ndim: 0, integer: 0, number: 0, data: null, len: 0, type_name: null, shape: null };
  const shape = new BigUint64Array([BigInt(INPUTS)]);
  let seed = 1;
  for (let i = 0; i < SAMPLES; i++) {
    const x = new Float32Array(INPUTS);
    for (let k = 0; k < INPUTS; k++) {
      seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
      x[k] = (seed >>> 8) / (1 << 23) - 1;
    }
    const y = x[0] - 2 * x[1] + 3 * x[2] + x[3] / 2 + 0.25;
    const values = [
      { ...nothing, column: "x", kind: ARRAY, type_name: "float32", data: x, len: x.byteLength, shape, ndim: 1 },
      { ...nothing, column: "y", kind: FLOAT, number: y },
    ];
    must(forebay.writer_write(writer, values, values.length));
  }
  must(forebay.writer_finish(writer));
  forebay.writer_free(writer);
}

/** The floats of an output, valid until the batch is freed. */
function floats(batch, name) {
  const view = {};
  must(forebay.batch_view(batch, made("batch_find", batch, name), view));
  return new Float32Array(koffi.view(view.data, Number(view.bytes)));
}

function trainStep(weights, batch) {
  const x = floats(batch, "x"), y = floats(batch, "y");
  const gradient = new Float64Array(INPUTS + 1);
  for (let row = 0; row < y.length; row++) {
    let error = weights[INPUTS] - y[row];
    for (let k = 0; k < INPUTS; k++) error += weights[k] * x[row * INPUTS + k];
    for (let k = 0; k < INPUTS; k++) gradient[k] += error * x[row * INPUTS + k];
    gradient[INPUTS] += error;
  }
  for (let k = 0; k <= INPUTS; k++) weights[k] -= gradient[k] / y.length;
}

writeData();
const config = JSON.stringify({ streams: [{ local: folder }], batch_size: 50, shuffle: true });
let loader = made("loader_new", config, "cpu");
const weights = new Float64Array(INPUTS + 1);
let batches = 0;
for (let epoch = 0; epoch < EPOCHS; epoch++) {
  must(forebay.loader_start_epoch(loader));
  for (const out = [null]; must(forebay.loader_next(loader, out)) === OK; ) {
    trainStep(weights, out[0]);
    forebay.batch_free(out[0]);
    if (++batches === CHECKPOINT_AFTER) {
      // A new loader continues after this batch.
      const state = made("loader_state", loader);
      forebay.loader_free(loader);
      loader = made("loader_new", config, "cpu");
      must(forebay.loader_load_state(loader, state, 1));
      must(forebay.loader_start_epoch(loader));
      forebay.string_free(state);
    }
  }
}
forebay.loader_free(loader);
const [w0, w1, w2, w3, b] = Array.from(weights, (weight) => weight.toFixed(3));
console.log(`${batches} batches, w = ${w0} ${w1} ${w2} ${w3}, b = ${b}`);
