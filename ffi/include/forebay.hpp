// C++17 over forebay.h: objects that free themselves, exceptions, ranges. Header-only.
//
//     forebay::Loader loader(config);                 // JSON, see forebay_loader_new
//     for (forebay::Batch &batch : loader.epoch()) {
//         auto tokens = batch.view("tokens");
//         train(tokens.data<std::uint16_t>(), tokens.size());
//     }
//
// Every call that fails throws forebay::Error. A moved-from object is empty: its calls throw.

#ifndef FOREBAY_HPP
#define FOREBAY_HPP

#include "forebay.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace forebay {

/// Failed call.
class Error : public std::runtime_error {
public:
    /// The last error of this thread.
    Error() : std::runtime_error(forebay_last_error()), status_(forebay_last_status()), json_(forebay_last_error_json()) {}
    explicit Error(const std::string &message) : std::runtime_error(message), status_(FOREBAY_STATUS_INVALID) {}

    ForebayStatus status() const noexcept { return status_; }
    /// Status, code, message and context, see forebay_last_error_json.
    const std::string &json() const noexcept { return json_; }

private:
    ForebayStatus status_;
    std::string json_;
};

namespace detail {

/// Returns a status that is not an error.
inline ForebayStatus check(ForebayStatus status) {
    if (status != FOREBAY_STATUS_OK && status != FOREBAY_STATUS_END && status != FOREBAY_STATUS_PENDING) {
        throw Error();
    }
    return status;
}

template <typename Handle, void (*Free)(Handle *)> struct Deleter {
    void operator()(Handle *handle) const noexcept { Free(handle); }
};

template <typename Handle, void (*Free)(Handle *)> using Owned = std::unique_ptr<Handle, Deleter<Handle, Free>>;

template <typename Handle> std::string text_of(ForebayStatus (*function)(const Handle *, char **), const Handle *handle) {
    char *text = nullptr;
    check(function(handle, &text));
    Owned<char, forebay_string_free> owned(text);
    return std::string(text);
}

template <typename Handle, typename Number>
Number number_of(ForebayStatus (*function)(const Handle *, Number *), const Handle *handle) {
    Number number = 0;
    check(function(handle, &number));
    return number;
}

/// DLPack's code for the kind of the numbers `T`.
template <typename T> constexpr std::uint8_t dtype_code() {
    if constexpr (std::is_same_v<T, bool>) {
        return 6;
    } else if constexpr (std::is_floating_point_v<T>) {
        return 2;
    } else {
        static_assert(std::is_integral_v<T>, "elements are numbers");
        return std::is_signed_v<T> ? 0 : 1;
    }
}

} // namespace detail

/// Tensor in the memory of its batch, valid while the batch lives.
class View : public ForebayTensorView {
public:
    explicit View(const ForebayTensorView &view) : ForebayTensorView(view) {}

    std::vector<std::int64_t> sizes() const { return std::vector<std::int64_t>(shape, shape + ndim); }
    /// Number of elements.
    std::size_t size() const { return bytes * 8 / dtype_bits; }

    /// The elements, which must have the type `T` and be in host memory.
    template <typename T> T *data() const {
        if (dtype_code != detail::dtype_code<T>() || dtype_bits != sizeof(T) * 8) {
            throw Error("the tensor has elements of a different type");
        }
        if (device_type != 1) {
            throw Error("the tensor is on a device");
        }
        return static_cast<T *>(ForebayTensorView::data);
    }
};

/// DLPack tensor, which outlives its batch. `release` hands it to a framework, which then calls its deleter.
class Tensor {
public:
    explicit Tensor(DLManagedTensorVersioned *tensor) : tensor_(tensor) {}
    DLManagedTensorVersioned *get() const noexcept { return tensor_.get(); }
    DLManagedTensorVersioned *release() noexcept { return tensor_.release(); }

private:
    /// The part of DLManagedTensorVersioned that precedes its tensor, as in DLPack 1.
    struct Head {
        std::uint32_t major, minor;
        void *manager_ctx;
        void (*deleter)(DLManagedTensorVersioned *);
    };
    struct Delete {
        void operator()(DLManagedTensorVersioned *tensor) const noexcept {
            reinterpret_cast<Head *>(tensor)->deleter(tensor);
        }
    };
    std::unique_ptr<DLManagedTensorVersioned, Delete> tensor_;
};

/// One batch.
class Batch {
public:
    explicit Batch(ForebayBatch *handle) : handle_(handle) {}

    std::uint64_t epoch() const { return info().epoch; }
    std::uint64_t number() const { return info().number; }
    std::size_t rows() const { return info().rows; }
    std::size_t outputs() const { return info().outputs; }

    /// Number of the output `name`.
    std::size_t find(const std::string &name) const {
        std::size_t output = 0;
        detail::check(forebay_batch_find(handle_.get(), name.c_str(), &output));
        return output;
    }
    /// Name of an output, valid while the batch lives.
    std::string_view name(std::size_t output) const {
        const char *name = nullptr;
        detail::check(forebay_batch_output(handle_.get(), output, &name, nullptr));
        return name;
    }
    ForebayKind kind(std::size_t output) const {
        ForebayKind kind = FOREBAY_KIND_TENSOR;
        detail::check(forebay_batch_output(handle_.get(), output, nullptr, &kind));
        return kind;
    }
    View view(std::size_t output) const {
        ForebayTensorView view{};
        detail::check(forebay_batch_view(handle_.get(), output, &view));
        return View(view);
    }
    View view(const std::string &name) const { return view(find(name)); }
    /// `stream` as in forebay_batch_tensor.
    Tensor tensor(const std::string &name, std::int64_t stream = 0) const {
        DLManagedTensorVersioned *tensor = nullptr;
        detail::check(forebay_batch_tensor(handle_.get(), find(name), stream, &tensor));
        return Tensor(tensor);
    }
    /// Text or bytes of a row, valid while the batch lives.
    std::string_view row(const std::string &name, std::size_t row) const {
        const std::uint8_t *data = nullptr;
        std::size_t len = 0;
        detail::check(forebay_batch_row(handle_.get(), find(name), row, &data, &len));
        return std::string_view(reinterpret_cast<const char *>(data), len);
    }

private:
    ForebayBatchInfo info() const {
        ForebayBatchInfo info{};
        detail::check(forebay_batch_info(handle_.get(), &info));
        return info;
    }
    detail::Owned<ForebayBatch, forebay_batch_free> handle_;
};

/// Loader of a data set.
class Loader {
public:
    /// `config` and `device` as in forebay_loader_new.
    explicit Loader(const std::string &config, const std::string &device = "cpu") {
        ForebayLoader *loader = nullptr;
        detail::check(forebay_loader_new(config.c_str(), device.c_str(), &loader));
        handle_.reset(loader);
    }

    void start_epoch() { detail::check(forebay_loader_start_epoch(handle_.get())); }
    void end_epoch() { detail::check(forebay_loader_end_epoch(handle_.get())); }

    /// The next batch; nothing at the end of the epoch.
    std::optional<Batch> next() {
        ForebayBatch *batch = nullptr;
        detail::check(forebay_loader_next(handle_.get(), &batch));
        return batch ? std::optional<Batch>(std::in_place, batch) : std::nullopt;
    }
    /// The next batch; nothing at the end of the epoch or after `timeout`, which `status` tells apart.
    std::optional<Batch> next_within(std::chrono::milliseconds timeout, ForebayStatus &status) {
        ForebayBatch *batch = nullptr;
        const auto limit = static_cast<std::uint64_t>(timeout.count() < 0 ? 0 : timeout.count());
        status = detail::check(forebay_loader_next_within(handle_.get(), limit, &batch));
        return batch ? std::optional<Batch>(std::in_place, batch) : std::nullopt;
    }

    /// Batches of one epoch, which `begin` starts or resumes.
    class Epoch {
    public:
        class iterator {
        public:
            using iterator_category = std::input_iterator_tag;
            using value_type = Batch;
            using difference_type = std::ptrdiff_t;
            using pointer = Batch *;
            using reference = Batch &;

            explicit iterator(Loader *loader) : loader_(loader) { ++*this; }
            iterator() = default;
            Batch &operator*() { return *batch_; }
            Batch *operator->() { return &*batch_; }
            iterator &operator++() {
                // Its memory is free before the next batch is taken.
                batch_.reset();
                batch_ = loader_->next();
                return *this;
            }
            bool operator==(const iterator &other) const { return batch_.has_value() == other.batch_.has_value(); }
            bool operator!=(const iterator &other) const { return !(*this == other); }

        private:
            Loader *loader_ = nullptr;
            std::optional<Batch> batch_;
        };

        explicit Epoch(Loader &loader) : loader_(&loader) {}
        iterator begin() const {
            loader_->start_epoch();
            return iterator(loader_);
        }
        iterator end() const { return iterator(); }

    private:
        Loader *loader_;
    };
    Epoch epoch() { return Epoch(*this); }

    /// Number of the epoch that starts next.
    std::uint64_t next_epoch() const { return detail::number_of(forebay_loader_epoch, get()); }
    std::uint64_t batches() const { return detail::number_of(forebay_loader_batches, get()); }
    std::uint64_t samples() const { return detail::number_of(forebay_loader_samples, get()); }

    std::string state() const { return detail::text_of(forebay_loader_state, get()); }
    void load_state(const std::string &state, bool strict = true) {
        detail::check(forebay_loader_load_state(handle_.get(), state.c_str(), strict ? 1 : 0));
    }
    std::string stats() const { return detail::text_of(forebay_loader_stats, get()); }
    std::string metrics() const { return detail::text_of(forebay_loader_metrics, get()); }
    std::string trace() const { return detail::text_of(forebay_loader_trace, get()); }

private:
    const ForebayLoader *get() const { return handle_.get(); }
    detail::Owned<ForebayLoader, forebay_loader_free> handle_;
};

/// One sample.
class Sample {
public:
    explicit Sample(ForebaySample *handle) : handle_(handle) {}

    std::size_t columns() const {
        return detail::number_of(forebay_sample_columns, static_cast<const ForebaySample *>(handle_.get()));
    }
    /// Value of a column, valid while the sample lives.
    ForebayValue value(std::size_t column) const {
        ForebayValue value{};
        detail::check(forebay_sample_value(handle_.get(), column, &value));
        return value;
    }
    ForebayValue value(const std::string &name) const {
        std::size_t column = 0;
        detail::check(forebay_sample_find(handle_.get(), name.c_str(), &column));
        return value(column);
    }
    /// Bytes or text of a column, valid while the sample lives.
    std::string_view bytes(const std::string &name) const {
        const ForebayValue found = value(name);
        return std::string_view(reinterpret_cast<const char *>(found.data), found.len);
    }

private:
    detail::Owned<ForebaySample, forebay_sample_free> handle_;
};

/// Reader of single samples.
class Reader {
public:
    /// `config` as in forebay_reader_new.
    explicit Reader(const std::string &config) {
        ForebayReader *reader = nullptr;
        detail::check(forebay_reader_new(config.c_str(), &reader));
        handle_.reset(reader);
    }
    std::uint64_t samples() const {
        return detail::number_of(forebay_reader_samples, static_cast<const ForebayReader *>(handle_.get()));
    }
    Sample operator[](std::uint64_t number) const {
        ForebaySample *sample = nullptr;
        detail::check(forebay_reader_sample(handle_.get(), number, &sample));
        return Sample(sample);
    }

private:
    detail::Owned<ForebayReader, forebay_reader_free> handle_;
};

/// Values for Writer::write. They refer to their arguments, which must outlive the call.
inline ForebayValue integer(const char *column, std::int64_t integer) {
    ForebayValue value{};
    value.column = column;
    value.kind = FOREBAY_VALUE_KIND_INT;
    value.integer = integer;
    return value;
}
inline ForebayValue number(const char *column, double number) {
    ForebayValue value{};
    value.column = column;
    value.kind = FOREBAY_VALUE_KIND_FLOAT;
    value.number = number;
    return value;
}
inline ForebayValue bytes(const char *column, std::string_view data, ForebayValueKind kind = FOREBAY_VALUE_KIND_BYTES) {
    ForebayValue value{};
    value.column = column;
    value.kind = kind;
    value.data = reinterpret_cast<const std::uint8_t *>(data.data());
    value.len = data.size();
    return value;
}
inline ForebayValue text(const char *column, std::string_view text) { return bytes(column, text, FOREBAY_VALUE_KIND_TEXT); }
/// `type` as in MDS, such as "uint16"; `shape` must have the product of its sizes elements in `data`.
template <typename T>
ForebayValue array(const char *column, const char *type, const std::vector<T> &data, const std::vector<std::uint64_t> &shape) {
    ForebayValue value{};
    value.column = column;
    value.kind = FOREBAY_VALUE_KIND_ARRAY;
    value.type_name = type;
    value.data = reinterpret_cast<const std::uint8_t *>(data.data());
    value.len = data.size() * sizeof(T);
    value.shape = shape.data();
    value.ndim = static_cast<std::uint32_t>(shape.size());
    return value;
}

/// Writer of a data set, which is complete after `finish`.
class Writer {
public:
    /// `config` as in forebay_writer_new.
    explicit Writer(const std::string &config) {
        ForebayWriter *writer = nullptr;
        detail::check(forebay_writer_new(config.c_str(), &writer));
        handle_.reset(writer);
    }
    void write(const std::vector<ForebayValue> &values) {
        detail::check(forebay_writer_write(handle_.get(), values.data(), values.size()));
    }
    void finish() { detail::check(forebay_writer_finish(handle_.get())); }

private:
    detail::Owned<ForebayWriter, forebay_writer_free> handle_;
};

/// Receives log lines until it is destroyed; one at a time in a program. See forebay_log_set for what it may do.
/// Exceptions of the function are dropped.
class Log {
public:
    using Function = std::function<void(ForebayLogLevel, std::string_view)>;

    Log(ForebayLogLevel level, Function function) : function_(std::make_unique<Function>(std::move(function))) {
        detail::check(forebay_log_set(level, call, function_.get()));
    }
    Log(const Log &) = delete;
    Log &operator=(const Log &) = delete;
    ~Log() { forebay_log_set(FOREBAY_LOG_LEVEL_ERROR, nullptr, nullptr); }

private:
    static void call(void *function, ForebayLogLevel level, const char *message) noexcept {
        try {
            (*static_cast<Function *>(function))(level, message);
        } catch (...) {
        }
    }
    std::unique_ptr<Function> function_;
};

} // namespace forebay

#endif
