// forebay.hpp: wrapper CONFIG.json FOLDER, with the data of interface.c. Writes to FOLDER. Prints the sum of all tokens.
#include "forebay.hpp"

#include <fstream>
#include <iostream>
#include <numeric>
#include <sstream>

#define CHECK(what)                                                                                                    \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            std::cerr << __FILE__ << ":" << __LINE__ << ": " << #what << " does not hold\n";                           \
            std::exit(1);                                                                                              \
        }                                                                                                              \
    } while (0)

template <typename Call> static std::string message_of(Call call, ForebayStatus status) {
    try {
        call();
    } catch (const forebay::Error &error) {
        CHECK(error.status() == status);
        return error.what();
    }
    CHECK(!"an exception");
    return "";
}

static std::uint64_t sum_of(const forebay::View &view) {
    const auto *data = view.data<std::uint16_t>();
    return std::accumulate(data, data + view.size(), std::uint64_t{0});
}

// Objects have one owner, and a moved-from object is empty.
template <typename T> constexpr bool has_one_owner() {
    return std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T> && !std::is_copy_constructible_v<T>;
}
static_assert(has_one_owner<forebay::Loader>() && has_one_owner<forebay::Batch>() && has_one_owner<forebay::Tensor>());
static_assert(has_one_owner<forebay::Reader>() && has_one_owner<forebay::Sample>() && has_one_owner<forebay::Writer>());
static_assert(!std::is_move_constructible_v<forebay::Log>);

static void moves(const std::string &config, const std::string &folder) {
    const auto is_empty = [](auto call) { CHECK(message_of(call, FOREBAY_STATUS_INVALID).find("NULL") != std::string::npos); };
    forebay::Loader loader(config);
    loader.start_epoch();
    auto first = loader.next(), second = loader.next();
    CHECK(first && second);
    forebay::Batch moved = std::move(*first);
    CHECK(moved.number() == 0);
    is_empty([&] { first->rows(); });
    is_empty([&] { first->view("tokens"); });
    // The batch that is assigned to is freed.
    moved = std::move(*second);
    CHECK(moved.number() == 1);
    forebay::Tensor tensor = moved.tensor("tokens"), other = std::move(tensor);
    CHECK(tensor.get() == nullptr && tensor.release() == nullptr && other.get() != nullptr);

    // An exception in the loop frees the batch, and the loader has further epochs.
    std::uint64_t rows = 0;
    try {
        for (forebay::Batch &batch : loader.epoch()) {
            throw std::runtime_error(std::to_string(batch.rows()));
        }
    } catch (const std::runtime_error &error) {
        CHECK(error.what() == std::string("16"));
    }
    for (forebay::Batch &batch : loader.epoch()) {
        CHECK(batch.epoch() == 2);
        rows += batch.rows();
    }
    CHECK(rows == 50);

    forebay::Reader reader(config), read = std::move(reader);
    is_empty([&] { reader[0]; });
    forebay::Sample sample = read[0], kept = std::move(sample);
    CHECK(kept.columns() == 1);
    is_empty([&] { sample.columns(); });
    forebay::Writer writer("{\"out\": \"" + folder + R"(", "columns": {"n": "int"}})"), wrote = std::move(writer);
    is_empty([&] { writer.finish(); });
    wrote.finish();
    const std::string json = [&] {
        try {
            wrote.finish();
        } catch (const forebay::Error &error) {
            const forebay::Error copy = error;
            CHECK(copy.status() == FOREBAY_STATUS_CLOSED && std::string(copy.what()) == error.what());
            return copy.json();
        }
        return std::string();
    }();
    CHECK(json.find("\"status\":\"closed\"") != std::string::npos);
}

static std::uint64_t loads(const std::string &config) {
    forebay::Loader loader(config);
    CHECK(loader.batches() == 4 && loader.samples() == 50 && loader.next_epoch() == 0);
    std::uint64_t sum = 0, rows = 0;
    std::string state;
    for (forebay::Batch &batch : loader.epoch()) {
        CHECK(batch.outputs() == 1 && batch.name(0) == "tokens" && batch.kind(0) == FOREBAY_KIND_TENSOR);
        CHECK(batch.number() == rows / 16 && batch.epoch() == 0);
        auto view = batch.view("tokens");
        CHECK(view.sizes() == (std::vector<std::int64_t>{static_cast<std::int64_t>(batch.rows()), 8}));
        sum += sum_of(view);
        rows += batch.rows();
        if (rows == 16) {
            state = loader.state();
        }
    }
    CHECK(rows == 50);

    // Moves, an optional, polls, and a tensor that outlives everything.
    forebay::Loader second(config);
    second.load_state(state);
    forebay::Loader moved = std::move(second);
    moved.start_epoch();
    std::optional<forebay::Tensor> tensor;
    ForebayStatus status = FOREBAY_STATUS_PENDING;
    while (!tensor) {
        if (auto batch = moved.next_within(std::chrono::milliseconds(1), status)) {
            CHECK(batch->number() == 1);
            tensor = batch->tensor("tokens");
        }
        CHECK(status != FOREBAY_STATUS_END);
    }
    CHECK(moved.stats().find("decode") != std::string::npos && moved.metrics().find("rank=\"0\"") != std::string::npos);
    CHECK(moved.trace().find("traceEvents") != std::string::npos);
    moved.end_epoch();
    CHECK(message_of([&] { moved.next(); }, FOREBAY_STATUS_CLOSED).find("closed") != std::string::npos);
    CHECK(message_of([&] { second.next(); }, FOREBAY_STATUS_INVALID).find("NULL") != std::string::npos);
    CHECK(message_of([] { forebay::Loader("{}"); }, FOREBAY_STATUS_CONFIG).find("no data") != std::string::npos);
    return sum;
}

static void writes(const std::string &folder) {
    forebay::Writer writer("{\"out\": \"" + folder + R"(", "columns": {"n": "int", "f": "float32", "t": "str", "b": "bytes", "a": "ndarray"}})");
    for (int i = 0; i < 5; i++) {
        const std::vector<std::uint16_t> data(static_cast<std::size_t>(i) + 1, 7);
        const std::vector<std::uint64_t> shape{data.size()};
        const std::string text = "text " + std::to_string(i);
        writer.write({forebay::integer("n", i), forebay::number("f", i / 2.0), forebay::text("t", text),
                      forebay::bytes("b", std::string_view("\0x", 2)), forebay::array("a", "uint16", data, shape)});
    }
    CHECK(message_of([&] { writer.write({}); }, FOREBAY_STATUS_CONFIG).find("no value") != std::string::npos);
    writer.finish();

    const std::string config = "{\"streams\": [{\"local\": \"" + folder + "\"}], \"batch_size\": 5}";
    forebay::Reader reader(config);
    CHECK(reader.samples() == 5);
    const forebay::Sample sample = reader[3];
    CHECK(sample.columns() == 5 && sample.value("n").integer == 3 && sample.value("f").number == 1.5);
    CHECK(sample.bytes("t") == "text 3" && sample.bytes("b") == std::string_view("\0x", 2));
    CHECK(sample.value("a").ndim == 1 && sample.value("a").shape[0] == 4);
    CHECK(message_of([&] { reader[5]; }, FOREBAY_STATUS_NOT_FOUND).find("sample 5") != std::string::npos);
    const auto moved = message_of([] { forebay::Loader{R"({"memory": 1})"}; }, FOREBAY_STATUS_CONFIG);
    CHECK(moved.find("`memory` is an option of `engine`") != std::string::npos);

    forebay::Loader loader(config);
    for (forebay::Batch &batch : loader.epoch()) {
        CHECK(batch.row("t", 4) == "text 4" && batch.kind(batch.find("a")) == FOREBAY_KIND_RAGGED);
        CHECK(batch.view("f").data<float>()[3] == 1.5F);
        CHECK(message_of([&] { batch.view("n").data<float>(); }, FOREBAY_STATUS_INVALID).find("a different type") != std::string::npos);
    }
}

static void logs(const std::string &config) {
    int lines = 0;
    forebay::Loader loader(config);
    std::string state = loader.state();
    const auto seed = state.find("\"augment_seed\":9176");
    CHECK(seed != std::string::npos);
    state.replace(seed, 19, "\"augment_seed\":9175");
    {
        forebay::Log log(FOREBAY_LOG_LEVEL_WARN, [&](ForebayLogLevel level, std::string_view) {
            CHECK(level == FOREBAY_LOG_LEVEL_WARN);
            lines++;
            throw std::runtime_error("dropped");
        });
        loader.load_state(state, false);
    }
    loader.load_state(state, false);
    CHECK(lines == 1);
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    std::ostringstream config;
    config << std::ifstream(argv[1]).rdbuf();
    const std::uint64_t sum = loads(config.str());
    writes(argv[2]);
    moves(config.str(), argv[2] + std::string("-moved"));
    logs(config.str());
    std::cout << sum << "\n";
}
