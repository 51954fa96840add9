// Points that are added and removed while they train: a sum of bells is fitted to a curve. Flat
// bells are removed, and new ones are added where the error is largest, as in Gaussian splatting.
// Three runs show what the state is worth: it follows its points; it begins anew at each change, as
// with a new optimizer; it begins anew and the clock goes on, so that the bias corrections of Adam
// do not fit it.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <span>
#include <vector>

#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

namespace {

constexpr std::size_t samples = 400;

float target(float x) { return std::sin(6 * x) + 0.5f * std::sin(31 * x * x) + (x > 0.6f ? 0.7f : 0.0f); }

// The sum of height * exp(-((x - center) / width)^2). A point has three numbers: center, log of the
// width, height.
struct fit {
    std::vector<float> gradient, error;
    float loss = 0;

    explicit fit(std::span<float const> points) : gradient(points.size()), error(samples) {
        std::vector<float> bell(points.size() / 3), z(bell.size());
        for (std::size_t s = 0; s < samples; ++s) {
            float const x = static_cast<float>(s) / samples;
            error[s] = -target(x);
            for (std::size_t p = 0; p < bell.size(); ++p) {
                z[p] = (x - points[3 * p]) * std::exp(-points[3 * p + 1]);
                bell[p] = std::exp(-z[p] * z[p]);
                error[s] += points[3 * p + 2] * bell[p];
            }
            loss += error[s] * error[s] / samples;
            for (std::size_t p = 0; p < bell.size(); ++p) {
                float const by_height = 2 * error[s] / samples * bell[p],
                            by_z = by_height * points[3 * p + 2] * 2 * z[p];
                gradient[3 * p] += by_z * std::exp(-points[3 * p + 1]);
                gradient[3 * p + 1] += by_z * z[p];
                gradient[3 * p + 2] += by_height;
            }
        }
    }
};

// Which points stay, and new ones where the error is largest.
struct change {
    std::vector<bool> keep;
    std::vector<float> added;

    change(std::span<float const> points, std::vector<float> error) {
        for (std::size_t p = 0; p < points.size(); p += 3) keep.push_back(std::abs(points[p + 2]) > 0.05f);
        for (int k = 0; k < 3; ++k) {
            auto const worst = std::max_element(error.begin(), error.end(),
                                                [](float a, float b) { return std::abs(a) < std::abs(b); });
            auto const s = static_cast<std::size_t>(worst - error.begin());
            added.insert(added.end(), {static_cast<float>(s) / samples, -4.0f, -0.3f * *worst});
            for (std::size_t i = s - std::min<std::size_t>(s, 12); i < std::min(s + 12, samples); ++i) error[i] = 0;
        }
    }
};

std::vector<float> initial_points() {
    std::vector<float> out;
    for (int i = 0; i < 8; ++i) out.insert(out.end(), {static_cast<float>(i) / 8, -3.0f, 0.1f});
    return out;
}
constexpr int steps = 600, between_changes = 25, last_change = 500;
bool changes(int t) { return t % between_changes == 0 && t <= last_change; }

auto const adam = gs::make_updater<float>(gs::adam{}, gs::constant{0.01});

// The mean loss of a run, which shows how well the steps after each change go, and the last loss.
struct result {
    float mean = 0, last = 0;
    std::size_t points = 0;
};

result train() {
    result out;
    // [parameter]
    gs::parameter points{adam, initial_points(), {.shape = {8, 3}}}; // 8 rows of 3 numbers
    // [parameter]
    for (int t = 1; t <= steps; ++t) {
        fit const now(points.values());
        out.mean += now.loss / steps;
        out.last = now.loss;
        points.update(now.gradient);
        if (!changes(t)) continue;
        change const next(points.values(), now.error);
        // [change]
        points.keep(next.keep);    // removes points; the state of the others moves with them
        points.append(next.added); // new points, whose state begins at zero
        // [change]
    }
    out.points = points.rows();
    return out;
}

// The same by hand, with what many programs do to the state.
enum class mistake { new_optimizer, zeroed_state };
result train_with(mistake how) {
    result out;
    auto optimizer = adam;
    std::vector<float> w = initial_points(), m(w.size()), v(w.size());
    for (int t = 1; t <= steps; ++t) {
        fit const now(w);
        out.mean += now.loss / steps;
        out.last = now.loss;
        optimizer.next_step()(w, now.gradient, m, v);
        if (!changes(t)) continue;
        change const next(w, now.error);
        std::vector<float> kept;
        for (std::size_t p = 0; p < next.keep.size(); ++p)
            if (next.keep[p])
                kept.insert(kept.end(), w.begin() + 3 * static_cast<std::ptrdiff_t>(p),
                            w.begin() + 3 * static_cast<std::ptrdiff_t>(p) + 3);
        w = kept;
        w.insert(w.end(), next.added.begin(), next.added.end());
        m.assign(w.size(), 0.0f);
        v.assign(w.size(), 0.0f);
        if (how == mistake::new_optimizer) optimizer.seek({});
    }
    out.points = w.size() / 3;
    return out;
}

void print(char const* what, result const& x) {
    std::printf("%-32s mean loss %.4f, last loss %.5f, %zu points\n", what, static_cast<double>(x.mean),
                static_cast<double>(x.last), x.points);
}

} // namespace

int main() {
    result const follows = train(), anew = train_with(mistake::new_optimizer),
                 zeroed = train_with(mistake::zeroed_state);
    print("the state follows", follows);
    print("a new optimizer at each change", anew);
    print("zeroed state, the clock goes on", zeroed);
    return follows.mean < anew.mean && follows.mean < zeroed.mean ? 0 : 1;
}
