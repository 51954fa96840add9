// gradstep inside a framework that reads the optimizer's name from a configuration: a class with
// virtual functions over a template, a file for each rule, tensors behind raw pointers, and
// checkpoints in the framework's own format.
#include <cmath>
#include <cstdio>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "optimizer.hpp"

namespace {

// [names]
std::unique_ptr<optimizer> make_optimizer(std::string const& name, settings const& given) {
    static std::map<std::string, std::unique_ptr<optimizer> (*)(settings const&)> const makers = {
        {"adamw", make_adamw}, {"momentum", make_momentum}, {"rowwise_adagrad", make_rowwise_adagrad}};
    auto const found = makers.find(name);
    if (found == makers.end()) throw std::invalid_argument("there is no optimizer " + name);
    return found->second(given);
}
// [names]

// The framework: it allocates every buffer, and hands out pointers.
class network {
public:
    network(std::vector<std::size_t> const& sizes, std::string const& optimizer_name)
        : optimizer_(make_optimizer(optimizer_name, {})), layers_(sizes.size()) {
        for (std::size_t i = 0; i < sizes.size(); ++i) {
            layer& x = layers_[i];
            x.weight.resize(sizes[i]);
            x.gradient.resize(sizes[i]);
            // [slots]
            for (std::size_t slot = 0; slot < optimizer_->slot_names().size(); ++slot)
                x.state.emplace_back(optimizer_->slot_size(slot, sizes[i]));
            // [slots]
            for (std::vector<float>& slot : x.state) x.slots.push_back(slot.data());
            tensors_.push_back({x.weight.data(), x.gradient.data(), x.slots.data(), sizes[i]});
        }
        optimizer_->initialize(tensors_);
    }

    // One step towards the minimum of the sum of (w - 1)^2 / 2.
    void train(double rate) {
        for (layer& x : layers_)
            for (std::size_t i = 0; i < x.weight.size(); ++i) x.gradient[i] = x.weight[i] - 1;
        optimizer_->step(tensors_, rate);
    }
    float furthest() const {
        float out = 0;
        for (layer const& x : layers_)
            for (float const w : x.weight) out = std::fmax(out, std::fabs(w - 1));
        return out;
    }

    // [checkpoint]
    void save(std::ostream& file) {
        std::int64_t const steps = optimizer_->steps();
        file.write(reinterpret_cast<char const*>(&steps), sizeof steps);
        each_buffer([&](char* bytes, std::size_t count) { file.write(bytes, static_cast<std::streamsize>(count)); });
    }
    void load(std::istream& file) {
        std::int64_t steps = 0;
        file.read(reinterpret_cast<char*>(&steps), sizeof steps);
        each_buffer([&](char* bytes, std::size_t count) { file.read(bytes, static_cast<std::streamsize>(count)); });
        if (!file) throw std::runtime_error("the checkpoint is too short");
        optimizer_->resume_after(steps);
    }
    // [checkpoint]

private:
    struct layer {
        std::vector<float> weight, gradient;
        std::vector<std::vector<float>> state;
        std::vector<float*> slots;
    };
    // Every weight and every slot, as bytes.
    template <class F> void each_buffer(F&& f) {
        auto const bytes_of = [&](std::vector<float>& x) {
            f(reinterpret_cast<char*>(x.data()), x.size() * sizeof(float));
        };
        for (layer& x : layers_) {
            bytes_of(x.weight);
            for (std::vector<float>& slot : x.state) bytes_of(slot);
        }
    }
    std::unique_ptr<optimizer> optimizer_;
    std::vector<layer> layers_;
    std::vector<tensor> tensors_;
};

} // namespace

int main(int argc, char** argv) {
    std::vector<std::string> names(argv + 1, argv + argc);
    if (names.empty()) names = {"adamw", "momentum", "rowwise_adagrad"};
    std::vector<std::size_t> const sizes = {784 * 32, 32, 32 * 10, 10};
    auto const rate = [](int t) { return 0.1 / (1 + 0.01 * t); };

    bool right = true;
    for (std::string const& name : names) {
        network whole(sizes, name), first_half(sizes, name), second_half(sizes, name);
        for (int t = 0; t < 400; ++t) whole.train(rate(t));
        for (int t = 0; t < 200; ++t) first_half.train(rate(t));
        std::stringstream file;
        first_half.save(file);
        second_half.load(file);
        for (int t = 200; t < 400; ++t) second_half.train(rate(t));

        std::stringstream expected, resumed;
        whole.save(expected);
        second_half.save(resumed);
        bool const same = expected.str() == resumed.str();
        std::printf("%-15s the furthest weight is %.0e from the minimum; a run from a checkpoint has %s\n",
                    name.c_str(), static_cast<double>(whole.furthest()), same ? "the same bits" : "OTHER BITS");
        right = right && same && whole.furthest() < 0.01f;
    }
    return right ? 0 : 1;
}
