-- linear.c in LuaJIT, with its FFI: luajit linear.lua LIBFOREBAY FOLDER
--
-- The part of forebay.h that is used here. LuaJIT does not read comments and directives of C.
local ffi = require("ffi")
ffi.cdef [[
typedef struct ForebayLoader ForebayLoader;
typedef struct ForebayBatch ForebayBatch;
typedef struct ForebayWriter ForebayWriter;
typedef struct ForebayValue {
  const char *column; uint32_t kind, ndim; int64_t integer; double number;
  const uint8_t *data; size_t len; const char *type_name; const uint64_t *shape;
} ForebayValue;
typedef struct ForebayTensorView {
  void *data; size_t bytes; const int64_t *shape; uint32_t ndim; uint8_t dtype_code, dtype_bits;
  int32_t device_type, device_id;
} ForebayTensorView;
const char *forebay_last_error(void);
void forebay_string_free(char *);
int forebay_writer_new(const char *, ForebayWriter **);
int forebay_writer_write(const ForebayWriter *, const ForebayValue *, size_t);
int forebay_writer_finish(const ForebayWriter *);
void forebay_writer_free(ForebayWriter *);
int forebay_loader_new(const char *, const char *, ForebayLoader **);
void forebay_loader_free(ForebayLoader *);
int forebay_loader_start_epoch(const ForebayLoader *);
int forebay_loader_next(const ForebayLoader *, ForebayBatch **);
int forebay_loader_state(const ForebayLoader *, char **);
int forebay_loader_load_state(const ForebayLoader *, const char *, uint32_t);
int forebay_batch_find(const ForebayBatch *, const char *, size_t *);
int forebay_batch_view(const ForebayBatch *, size_t, ForebayTensorView *);
void forebay_batch_free(ForebayBatch *);
]]

local SAMPLES, INPUTS, EPOCHS, CHECKPOINT_AFTER = 1000, 4, 10, 110
local OK, END = 0, 1
local FLOAT, ARRAY = 5, 8
local library, folder = ffi.load(arg[1]), arg[2]

local function must(status)
  if status ~= OK and status ~= END then
    error("forebay: " .. ffi.string(library.forebay_last_error()) .. " (status " .. status .. ")")
  end
  return status
end

local function write_data()
  local config = string.format(
    '{"out": "%s", "columns": {"x": "ndarray:float32:4", "y": "float32"}, "hashes": ["xxh64"]}', folder)
  local writer = ffi.new("ForebayWriter *[1]")
  must(library.forebay_writer_new(config, writer))
  local shape, x, values = ffi.new("uint64_t[1]", INPUTS), ffi.new("float[4]"), ffi.new("ForebayValue[2]")
  -- A struct does not keep its texts alive.
  local names = { x = "x", y = "y", type = "float32" }
  local text = function(name) return ffi.cast("const char *", names[name]) end
  values[0].column, values[0].kind, values[0].type_name = text("x"), ARRAY, text("type")
  values[0].data, values[0].len = ffi.cast("const uint8_t *", x), ffi.sizeof(x)
  values[0].shape, values[0].ndim = shape, 1
  values[1].column, values[1].kind = text("y"), FLOAT
  local seed = 1
  for _ = 1, SAMPLES do
    for k = 0, INPUTS - 1 do
      seed = (seed * 1664525 + 1013904223) % 2 ^ 32
      x[k] = math.floor(seed / 256) / 2 ^ 23 - 1
    end
    values[1].number = x[0] - 2 * x[1] + 3 * x[2] + x[3] / 2 + 0.25
    must(library.forebay_writer_write(writer[0], values, 2))
  end
  must(library.forebay_writer_finish(writer[0]))
  library.forebay_writer_free(writer[0])
end

local output, view = ffi.new("size_t[1]"), ffi.new("ForebayTensorView")

-- The floats of an output, valid until the batch is freed, and its rows.
local function floats(batch, name)
  must(library.forebay_batch_find(batch, name, output))
  must(library.forebay_batch_view(batch, output[0], view))
  return ffi.cast("const float *", view.data), tonumber(view.shape[0])
end

local function train_step(weights, batch)
  local x, rows = floats(batch, "x")
  local y = floats(batch, "y")
  local gradient = ffi.new("double[5]")
  for row = 0, rows - 1 do
    local difference = weights[INPUTS] - y[row]
    for k = 0, INPUTS - 1 do difference = difference + weights[k] * x[row * INPUTS + k] end
    for k = 0, INPUTS - 1 do gradient[k] = gradient[k] + difference * x[row * INPUTS + k] end
    gradient[INPUTS] = gradient[INPUTS] + difference
  end
  for k = 0, INPUTS do weights[k] = weights[k] - gradient[k] / rows end
end

local config = string.format('{"streams": [{"local": "%s"}], "batch_size": 50, "shuffle": true}', folder)
local function open()
  local loader = ffi.new("ForebayLoader *[1]")
  must(library.forebay_loader_new(config, "cpu", loader))
  return loader[0]
end

write_data()
local loader, batch, weights, batches = open(), ffi.new("ForebayBatch *[1]"), ffi.new("double[5]"), 0
for _ = 1, EPOCHS do
  must(library.forebay_loader_start_epoch(loader))
  while must(library.forebay_loader_next(loader, batch)) == OK do
    train_step(weights, batch[0])
    library.forebay_batch_free(batch[0])
    batches = batches + 1
    if batches == CHECKPOINT_AFTER then
      -- A new loader continues after this batch.
      local state = ffi.new("char *[1]")
      must(library.forebay_loader_state(loader, state))
      library.forebay_loader_free(loader)
      loader = open()
      must(library.forebay_loader_load_state(loader, state[0], 1))
      must(library.forebay_loader_start_epoch(loader))
      library.forebay_string_free(state[0])
    end
  end
end
library.forebay_loader_free(loader)
print(string.format("%d batches, w = %.3f %.3f %.3f %.3f, b = %.3f", batches, weights[0], weights[1], weights[2],
  weights[3], weights[4]))
