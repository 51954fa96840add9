// Tables on the Thrust backend against tables on the serial one: the same bits, duplicates
// included. table_forms.cpp has every form of catch-up. Compiled for Thrust's OMP and CPP systems,
// and as test/cuda/thrust_table.cu for CUDA.
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include <thrust/tables.hpp>

TEST_CASE("a table on Thrust has the bits of the CPU's: catching up") {
    same_bits<float, std::int32_t>(gs::adagrad{.initial_accumulator = 0.1}, gs::proximal{gs::elastic_net{0.01, 0.1}},
                                   gs::exact{});
}

TEST_CASE("a table on Thrust has the bits of the CPU's: duplicates and padding") {
    using enum gs::duplicates;
    for (auto const duplicates : {sum, mean, unique, assume_unique, last})
        for (bool const padded : {false, true})
            same_bits<float, std::int64_t>(gs::adagrad{}, gs::none{}, gs::touch_only{}, duplicates, padded);
}

namespace {

// A batch whose ids name some rows thousands of times, on both backends; in bags, and with ids that
// are ignored.
template <class Element, class Id, class Rule> void adds_thousands() {
    using storage = typename gs::element_traits<Element>::storage;
    std::vector<Id> ids(5000);
    for (std::size_t i = 0; i < ids.size(); ++i)
        ids[i] = static_cast<Id>(i % 3 == 0 ? 7 : i % 5 == 0 ? 8 : i % 11 == 0 ? 99 : i % 97);
    std::vector<Id> offsets;
    for (std::size_t i = 0; i < ids.size(); i += 1 + i % 3) offsets.push_back(static_cast<Id>(i));
    offsets.push_back(static_cast<Id>(ids.size()));
    for (std::size_t const width : {std::size_t(19), std::size_t(20), std::size_t(70)})
        for (auto const duplicates : {gs::duplicates::sum, gs::duplicates::mean}) {
            CAPTURE(width);
            auto const make = [&](auto const& backend) {
                return gs::table{gs::make_updater<Element>(Rule{}, gs::constant{0.1}, backend),
                                 num_rows,
                                 width,
                                 gs::touch_only{},
                                 {.initial = 0.5, .duplicates = duplicates, .ignore_id = 99}};
            };
            auto serial = make(gs::serial_backend{});
            auto thrust = make(device_backend{});
            for (std::uint32_t t = 0; t < 2; ++t) {
                gs::step_options const options{.gradient_scale = t == 0 ? 1.0 : 0.3};
                auto const g = numbers<storage>(ids.size() * width, t);
                serial.update(ids, g, options);
                thrust.update(on_device(ids), on_device(g), options);
            }
            auto const g = numbers<storage>((offsets.size() - 1) * width, 2);
            serial.update(ids, offsets, g);
            thrust.update(on_device(ids), on_device(offsets), on_device(g));
            std::vector<storage> got(num_rows * width);
            thrust.copy_to(got);
            CHECK(difference<storage>(got, serial.values()) == "");
        }
}

} // namespace

TEST_CASE("a row of a table on Thrust adds thousands of gradients in batch order") {
    adds_thousands<float, std::int64_t, gs::adagrad>();
    adds_thousands<float, std::uint64_t, gs::rowwise_adagrad>();
    adds_thousands<double, std::int32_t, gs::adagrad>();
    adds_thousands<gs::bfloat16, std::int32_t, gs::adagrad>();
}

TEST_CASE("ids on Thrust are grouped alike whether 32 bits suffice for them or not") {
    auto const optimizer = gs::make_updater<float>(gs::sgd{}, gs::constant{0.1}, device_backend{});
    auto const ids = on_device(std::vector<std::int64_t>{7, 3, -1, 7, 99, 3, 7});
    using updater = std::remove_const_t<decltype(optimizer)>;
    gs::detail::table_kernels_of<updater, gs::touch_only> const kernels(optimizer, {});
    using groups = std::tuple<std::vector<std::uint64_t>, std::vector<std::uint32_t>, std::vector<std::uint32_t>>;
    auto const grouped = [&](std::uint64_t rows_of_table) {
        gs::detail::thrust_rows<updater> rows;
        std::span<std::int64_t const> const all(thrust::raw_pointer_cast(ids.data()), ids.size());
        auto const batch = rows.group(kernels, all, {}, nullptr, 0, 1, rows_of_table, {.ignore_id = -1}, 0)[0].batch;
        auto const copied = [](auto const* from, std::size_t n) {
            auto const first = device_backend::iterator(from);
            return std::vector(first, first + static_cast<std::ptrdiff_t>(n));
        };
        auto const begin = copied(batch.begin, batch.count + 1);
        return groups(copied(batch.ids, batch.count), begin, copied(batch.sources, begin.back()));
    };
    CHECK((grouped(100) == groups({3, 7, 99}, {0, 2, 5, 6}, {1, 5, 0, 3, 6, 4})));
    CHECK((grouped(std::uint64_t(1) << 33) == grouped(100)));
}

TEST_CASE("a table on Thrust refuses bad ids by name and stays as it was") {
    auto const optimizer = gs::make_updater<float>(gs::adagrad{}, gs::constant{0.1}, device_backend{});
    gs::table table{
        optimizer, num_rows, test_width, gs::exact{}, {.initial = 0.5, .duplicates = gs::duplicates::unique}};
    auto const refusal = [&](std::vector<std::int64_t> const& ids) -> std::string {
        try {
            table.update(on_device(ids), on_device(std::vector<float>(ids.size() * test_width, 1.0f)));
        } catch (gs::value_error const& e) {
            return e.what();
        }
        return "none";
    };
    CHECK(refusal({1, 2, -5}) == "ids[2]: -5 is out of range; expected [0, 100)");
    CHECK(refusal({1, 100, -5}) == "ids[1]: 100 is out of range; expected [0, 100)");
    CHECK(refusal({7, 2, 7}).substr(0, 41) == "ids[2]: 7 appears before, at position 0; ");
    CHECK(table.clock().step == 0);
    std::vector<float> values(num_rows * test_width);
    table.copy_to(values);
    CHECK(values == std::vector<float>(num_rows * test_width, 0.5f));
    CHECK(refusal({7, 2}) == "none");
    CHECK(table.clock().step == 1);
    CHECK_THROWS_AS((gs::table{optimizer, num_rows, test_width, gs::touch_only{}, {.row_steps = true}}),
                    gs::value_error);
}

// On Thrust's CPU systems, tables are in memory of the host.
TEMPLATE_TEST_CASE("a table on Thrust whose rows lie in segments has the bits of the CPU's", "", gs::thrust_backend<>,
                   device_backend) {
    constexpr std::size_t wide = 64, rows = 60'000; // 16384 rows are a page
    auto const make = [](auto const& backend) {
        auto const optimizer = gs::make_updater<float>(gs::adagrad{.initial_accumulator = 0.1}, gs::decoupled{0.01},
                                                       gs::constant{0.25}, backend);
        gs::table table{optimizer, 20'000, wide, gs::exact{}, {.initial = gs::uniform{-1, 1, 5}, .max_history = 64}};
        table.grow(40'000);
        table.grow(rows);
        return table;
    };
    auto serial = make(gs::serial_backend{});
    auto thrust = make(TestType{});
    CHECK(thrust.segments() > 1);
    std::vector<std::int64_t> const ids{0, 19'999, 32'767, 32'768, 59'999, 0}, again{32'768, 5, 59'999};
    std::vector<float> const g(ids.size() * wide, 0.5f);
    for (int t = 0; t < 3; ++t) {
        serial.update(ids, g);
        thrust.update(on_device(ids), on_device(g));
    }
    serial.reset(again);
    thrust.reset(on_device(again));
    serial.append(g); // values on the host
    thrust.append(g);
    std::vector<float> got(rows * wide + g.size());
    thrust.copy_to(got);
    CHECK(thrust.segments() > 1);
    auto const expected = serial.values();
    CHECK(std::memcmp(got.data(), expected.data(), expected.size_bytes()) == 0);
}
