// Sequences of calls of the C library, good and bad, beside a model of plain loops that knows what
// each must do: what is refused has its code and a sentence and has changed nothing, what is taken
// leaves the model's values, state and clock. A call has one fault at most, so that its code is
// one.
#include <gradstep/c/gradstep.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "calls.hpp"

namespace {

// --- the model ---

enum class on_nonfinite { propagate, skip, raise };
struct optimizer {
    char const* config;
    bool has_momentum, falls;
    on_nonfinite nonfinite;
};
constexpr optimizer optimizers[] = {
    {R"({"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 0.125}})", false, false,
     on_nonfinite::propagate},
    {R"({"rule": {"name": "momentum", "mu": 0.5}, "schedule": {"name": "constant", "rate": 0.125}})", true, false,
     on_nonfinite::propagate},
    {R"({"rule": {"name": "sgd"}, "on_nonfinite": "raise",
         "schedule": {"name": "piecewise", "boundaries": [2, 5], "rates": [0.5, 0.25, 0.125]}})",
     false, true, on_nonfinite::raise},
    {R"({"rule": {"name": "momentum", "mu": 0.5}, "on_nonfinite": "skip", "threads": 2,
         "schedule": {"name": "piecewise", "boundaries": [2, 5], "rates": [0.5, 0.25, 0.125]}})",
     true, true, on_nonfinite::skip}};

struct step_options {
    gradstep_step_options given = GRADSTEP_STEP_OPTIONS_INIT;
    gradstep_status code = GRADSTEP_OK;
};

struct state {
    optimizer const* of = nullptr;
    std::size_t rows = 0, width = 0;
    bool has_shape() const { return rows != 1 && width > 1; } // which states contain, and loads compare
    std::vector<float> w, m;
    std::int64_t step = 0, samples = 0, epoch = 0;

    // The code of a step that has these options and gradients; whether it is a step at all.
    gradstep_status code_of(step_options const& options, std::span<float const> gradient) const {
        if (options.code != GRADSTEP_OK) return options.code;
        if (of->nonfinite == on_nonfinite::raise && has_nonfinite(gradient)) return GRADSTEP_NOT_FINITE;
        if (is_skipped(gradient)) return GRADSTEP_OK;
        return step == last || samples > last - options.given.samples ? GRADSTEP_BAD_VALUE : GRADSTEP_OK;
    }
    bool is_skipped(std::span<float const> gradient) const {
        return of->nonfinite == on_nonfinite::skip && has_nonfinite(gradient);
    }
    static bool has_nonfinite(std::span<float const> x) {
        return std::any_of(x.begin(), x.end(), [](float each) { return !std::isfinite(each); });
    }
    float begin_step(gradstep_step_options const& options) {
        double const by_schedule = !of->falls ? 0.125 : step <= 2 ? 0.5 : step <= 5 ? 0.25 : 0.125;
        ++step;
        samples += options.samples;
        if (options.epoch >= 0) epoch = options.epoch;
        return static_cast<float>((std::isnan(options.rate) ? by_schedule : options.rate) * options.rate_scale);
    }
    void update_element(std::size_t i, float g, float rate, gradstep_step_options const& options) {
        g *= static_cast<float>(options.gradient_scale);
        if (of->has_momentum) g = m[i] = std::fma(0.5f, m[i], g);
        w[i] = std::fma(-rate, g, w[i]);
    }
    void update(std::span<float const> gradient, gradstep_step_options const& options) {
        if (is_skipped(gradient)) return;
        float const rate = begin_step(options);
        for (std::size_t i = 0; i < w.size(); ++i) update_element(i, gradient[i], rate, options);
    }
    void update_rows(std::span<std::int64_t const> ids, std::span<float const> gradient,
                     gradstep_step_options const& options) {
        if (is_skipped(gradient)) return;
        float const rate = begin_step(options);
        for (std::size_t k = 0; k < ids.size(); ++k) {
            if (std::find(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(k), ids[k]) !=
                ids.begin() + static_cast<std::ptrdiff_t>(k))
                continue;
            for (std::size_t i = 0; i < width; ++i) {
                float sum = gradient[k * width + i];
                for (std::size_t later = k + 1; later < ids.size(); ++later)
                    if (ids[later] == ids[k]) sum += gradient[later * width + i];
                update_element(static_cast<std::size_t>(ids[k]) * width + i, sum, rate, options);
            }
        }
    }
};

// --- calls ---

struct held {
    gradstep_parameter* handle = nullptr;
    state model;
    bool lives = false;
};
class run {
public:
    explicit run(std::span<std::uint8_t const> bytes) : next_(bytes) {}
    run(run const&) = delete;
    run& operator=(run const&) = delete;
    ~run() {
        for (held const& each : all_)
            if (each.lives) gradstep_parameter_release(each.handle);
        gradstep_updater_release(updater_);
    }
    bool go() {
        for (int k = 0; k < 64 && !next_.is_empty(); ++k) {
            one_call();
            for (held& each : all_) compare(each);
            compare_updater();
        }
        return taken_ > 3;
    }

private:
    void one_call() {
        switch (next_.below(12)) {
        case 0:
        case 1:
            return create();
        case 2:
        case 3:
            return update();
        case 4:
            return update_rows();
        case 5:
            return update_several();
        case 6:
            return read();
        case 7:
            return save_or_load();
        case 8:
            return seek();
        case 9:
            return release();
        case 10:
            return updater_of_the_library();
        default:
            return apply();
        }
    }

    // A handle for a call that is to go well: null where none lives.
    held* living() {
        std::size_t const first = next_.below(all_.size());
        for (std::size_t i = 0; i < all_.size(); ++i)
            if (held& each = all_[(first + i) % all_.size()]; each.lives) return &each;
        return nullptr;
    }
    // A pointer that is no living parameter, and the code for it; of the released ones it may be
    // one.
    std::pair<gradstep_parameter*, gradstep_status> bad_handle() {
        for (held const& each : all_)
            if (!each.lives && each.handle != nullptr && next_.below(2) == 1) return {each.handle, GRADSTEP_BAD_HANDLE};
        if (updater_ != nullptr && next_.below(2) == 1)
            return {reinterpret_cast<gradstep_parameter*>(updater_), GRADSTEP_BAD_HANDLE};
        return {nullptr, GRADSTEP_NULL_ARGUMENT};
    }
    step_options options(bool may_be_bad) {
        step_options out;
        out.given.gradient_scale = next_.one_of({1.0, 0.5, -2.0});
        out.given.rate_scale = next_.one_of({1.0, 0.5, 0.0});
        if (next_.below(4) == 3) out.given.rate = 0.25, out.given.given |= GRADSTEP_GIVEN_RATE;
        out.given.samples = next_.one_of<std::int64_t>({0, 32, last});
        out.given.epoch = next_.one_of<std::int64_t>({-1, 0, 5, last});
        if (out.given.epoch >= 0) out.given.given |= GRADSTEP_GIVEN_EPOCH;
        out.given.zero_gradient = next_.below(4) == 3;
        if (next_.below(8) == 7) { // of a program that has no bits
            out.given.struct_size = offsetof(gradstep_step_options, given);
            out.given.given = 0;
        }
        bool const has_bits = out.given.struct_size == sizeof out.given;
        if (!may_be_bad) return out;
        out.code = GRADSTEP_BAD_VALUE;
        switch (next_.below(has_bits ? 12 : 8)) {
        case 0:
            out.given.gradient_scale = not_a_number;
            break;
        case 1:
            out.given.gradient_scale = infinity;
            break;
        case 2:
            out.given.rate_scale = -1;
            break;
        case 3:
            out.given.rate_scale = not_a_number;
            break;
        case 4:
            out.given.rate = -0.5;
            out.given.given |= GRADSTEP_GIVEN_RATE;
            break;
        case 5:
            out.given.rate = infinity;
            out.given.given |= GRADSTEP_GIVEN_RATE;
            break;
        case 6:
            out.given.samples = -1;
            break;
        case 7:
            out.given.zero_gradient = 2;
            break;
        case 8:
            out.given.rate = next_.one_of<double>({0.5, not_a_number});
            if (std::isnan(out.given.rate)) out.given.given |= GRADSTEP_GIVEN_RATE;
            else out.given.given &= ~std::uint32_t(GRADSTEP_GIVEN_RATE);
            break;
        case 9:
            out.given.epoch = next_.one_of<std::int64_t>({-2, -1, 1});
            if (out.given.epoch == -1) out.given.given |= GRADSTEP_GIVEN_EPOCH;
            else out.given.given &= ~std::uint32_t(GRADSTEP_GIVEN_EPOCH);
            break;
        case 10:
            out.given.given |= 4u;
            break;
        default:
            out.given.struct_size = static_cast<std::uint32_t>(next_.below(8));
            out.code = GRADSTEP_BAD_SIZE;
        }
        return out;
    }
    gradstep_step_options const* pointer(step_options const& of) { return &of.given; }

    void create() {
        held& to = all_[next_.below(all_.size())];
        if (to.lives) {
            gradstep_parameter_release(to.handle);
            to.lives = false;
        }
        optimizer const& of = optimizers[next_.below(std::size(optimizers))];
        std::size_t const rows = next_.below(5), width = next_.below(4) + (next_.below(8) == 7 ? 40 : 0);
        std::vector<float> initial = next_.numbers(rows * width + 1);
        bool const is_zero = next_.below(4) == 3;
        initial.resize(rows * width);
        if (is_zero) std::fill(initial.begin(), initial.end(), 0.0f);

        struct {
            char const* config;
            std::size_t bytes;
            std::int32_t dtype;
            void const* initial;
            std::uint64_t rows, width;
            bool has_out;
        } with{of.config, std::strlen(of.config), GRADSTEP_FLOAT32, is_zero ? nullptr : initial.data(), rows, width,
               true};
        gradstep_status code = GRADSTEP_OK;
        std::vector<float> more(8);
        if (next_.below(3) == 2) switch (next_.below(7)) {
            case 0:
                with.config = nullptr, code = GRADSTEP_NULL_ARGUMENT;
                break;
            case 1:
                with.has_out = false, code = GRADSTEP_NULL_ARGUMENT;
                break;
            case 2:
                with.dtype = next_.one_of<std::int32_t>({-1, 8, last >> 32, GRADSTEP_INT32, GRADSTEP_UINT64});
                code = GRADSTEP_UNSUPPORTED_TYPE;
                break;
            case 3:
                with.rows = static_cast<std::uint64_t>(last), with.width = 4, code = GRADSTEP_BAD_SIZE;
                break;
            case 4:
                with.initial = reinterpret_cast<std::byte const*>(more.data()) + 1 + next_.below(3);
                with.rows = 1, with.width = 2, code = GRADSTEP_BAD_BUFFER;
                break;
            case 5:
                with.bytes = next_.below(with.bytes), code = GRADSTEP_BAD_CONFIG;
                break;
            default:
                std::tie(with.config, code) = bad_config();
                with.bytes = std::strlen(with.config);
                // rows of width 0 are another fault of a configuration that catches up
                with.initial = more.data(), with.rows = 1, with.width = 2;
            }
        gradstep_parameter* const before = to.handle;
        gradstep_parameter* out = before;
        call(next_, code, [&](gradstep_error* error) {
            return gradstep_parameter_create(with.config, with.bytes, with.dtype, with.initial, with.rows, with.width,
                                             with.has_out ? &out : nullptr, error);
        });
        if (code != GRADSTEP_OK) return fuzz::require(out == before, "a handle is written that there is not");
        ++taken_;
        for (held& each : all_)
            if (!each.lives && each.handle == out) each.handle = nullptr; // it is used again
        to = {out, {&of, rows, width, initial, std::vector<float>(of.has_momentum ? initial.size() : 0)}, true};
    }
    std::pair<char const*, gradstep_status> bad_config() {
        using pair = std::pair<char const*, gradstep_status>;
        return next_.one_of<pair>(
            {{R"({"rule": {"name": "adma"}, "schedule": {"name": "constant", "rate": 1}})", GRADSTEP_BAD_CONFIG},
             {R"({"rule": {"name": "momentum", "mu": 1.5}, "schedule": {"name": "constant", "rate": 1}})",
              GRADSTEP_BAD_CONFIG},
             {R"({"rule": {"name": "sgd"}})", GRADSTEP_BAD_CONFIG},
             {R"({"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 1e300}, "threads": -1})",
              GRADSTEP_BAD_CONFIG},
             {"{\"rule\": {\"name\": \"\xff\"}}", GRADSTEP_BAD_CONFIG},
             {R"({"rule": {"name": "sgd"}, "schedule": {"name": "external"}, "elements": "plain"})",
              GRADSTEP_BAD_CONFIG},
             {R"({"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 1}})", GRADSTEP_NOT_COMPILED},
             {R"({"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 1}, "element": "mixed"})",
              GRADSTEP_NOT_COMPILED},
             {R"({"rule": {"name": "momentum"}, "schedule": {"name": "constant", "rate": 1}, "catch_up": "exact"})",
              GRADSTEP_NOT_COMPILED}});
    }

    void zero_if_asked(step_options const& with, std::span<float const> gradient, std::vector<float>& before) {
        if (with.given.zero_gradient == 1) std::fill(before.begin(), before.end(), 0.0f);
        fuzz::require(same(gradient, before), "a gradient is not as it must be after the step");
    }

    void update() {
        held* const of = living();
        if (of == nullptr) return;
        std::vector<float> gradient = next_.numbers(of->model.w.size() + 1), before;
        std::size_t const count = of->model.w.size();
        step_options const with = options(next_.below(8) == 7);
        gradstep_parameter* handle = of->handle;
        void const* from = gradient.data();
        std::uint64_t told = count;
        gradstep_status code = of->model.code_of(with, std::span(gradient).first(count));
        if (with.code == GRADSTEP_OK && next_.below(3) == 2) switch (next_.below(5)) {
            case 0:
                std::tie(handle, code) = bad_handle();
                break;
            case 1:
                if (count != 0) from = nullptr, code = GRADSTEP_NULL_ARGUMENT;
                break;
            case 2:
                told = next_.one_of<std::uint64_t>({count + 1, UINT64_MAX, UINT64_MAX / 4 + 2}),
                code = GRADSTEP_BAD_SIZE;
                break;
            case 3:
                from = reinterpret_cast<std::byte*>(gradient.data()) + 1 + next_.below(3), code = GRADSTEP_BAD_BUFFER;
                break;
            default:
                if (count != 0) from = values_of(*of), code = GRADSTEP_BAD_BUFFER;
            }
        before = gradient;
        call(next_, code, [&](gradstep_error* error) {
            return gradstep_parameter_update(handle, from, told,
                                             next_.below(8) == 7 && is_default(with) ? nullptr : pointer(with), error);
        });
        if (code != GRADSTEP_OK) return fuzz::require(same(gradient, before), "a refused gradient is written");
        ++taken_;
        of->model.update(std::span(before).first(count), with.given);
        if (with.given.zero_gradient == 1) std::fill_n(before.begin(), count, 0.0f);
        fuzz::require(same(gradient, before), "a gradient is not as it must be after the step");
    }
    static bool is_default(step_options const& with) {
        gradstep_step_options const plain = GRADSTEP_STEP_OPTIONS_INIT;
        return with.code == GRADSTEP_OK && with.given.gradient_scale == 1 && with.given.rate_scale == 1 &&
               std::isnan(with.given.rate) && with.given.samples == plain.samples && with.given.epoch == plain.epoch &&
               with.given.zero_gradient == 0;
    }
    static void const* values_of(held const& of) {
        void const* data = nullptr;
        std::uint64_t count = 0;
        fuzz::require(gradstep_parameter_values(of.handle, &data, &count, nullptr) == GRADSTEP_OK,
                      "no values are given");
        return data;
    }

    void update_rows() {
        held* const of = living();
        if (of == nullptr || of->model.rows == 0) return;
        state& model = of->model;
        std::size_t const n = next_.below(6);
        std::vector<std::int64_t> ids;
        for (std::size_t k = 0; k < n; ++k) ids.push_back(static_cast<std::int64_t>(next_.below(model.rows)));
        std::vector<float> gradient = next_.numbers(n * model.width + 1);
        gradient.resize(n * model.width);
        step_options const with = options(next_.below(8) == 7);
        gradstep_parameter* handle = of->handle;
        std::uint64_t told = n, told_elements = gradient.size();
        gradstep_status code = model.code_of(with, gradient);
        std::int32_t id_dtype =
            next_.one_of<std::int32_t>({GRADSTEP_INT64, GRADSTEP_INT32, GRADSTEP_UINT32, GRADSTEP_UINT64});
        bool has_ids = true;
        if (with.code == GRADSTEP_OK && next_.below(3) == 2) switch (next_.below(5)) {
            case 0:
                std::tie(handle, code) = bad_handle();
                break;
            case 1:
                if (n != 0) has_ids = false, code = GRADSTEP_NULL_ARGUMENT;
                break;
            case 2:
                if (n != 0) {
                    ids[next_.below(n)] =
                        next_.one_of({static_cast<std::int64_t>(model.rows), std::int64_t{-1}, std::int64_t{1} << 31});
                    code = GRADSTEP_BAD_VALUE;
                }
                break;
            case 3:
                told_elements += 1 + next_.below(2), code = GRADSTEP_BAD_SIZE;
                gradient.resize(told_elements);
                break;
            default:
                id_dtype = next_.one_of<std::int32_t>({-1, 99, GRADSTEP_FLOAT32});
                code = id_dtype == GRADSTEP_FLOAT32 ? GRADSTEP_BAD_VALUE : GRADSTEP_UNSUPPORTED_TYPE;
            }
        std::vector<std::int32_t> const narrow(ids.begin(), ids.end()); // -1 and 2^31 are out of range here too
        bool const is_narrow = id_dtype == GRADSTEP_INT32 || id_dtype == GRADSTEP_UINT32;
        void const* const given = !has_ids ? nullptr : is_narrow ? static_cast<void const*>(narrow.data()) : ids.data();
        std::vector<float> before = gradient;
        call(next_, code, [&](gradstep_error* error) {
            return gradstep_parameter_update_rows(handle, given, id_dtype, told, gradient.data(), told_elements,
                                                  pointer(with), error);
        });
        if (code != GRADSTEP_OK) return fuzz::require(same(gradient, before), "a refused gradient is written");
        ++taken_;
        model.update_rows(ids, before, with.given);
        zero_if_asked(with, gradient, before);
    }

    void update_several() {
        std::vector<held*> chosen;
        for (held& each : all_)
            if (each.lives && next_.below(4) != 3) chosen.push_back(&each);
        std::size_t const n = chosen.size();
        std::vector<std::vector<float>> gradients, before;
        std::vector<gradstep_parameter*> handles;
        std::vector<void const*> from;
        std::vector<std::uint64_t> counts;
        step_options const with = options(next_.below(8) == 7);
        gradstep_status code = with.code;
        std::size_t faults = with.code != GRADSTEP_OK;
        for (held* const each : chosen) {
            gradients.push_back(next_.numbers(each->model.w.size() + 1));
            gradients.back().resize(each->model.w.size());
            handles.push_back(each->handle);
            from.push_back(gradients.back().data());
            counts.push_back(gradients.back().size());
            if (with.code != GRADSTEP_OK) continue;
            if (auto const own = each->model.code_of(with, gradients.back()); own != GRADSTEP_OK) ++faults, code = own;
        }
        if (faults > 1 && with.code == GRADSTEP_OK) return; // which one is named is open
        bool has_handles = true, has_gradients = true, has_counts = true;
        if (n != 0 && faults == 0 && next_.below(3) == 2) {
            std::size_t const k = next_.below(n);
            switch (next_.below(7)) {
            case 0:
                has_handles = false, code = GRADSTEP_NULL_ARGUMENT;
                break;
            case 1:
                has_gradients = false, code = GRADSTEP_NULL_ARGUMENT;
                break;
            case 2:
                has_counts = false, code = GRADSTEP_NULL_ARGUMENT;
                break;
            case 3:
                std::tie(handles[k], code) = bad_handle();
                break;
            case 4:
                if (counts[k] != 0) from[k] = nullptr, code = GRADSTEP_NULL_ARGUMENT;
                break;
            case 5:
                ++counts[k], code = GRADSTEP_BAD_SIZE;
                break;
            default:
                handles.push_back(handles[k]), from.push_back(from[k]), counts.push_back(counts[k]);
                code = GRADSTEP_BAD_VALUE;
            }
        }
        if (n == 0 && with.code != GRADSTEP_OK) return; // there is nothing to do with them
        before = gradients;
        bool const ascends = next_.below(4) == 3;
        if (ascends) ascend(chosen);
        auto const step = ascends ? gradstep_parameters_descend : gradstep_parameters_update;
        call(next_, code, [&](gradstep_error* error) {
            return step(has_handles ? handles.data() : nullptr, has_gradients ? from.data() : nullptr,
                        has_counts ? counts.data() : nullptr, handles.size(), pointer(with), error);
        });
        if (ascends && code != GRADSTEP_OK)
            for (held* const each : chosen)
                call(next_, GRADSTEP_OK,
                     [&](gradstep_error* error) { return gradstep_parameter_restore(each->handle, error); });
        for (std::size_t k = 0; k < n; ++k) {
            if (code == GRADSTEP_OK) {
                chosen[k]->model.update(before[k], with.given);
                if (with.given.zero_gradient == 1) std::fill(before[k].begin(), before[k].end(), 0.0f);
            }
            fuzz::require(same(gradients[k], before[k]), "a gradient is not as it must be after a step of several");
        }
        taken_ += code == GRADSTEP_OK && n != 0;
    }

    // Moves these along gradients of ones.
    void ascend(std::span<held* const> chosen) {
        std::vector<float> ones;
        for (held* const each : chosen) ones.resize(std::max(ones.size(), each->model.w.size()), 1.0f);
        std::vector<gradstep_parameter*> handles;
        std::vector<void const*> from(chosen.size(), ones.data());
        std::vector<std::uint64_t> counts;
        double squares = 0, norm = 77;
        for (held* const each : chosen) {
            handles.push_back(each->handle);
            counts.push_back(each->model.w.size());
            squares += static_cast<double>(each->model.w.size());
        }
        call(next_, GRADSTEP_OK, [&](gradstep_error* error) {
            return gradstep_parameters_ascend(handles.data(), from.data(), counts.data(), handles.size(), nullptr,
                                              &norm, error);
        });
        fuzz::require(norm == std::sqrt(squares), "the norm of an ascent is another one");
    }

    void read() {
        held* const of = living();
        if (of == nullptr) return;
        state const& model = of->model;
        if (next_.below(2) == 0) {
            auto const [handle, code] = bad_handle();
            std::uint64_t count = 77;
            void const* data = &count;
            call(next_, code, [&, bad = handle](gradstep_error* error) {
                return gradstep_parameter_values(bad, &data, &count, error);
            });
            fuzz::require(count == 77 && data == &count, "values are given where there are none");
            return;
        }
        std::int64_t const id = static_cast<std::int64_t>(next_.below(model.rows + 2)) - 1;
        bool const is_row = id >= 0 && id < static_cast<std::int64_t>(model.rows), is_short = next_.below(4) == 3;
        std::vector<float> row(model.width + 1, 77.0f);
        gradstep_status const code = is_short && is_row ? GRADSTEP_BAD_SIZE : is_row ? GRADSTEP_OK : GRADSTEP_BAD_VALUE;
        call(next_, code, [&](gradstep_error* error) {
            return gradstep_parameter_row(of->handle, id, row.data(), model.width + (is_short && is_row), error);
        });
        std::vector<float> expected(model.width + 1, 77.0f);
        if (code == GRADSTEP_OK)
            std::copy_n(model.w.begin() + id * static_cast<std::int64_t>(model.width), model.width, expected.begin());
        fuzz::require(same(row, expected), "a row is read otherwise");

        // Texts need their room to the last byte.
        std::uint64_t written = 0;
        call(next_, GRADSTEP_BAD_SIZE,
             [&](gradstep_error* error) { return gradstep_parameter_config(of->handle, nullptr, 0, &written, error); });
        std::uint64_t const bytes = written + next_.below(2);
        std::string text(written + 1, '#');
        call(next_, bytes > written ? GRADSTEP_OK : GRADSTEP_BAD_SIZE, [&](gradstep_error* error) {
            return gradstep_parameter_config(of->handle, text.data(), bytes, &written, error);
        });
        fuzz::require(bytes > written ? text.back() == 0 && text.find('#') == text.npos
                                      : text == std::string(text.size(), '#'),
                      "a text is written otherwise");
        std::uint64_t const index = next_.below(3);
        gradstep_slot slot = GRADSTEP_SLOT_INIT;
        call(next_, index < (model.of->has_momentum ? 1u : 0u) ? GRADSTEP_OK : GRADSTEP_BAD_VALUE,
             [&](gradstep_error* error) { return gradstep_parameter_slot(of->handle, index, &slot, nullptr, error); });
        for (auto const f : {gradstep_parameter_restore, gradstep_parameter_apply_average})
            call(next_, f == gradstep_parameter_restore ? GRADSTEP_BAD_SEQUENCE : GRADSTEP_BAD_VALUE,
                 [&](gradstep_error* error) { return f(of->handle, error); });
    }

    void save_or_load() {
        held* const of = living();
        if (of == nullptr) return;
        if (!saved_ || next_.below(2) == 0) {
            std::uint64_t bytes = 0, written = 77;
            call(next_, GRADSTEP_OK,
                 [&](gradstep_error* error) { return gradstep_parameter_state_bytes(of->handle, &bytes, error); });
            bool const is_short = next_.below(4) == 3;
            std::string blob(bytes, '#');
            call(next_, is_short ? GRADSTEP_BAD_SIZE : GRADSTEP_OK, [&](gradstep_error* error) {
                return gradstep_parameter_save(of->handle, blob.data(), bytes - is_short, &written, error);
            });
            if (is_short)
                return fuzz::require(written == 77 && blob == std::string(bytes, '#'),
                                     "a state is written that has no room");
            fuzz::require(written == bytes, "a state has another size than it said");
            saved_.emplace(blob, of->model);
            return;
        }
        auto [blob, model] = *saved_;
        bool const is_other_shape = model.has_shape() && of->model.has_shape() &&
                                    (model.rows != of->model.rows || model.width != of->model.width);
        gradstep_status code = model.of->has_momentum != of->model.of->has_momentum     ? GRADSTEP_BAD_VALUE
                               : model.w.size() != of->model.w.size() || is_other_shape ? GRADSTEP_BAD_SIZE
                                                                                        : GRADSTEP_OK;
        void const* from = blob.data();
        if (next_.below(3) == 2) switch (next_.below(3)) {
            case 0:
                from = nullptr, code = GRADSTEP_NULL_ARGUMENT;
                break;
            case 1:
                blob.resize(next_.below(blob.size())), from = blob.data(), code = GRADSTEP_BAD_VALUE;
                break;
            default:
                blob[next_.below(blob.size())] ^= static_cast<char>(1 << next_.below(7)), code = GRADSTEP_BAD_VALUE;
            }
        call(next_, code,
             [&](gradstep_error* error) { return gradstep_parameter_load(of->handle, from, blob.size(), error); });
        if (code != GRADSTEP_OK) return;
        ++taken_;
        model.of = of->model.of; // the numbers of the policies are its own
        model.rows = of->model.rows, model.width = of->model.width;
        of->model = model;
    }

    void seek() {
        held* const of = living();
        if (of == nullptr) return;
        gradstep_clock at = GRADSTEP_CLOCK_INIT;
        at.step = next_.one_of<std::int64_t>({0, 1, 4, last, last - 1, -1});
        at.samples = next_.one_of<std::int64_t>({0, 7, last});
        at.epoch = next_.one_of<std::int64_t>({0, 3});
        gradstep_status code = at.step < 0 ? GRADSTEP_BAD_VALUE : GRADSTEP_OK;
        gradstep_clock const* given = &at;
        if (at.step >= 0 && next_.below(4) == 3) {
            if (next_.below(2) == 0) given = nullptr, code = GRADSTEP_NULL_ARGUMENT;
            else at.struct_size = 7, code = GRADSTEP_BAD_SIZE;
        }
        call(next_, code, [&](gradstep_error* error) { return gradstep_parameter_seek(of->handle, given, error); });
        if (code == GRADSTEP_OK) of->model.step = at.step, of->model.samples = at.samples, of->model.epoch = at.epoch;
    }

    void release() {
        held& of = all_[next_.below(all_.size())];
        gradstep_parameter_release(of.handle); // also of what was released
        of.lives = false;
    }

    // --- the other layer: all memory is here
    void updater_of_the_library() {
        gradstep_updater_release(updater_);
        updater_ = nullptr;
        model_ = {};
        model_.of = &optimizers[next_.below(2)];
        call(next_, GRADSTEP_OK, [&](gradstep_error* error) {
            return gradstep_updater_create(model_.of->config, std::strlen(model_.of->config), GRADSTEP_FLOAT32,
                                           &updater_, error);
        });
        w_ = next_.numbers(next_.below(6) + 1);
        m_.assign(w_.size(), 77.0f);
        void* slots[] = {m_.data()};
        bool const is_missing = model_.of->has_momentum && next_.below(4) == 3;
        call(next_, is_missing ? GRADSTEP_NULL_ARGUMENT : GRADSTEP_OK, [&](gradstep_error* error) {
            return gradstep_updater_initialize(updater_, w_.data(), is_missing ? nullptr : slots, w_.size(), error);
        });
        if (is_missing || !model_.of->has_momentum)
            fuzz::require(same(m_, std::vector<float>(m_.size(), 77.0f)), "a slot is written");
        m_.assign(w_.size(), 0.0f);
        model_.w = w_;
        model_.m = m_;
        rate_.reset();
    }
    void apply() {
        if (updater_ == nullptr) return;
        if (next_.below(2) == 0) {
            with_ = options(next_.below(4) == 3);
            gradstep_status const code = model_.code_of(with_, {});
            call(next_, code,
                 [&](gradstep_error* error) { return gradstep_updater_next_step(updater_, pointer(with_), error); });
            if (code == GRADSTEP_OK) rate_ = model_.begin_step(with_.given), scaled_ = with_;
            return;
        }
        std::vector<float> gradient = next_.numbers(w_.size());
        void* slot = m_.data();
        void* const* slots = &slot;
        void* parameter = w_.data();
        void const* from = gradient.data();
        std::uint64_t const count = w_.size();
        gradstep_status code = rate_ ? GRADSTEP_OK : GRADSTEP_BAD_SEQUENCE;
        if (rate_ && next_.below(3) == 2) switch (next_.below(6)) {
            case 0:
                parameter = nullptr, code = GRADSTEP_NULL_ARGUMENT;
                break;
            case 1:
                from = nullptr, code = GRADSTEP_NULL_ARGUMENT;
                break;
            case 2:
                from = parameter, code = GRADSTEP_BAD_BUFFER;
                break;
            case 3:
                if (model_.of->has_momentum) slot = parameter, code = GRADSTEP_BAD_BUFFER;
                break;
            case 4:
                if (model_.of->has_momentum) slot = nullptr, code = GRADSTEP_NULL_ARGUMENT;
                break;
            default:
                if (model_.of->has_momentum) slots = nullptr, code = GRADSTEP_NULL_ARGUMENT;
            }
        std::vector<float> before = gradient;
        bool const many = next_.below(2) == 1;
        call(next_, code, [&](gradstep_error* error) {
            if (many) return gradstep_updater_apply_many(updater_, &parameter, &from, &slots, &count, 1, error);
            return gradstep_updater_apply(updater_, parameter, from, slots, count, error);
        });
        if (code != GRADSTEP_OK) return fuzz::require(same(gradient, before), "a refused gradient is written");
        ++taken_;
        for (std::size_t i = 0; i < w_.size(); ++i) model_.update_element(i, before[i], *rate_, scaled_.given);
        zero_if_asked(scaled_, gradient, before);
    }

    void compare(held const& of) {
        if (!of.lives) return;
        state const& model = of.model;
        void const* data = nullptr;
        std::uint64_t count = 0, slots = 0;
        fuzz::require(gradstep_parameter_values(of.handle, &data, &count, nullptr) == GRADSTEP_OK,
                      "no values are given");
        fuzz::require(same({static_cast<float const*>(data), count}, model.w), "the values are others");
        fuzz::require(gradstep_parameter_slot_count(of.handle, &slots, nullptr) == GRADSTEP_OK &&
                          slots == (model.of->has_momentum ? 1 : 0),
                      "the number of slots is another");
        if (slots != 0) {
            gradstep_slot slot = GRADSTEP_SLOT_INIT;
            fuzz::require(gradstep_parameter_slot(of.handle, 0, &slot, &data, nullptr) == GRADSTEP_OK,
                          "no slot is given");
            fuzz::require(same({static_cast<float const*>(data), slot.count}, model.m), "the state is another");
        }
        gradstep_clock at = GRADSTEP_CLOCK_INIT;
        fuzz::require(gradstep_parameter_clock(of.handle, &at, nullptr) == GRADSTEP_OK && at.step == model.step &&
                          at.samples == model.samples && at.epoch == model.epoch,
                      "the clock is another");
    }
    void compare_updater() {
        if (updater_ == nullptr) return;
        fuzz::require(same(w_, model_.w) && same(m_, model_.m), "the caller's memory has other values");
        gradstep_clock at = GRADSTEP_CLOCK_INIT;
        fuzz::require(gradstep_updater_clock(updater_, &at, nullptr) == GRADSTEP_OK && at.step == model_.step &&
                          at.samples == model_.samples && at.epoch == model_.epoch,
                      "the clock of the updater is another");
    }

    choices next_;
    std::array<held, 4> all_;
    std::optional<std::pair<std::string, state>> saved_;
    gradstep_updater* updater_ = nullptr;
    state model_;
    std::vector<float> w_, m_;
    std::optional<float> rate_; // of the step that is prepared
    step_options with_, scaled_;
    int taken_ = 0;
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    static fuzz::tally all;
    all.count(run({data, size}).go());
    return 0;
}
