// linear.c in C++, with forebay.hpp: linear FOLDER
//
//     c++ -std=c++17 linear.cpp $(pkg-config --cflags --libs forebay) -o linear && ./linear data

#include "forebay.hpp"

#include <array>
#include <cstdio>
#include <exception>
#include <iostream>

constexpr int SAMPLES = 1000, INPUTS = 4, EPOCHS = 10, CHECKPOINT_AFTER = 110;
using Weights = std::array<double, INPUTS + 1>;

static void write_data(const std::string &folder) {
    forebay::Writer writer("{\"out\": \"" + folder + R"(", "columns": {"x": "ndarray:float32:4", "y": "float32"}, "hashes": ["xxh64"]})");
    std::uint32_t seed = 1;
    for (int i = 0; i < SAMPLES; i++) {
        std::vector<float> x(INPUTS);
        for (float &input : x) {
            seed = seed * 1664525U + 1013904223U;
            input = static_cast<float>(seed >> 8) / (1 << 23) - 1;
        }
        writer.write({forebay::array("x", "float32", x, {INPUTS}),
                      forebay::number("y", x[0] - 2 * x[1] + 3 * x[2] + x[3] / 2 + 0.25)});
    }
    writer.finish();
}

static void train_step(Weights &weights, const forebay::Batch &batch) {
    const float *x = batch.view("x").data<float>(), *y = batch.view("y").data<float>();
    Weights gradient{};
    for (std::size_t row = 0; row < batch.rows(); row++, x += INPUTS) {
        double error = weights[INPUTS] - y[row];
        for (int k = 0; k < INPUTS; k++) {
            error += weights[k] * x[k];
        }
        for (int k = 0; k < INPUTS; k++) {
            gradient[k] += error * x[k];
        }
        gradient[INPUTS] += error;
    }
    for (int k = 0; k <= INPUTS; k++) {
        weights[k] -= gradient[k] / static_cast<double>(batch.rows());
    }
}

static void train(const std::string &folder) {
    write_data(folder);
    const std::string config = "{\"streams\": [{\"local\": \"" + folder + R"("}], "batch_size": 50, "shuffle": true})";
    forebay::Loader loader(config);
    Weights weights{};
    int batches = 0;
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        for (forebay::Batch &batch : loader.epoch()) {
            train_step(weights, batch);
            if (++batches == CHECKPOINT_AFTER) {
                // A new loader continues after this batch.
                const std::string state = loader.state();
                loader = forebay::Loader(config);
                loader.load_state(state);
                loader.start_epoch();
            }
        }
    }
    std::printf("%d batches, w = %.3f %.3f %.3f %.3f, b = %.3f\n", batches, weights[0], weights[1], weights[2], weights[3],
                weights[4]);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        std::cerr << "usage: " << argv[0] << " FOLDER\n";
        return 2;
    }
    try {
        train(argv[1]);
    } catch (const std::exception &error) {
        std::cerr << "forebay: " << error.what() << "\n";
        return 1;
    }
}
