// Sequences of calls on tables of 64-bit keys, good and bad, beside a map: what is refused has its
// code and a sentence and has changed nothing, what is taken leaves the map's rows, and a replica
// that gets the changes has them too.
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "calls.hpp"

namespace {

constexpr std::size_t width = 2;

struct row {
    std::vector<float> w = std::vector<float>(width), m = w;
    std::int64_t step = 0; // the last one that contained it
};
struct content {
    std::map<std::uint64_t, row> rows = {};
    std::int64_t step = 0;
};

class run {
public:
    explicit run(std::span<std::uint8_t const> bytes) : next_(bytes) {}
    run(run const&) = delete;
    run& operator=(run const&) = delete;
    ~run() {
        gradstep_table_release(table_);
        gradstep_table_release(replica_);
    }
    bool go() {
        has_momentum_ = next_.below(2) == 1;
        is_unique_ = next_.below(4) == 3;
        config_ = std::string(R"({"rule": {"name": ")") + (has_momentum_ ? R"(momentum", "mu": 0.5)" : R"(sgd")") +
                  R"(}, "schedule": {"name": "constant", "rate": 0.125}, "keyed_table": {"width": 2, "duplicates": ")" +
                  (is_unique_ ? "unique" : "sum") + R"(", "concurrent": )" + (next_.below(2) == 1 ? "true" : "false") +
                  "}}";
        create(table_);
        create(replica_);
        for (int k = 0; k < 64 && !next_.is_empty(); ++k) {
            one_call();
            compare(table_, all_);
        }
        return taken_ > 3;
    }

private:
    void create(gradstep_table*& out) {
        gradstep_table_release(out);
        out = nullptr;
        call(next_, GRADSTEP_OK,
             [&](gradstep_error* e) { return gradstep_table_create(config_.data(), config_.size(), &out, e); });
    }
    void one_call() {
        switch (next_.below(11)) {
        case 0:
        case 1:
        case 2:
            return update();
        case 3:
            return bags();
        case 4:
            return evict();
        case 5:
            return hold();
        case 6:
            return save_or_load();
        case 7:
            return send();
        case 8:
            return seek();
        case 9:
            return send_in_int8();
        default:
            return read();
        }
    }
    std::vector<std::uint64_t> keys(std::size_t count) {
        std::vector<std::uint64_t> out;
        for (std::size_t k = 0; k < count; ++k)
            out.push_back(next_.one_of<std::uint64_t>({0, 1, 2, 3, 1u << 20, UINT64_MAX}));
        return out;
    }
    bool has_twice(std::vector<std::uint64_t> const& names) {
        return std::set(names.begin(), names.end()).size() != names.size();
    }
    // One gradient for each key.
    void step(std::vector<std::uint64_t> const& names, std::vector<float> const& gradients) {
        ++taken_;
        ++all_.step;
        std::set<std::uint64_t> done;
        for (std::size_t k = 0; k < names.size(); ++k) {
            if (!done.insert(names[k]).second) continue;
            row& of = all_.rows[names[k]];
            of.step = all_.step;
            for (std::size_t i = 0; i < width; ++i) {
                float g = gradients[k * width + i];
                for (std::size_t later = k + 1; later < names.size(); ++later)
                    if (names[later] == names[k]) g += gradients[later * width + i];
                if (has_momentum_) g = of.m[i] = std::fma(0.5f, of.m[i], g);
                of.w[i] = std::fma(-0.125f, g, of.w[i]);
            }
        }
    }
    void update() {
        auto const names = keys(next_.below(6));
        auto gradient = next_.numbers(names.size() * width + 1);
        gradient.resize(names.size() * width);
        gradstep_table* handle = table_;
        std::uint64_t count = gradient.size();
        std::int32_t dtype = next_.one_of<std::int32_t>({GRADSTEP_UINT64, GRADSTEP_INT64});
        bool has_keys = true, has_gradient = true;
        gradstep_status code = is_unique_ && has_twice(names) ? GRADSTEP_BAD_VALUE : GRADSTEP_OK;
        if (code == GRADSTEP_OK && next_.below(3) == 2) switch (next_.below(5)) {
            case 0:
                if (count != 0) has_keys = false, code = GRADSTEP_NULL_ARGUMENT;
                break;
            case 1:
                if (count != 0) has_gradient = false, code = GRADSTEP_NULL_ARGUMENT;
                break;
            case 2:
                ++count, code = GRADSTEP_BAD_SIZE;
                break;
            case 3:
                dtype = next_.one_of<std::int32_t>({-1, 8}), code = GRADSTEP_UNSUPPORTED_TYPE;
                break;
            default:
                handle = reinterpret_cast<gradstep_table*>(&gradient), code = GRADSTEP_BAD_HANDLE;
            }
        call(next_, code, [&](gradstep_error* e) {
            return gradstep_table_update(handle, has_keys ? names.data() : nullptr, dtype, names.size(),
                                         has_gradient ? gradient.data() : nullptr, count, nullptr, e);
        });
        if (code == GRADSTEP_OK) step(names, gradient);
    }
    void bags() {
        auto const names = keys(next_.below(6));
        std::vector<std::uint64_t> offsets{0};
        while (offsets.size() < 3) offsets.push_back(offsets.back() + next_.below(names.size() + 1 - offsets.back()));
        auto const of_bags = next_.numbers(offsets.size() * width);
        bool const falls = offsets[1] > 0 && next_.below(4) == 3;
        gradstep_status const code = falls                            ? GRADSTEP_BAD_VALUE
                                     : is_unique_ && has_twice(names) ? GRADSTEP_BAD_VALUE
                                                                      : GRADSTEP_OK;
        auto given = offsets;
        if (falls) given[0] = given[1] + 1;
        auto const weights = next_.numbers(names.size() + 1);
        gradstep_bag_options how = GRADSTEP_BAG_OPTIONS_INIT;
        bool const has_weights = next_.below(2) == 1, pooled = next_.below(2) == 1;
        if (has_weights) how.weights = weights.data();
        if (pooled) { // reads the bags
            std::vector<float> out(offsets.size() * width, 77);
            call(next_, falls ? GRADSTEP_BAD_VALUE : GRADSTEP_OK, [&](gradstep_error* e) {
                return gradstep_table_bags(table_, names.data(), GRADSTEP_UINT64, names.size(), given.data(),
                                           given.size(), &how, out.data(), out.size(), e);
            });
            if (falls) return fuzz::require(out == std::vector<float>(out.size(), 77), "bags are written that fall");
            std::vector<float> expected(out.size());
            std::set<std::size_t> begun;
            for (std::size_t k = 0; k < names.size(); ++k) {
                bool const begins = begun.insert(bag_of(offsets, k)).second;
                auto const found = all_.rows.find(names[k]);
                for (std::size_t i = 0; i < width; ++i) {
                    float const x = found == all_.rows.end() ? 0 : found->second.w[i];
                    float const term = has_weights ? weights[k] * x : x;
                    float& to = expected[bag_of(offsets, k) * width + i];
                    to = begins ? term : to + term;
                }
            }
            return fuzz::require(same(out, expected), "bags are read otherwise");
        }
        call(next_, code, [&](gradstep_error* e) {
            return gradstep_table_update_bags(table_, names.data(), GRADSTEP_UINT64, names.size(), given.data(),
                                              given.size(), of_bags.data(), of_bags.size(), &how, nullptr, e);
        });
        if (code != GRADSTEP_OK) return;
        std::vector<float> gradient;
        for (std::size_t k = 0; k < names.size(); ++k)
            for (std::size_t i = 0; i < width; ++i)
                gradient.push_back((has_weights ? weights[k] : 1) * of_bags[bag_of(offsets, k) * width + i]);
        step(names, gradient);
    }
    static std::size_t bag_of(std::vector<std::uint64_t> const& offsets, std::size_t k) {
        std::size_t b = 0;
        while (b + 1 < offsets.size() && offsets[b + 1] <= k) ++b;
        return b;
    }
    void evict() {
        std::uint64_t evicted = 77, expected = 0;
        auto const drop = [&](auto const& chosen) {
            expected =
                std::erase_if(all_.rows, [&](auto const& of) { return held_.count(of.first) == 0 && chosen(of); });
        };
        switch (next_.below(4)) {
        case 0: {
            std::int64_t const before = static_cast<std::int64_t>(next_.below(8));
            drop([&](auto const& of) { return of.second.step < before; });
            call(next_, GRADSTEP_OK,
                 [&](gradstep_error* e) { return gradstep_table_evict_older_than(table_, before, &evicted, e); });
            break;
        }
        case 1:
            drop([](auto const& of) { return of.first % 2 == 0; });
            call(next_, GRADSTEP_OK, [&](gradstep_error* e) {
                return gradstep_table_evict(
                    table_, [](void*, gradstep_row const* of) -> std::int32_t { return of->key % 2 == 0; }, nullptr,
                    &evicted, e);
            });
            break;
        case 2: {
            std::uint64_t const most = next_.below(4);
            for (auto of = all_.rows.begin(); of != all_.rows.end();) // the lowest keys first
                if (all_.rows.size() > most && held_.count(of->first) == 0) of = all_.rows.erase(of), ++expected;
                else ++of;
            call(next_, GRADSTEP_OK, [&](gradstep_error* e) {
                return gradstep_table_evict_to(
                    table_, most, [](void*, gradstep_row const* of) { return static_cast<double>(of->key); }, nullptr,
                    &evicted, e);
            });
            break;
        }
        default:
            expected = 77;
            if (all_.rows.empty()) return;
            call(next_, GRADSTEP_BAD_VALUE, [&](gradstep_error* e) {
                return gradstep_table_evict(
                    table_, [](void*, gradstep_row const*) -> std::int32_t { return -1; }, nullptr, &evicted, e);
            });
        }
        fuzz::require(evicted == expected, "another number of rows is evicted");
    }
    void hold() {
        auto const names = keys(1 + next_.below(2));
        bool const ends = next_.below(2) == 1;
        auto after = held_;
        gradstep_status code = GRADSTEP_OK;
        for (std::uint64_t const name : names) {
            if (!ends) after.insert(name);
            else if (auto const found = after.find(name); found != after.end()) after.erase(found);
            else code = GRADSTEP_BAD_VALUE;
        }
        call(next_, code, [&](gradstep_error* e) {
            return (ends ? gradstep_table_unhold : gradstep_table_hold)(table_, names.data(), GRADSTEP_UINT64,
                                                                        names.size(), e);
        });
        if (code == GRADSTEP_OK) held_ = after;
    }
    void save_or_load() {
        if (!saved_ || next_.below(2) == 0) {
            std::uint64_t bytes = 0, written = 77;
            call(next_, GRADSTEP_OK, [&](gradstep_error* e) { return gradstep_table_state_bytes(table_, &bytes, e); });
            std::string blob(bytes, '#');
            bool const is_short = next_.below(4) == 3;
            call(next_, is_short ? GRADSTEP_BAD_SIZE : GRADSTEP_OK, [&](gradstep_error* e) {
                return gradstep_table_save(table_, blob.data(), bytes - is_short, &written, e);
            });
            if (!is_short) saved_.emplace(blob, all_);
            return fuzz::require(written == (is_short ? 77 : bytes), "a state has another size than it said");
        }
        auto [blob, then] = *saved_;
        gradstep_status code = GRADSTEP_OK;
        if (next_.below(3) == 2) {
            code = GRADSTEP_BAD_VALUE;
            if (next_.below(2) == 0) blob.resize(next_.below(blob.size()));
            else blob[next_.below(blob.size())] ^= static_cast<char>(1 << next_.below(7));
        }
        call(next_, code, [&](gradstep_error* e) { return gradstep_table_load(table_, blob.data(), blob.size(), e); });
        if (code != GRADSTEP_OK) return;
        ++taken_;
        all_ = then;
        create(replica_); // it follows no table that goes back
    }
    // The changes of the table since the replica's step, whole or damaged.
    void send() {
        gradstep_clock at = GRADSTEP_CLOCK_INIT;
        gradstep_bytes* changes = nullptr;
        void const* data = nullptr;
        std::uint64_t size = 0;
        call(next_, GRADSTEP_OK, [&](gradstep_error* e) { return gradstep_table_clock(replica_, &at, e); });
        if (gradstep_table_changed_since(table_, at.step, 1, &changes, nullptr) != GRADSTEP_OK) { // it has forgotten
            create(replica_);
            call(next_, GRADSTEP_OK,
                 [&](gradstep_error* e) { return gradstep_table_changed_since(table_, 0, 1, &changes, e); });
        }
        fuzz::require(gradstep_bytes_view(changes, &data, &size, nullptr) == GRADSTEP_OK, "no bytes are given");
        std::string bytes(static_cast<char const*>(data), size);
        gradstep_bytes_release(changes);
        gradstep_status code = GRADSTEP_OK;
        if (next_.below(4) == 3)
            bytes[next_.below(bytes.size())] ^= static_cast<char>(1 << next_.below(7)), code = GRADSTEP_BAD_VALUE;
        call(next_, code,
             [&](gradstep_error* e) { return gradstep_table_apply_changes(replica_, bytes.data(), bytes.size(), e); });
        if (code == GRADSTEP_OK) compare(replica_, all_);
    }
    void seek() {
        gradstep_clock at = GRADSTEP_CLOCK_INIT;
        std::int64_t const ahead = next_.one_of<std::int64_t>({0, 1, 5, -1, INT64_MIN / 2});
        at.step = all_.step + ahead;
        call(next_, ahead < 0 ? GRADSTEP_BAD_VALUE : GRADSTEP_OK,
             [&](gradstep_error* e) { return gradstep_table_seek(table_, &at, e); });
        if (ahead > 0) all_.step = at.step;
    }
    // A table that gets all rows in 8 bits has the rows that the codes stand for.
    void send_in_int8() {
        std::vector<std::uint64_t> names;
        for (auto const& one : all_.rows) names.push_back(one.first);
        std::string coded(names.size() * (width + 8), '#');
        bool const is_short = !names.empty() && next_.below(4) == 3;
        call(next_, is_short ? GRADSTEP_BAD_SIZE : GRADSTEP_OK, [&](gradstep_error* e) {
            return gradstep_table_int8_rows(table_, names.data(), GRADSTEP_UINT64, names.size(), coded.data(),
                                            coded.size() - is_short, e);
        });
        if (is_short) return;
        gradstep_table* reader = nullptr;
        create(reader);
        gradstep_bytes* changes = nullptr;
        void const* data = nullptr;
        std::uint64_t size = 0, rows = 0;
        call(next_, GRADSTEP_OK, [&](gradstep_error* e) {
            return gradstep_table_changed_since(table_, 0, GRADSTEP_CHANGES_INT8, &changes, e);
        });
        fuzz::require(gradstep_bytes_view(changes, &data, &size, nullptr) == GRADSTEP_OK, "no bytes are given");
        call(next_, GRADSTEP_OK,
             [&](gradstep_error* e) { return gradstep_table_apply_changes(reader, data, size, e); });
        gradstep_bytes_release(changes);
        std::uint64_t found[8] = {};
        fuzz::require(gradstep_table_keys(reader, 0, found, 8, &rows, nullptr) == GRADSTEP_OK && rows == names.size(),
                      "the number of rows in 8 bits is another");
        for (std::size_t k = 0; k < names.size(); ++k) {
            float w[width] = {}, ends[2], decoded[width];
            auto const* const row = coded.data() + k * (width + 8);
            std::memcpy(ends, row + width, sizeof ends);
            for (std::size_t i = 0; i < width; ++i) {
                float const product = static_cast<float>(static_cast<unsigned char>(row[i])) * ends[0];
                decoded[i] = product + ends[1];
            }
            fuzz::require(gradstep_table_rows(reader, &names[k], GRADSTEP_UINT64, 1, w, width, nullptr) ==
                                  GRADSTEP_OK &&
                              same(w, decoded),
                          "a row in 8 bits is another");
        }
        gradstep_table_release(reader);
    }
    void read() {
        auto const names = keys(next_.below(4));
        std::vector<float> out(names.size() * width + 1, 77), expected = out;
        bool const is_short = next_.below(4) == 3;
        call(next_, is_short ? GRADSTEP_BAD_SIZE : GRADSTEP_OK, [&](gradstep_error* e) {
            return gradstep_table_rows(table_, names.data(), GRADSTEP_UINT64, names.size(), out.data(),
                                       names.size() * width + is_short, e);
        });
        for (std::size_t k = 0; !is_short && k < names.size(); ++k) {
            auto const found = all_.rows.find(names[k]);
            for (std::size_t i = 0; i < width; ++i)
                expected[k * width + i] = found == all_.rows.end() ? 0 : found->second.w[i];
        }
        fuzz::require(same(out, expected), "rows are read otherwise");
    }

    void compare(gradstep_table* table, content const& with) {
        std::uint64_t found[8] = {}, count = 0;
        fuzz::require(gradstep_table_keys(table, 0, found, 8, &count, nullptr) == GRADSTEP_OK &&
                          count == with.rows.size(),
                      "the number of rows is another");
        for (std::uint64_t k = 0; k < count; ++k) {
            float w[width] = {};
            auto const of = with.rows.find(found[k]);
            fuzz::require(of != with.rows.end(), "a key has a row that it must not have");
            fuzz::require(gradstep_table_rows(table, &found[k], GRADSTEP_UINT64, 1, w, width, nullptr) == GRADSTEP_OK &&
                              same(w, of->second.w),
                          "a row is another");
        }
        gradstep_clock at = GRADSTEP_CLOCK_INIT;
        fuzz::require(gradstep_table_clock(table, &at, nullptr) == GRADSTEP_OK && at.step == with.step,
                      "the clock is another");
    }

    choices next_;
    bool has_momentum_ = false, is_unique_ = false;
    std::string config_;
    gradstep_table *table_ = nullptr, *replica_ = nullptr;
    content all_;
    std::multiset<std::uint64_t> held_;
    std::optional<std::pair<std::string, content>> saved_;
    int taken_ = 0;
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    static fuzz::tally all;
    all.count(run({data, size}).go());
    return 0;
}
