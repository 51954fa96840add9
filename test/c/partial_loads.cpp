// Files of the C library: partial loads with their report, names, shapes.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "c/handles.hpp"
#include "support/folder.hpp"
#include "support/numbers.hpp"

namespace {

using strings = std::vector<std::string>;

std::string const adam = config_of(R"({"name": "adam"})");

c_parameter trained(std::uint64_t rows, std::uint64_t width, std::uint32_t seed, std::string const& config = adam) {
    c_parameter out = make(config, numbers<float>(rows * width, seed), rows, width);
    update(out, numbers<float>(rows * width, seed + 100));
    return out;
}
void set_shape(gradstep_parameter* of, std::vector<std::uint64_t> const& shape) {
    ok([&](gradstep_error* e) { return gradstep_parameter_set_shape(of, shape.data(), shape.size(), e); });
}

// Parameters with names, as a file has them.
struct named {
    std::vector<gradstep_parameter*> parameters = {};
    std::vector<char const*> names = {};
    std::uint64_t size() const { return names.size(); }
};
void save(named const& all, std::string const& path) {
    ok([&](gradstep_error* e) {
        return gradstep_parameters_save_file(all.parameters.data(), all.names.data(), all.size(), path.c_str(), e);
    });
}
// The texts of a list, each followed by a 0.
strings texts(std::vector<char> const& from) {
    strings out;
    for (auto at = from.begin(); at != from.end();) {
        auto const end = std::find(at, from.end(), '\0');
        out.emplace_back(at, end);
        at = end + 1;
    }
    return out;
}
struct outcome {
    std::vector<std::int32_t> of = {};
    strings ignored = {};
};
outcome load(named const& all, std::string const& path, gradstep_load_options const& options) {
    outcome out{std::vector<std::int32_t>(all.size(), -1)};
    std::vector<char> ignored(1000);
    std::uint64_t written = 0;
    ok([&](gradstep_error* e) {
        return gradstep_parameters_load_file_with(all.parameters.data(), all.names.data(), all.size(), path.c_str(),
                                                  &options, out.of.data(), ignored.data(), ignored.size(), &written, e);
    });
    ignored.resize(written);
    out.ignored = texts(ignored);
    return out;
}
std::string refused_load(gradstep_status code, named const& all, std::string const& path,
                         gradstep_load_options const* options = nullptr) {
    std::vector<std::vector<unsigned char>> before;
    std::vector<std::vector<float>> values_before;
    for (auto* const p : all.parameters) before.push_back(state(p)), values_before.push_back(values<float>(p));
    std::string const out = refused(code, [&](gradstep_error* e) {
        return gradstep_parameters_load_file_with(all.parameters.data(), all.names.data(), all.size(), path.c_str(),
                                                  options, nullptr, nullptr, 0, nullptr, e);
    });
    for (std::size_t k = 0; k < all.size(); ++k) {
        CHECK(state(all.parameters[k]) == before[k]);
        CHECK(values<float>(all.parameters[k]) == values_before[k]);
    }
    return out;
}
constexpr gradstep_load_options defaults = GRADSTEP_LOAD_OPTIONS_INIT;

} // namespace

TEST_CASE("The C library loads a part of a file, under other names, and reports what it did", "[c]") {
    folder const in;
    std::string const file = in / "file";
    c_parameter const a = trained(1, 5, 1), b = trained(4, 3, 2), old = trained(1, 7, 3);
    save({{a, b, old}, {"module.a", "rows", "old"}}, file);

    std::uint64_t bytes = 0;
    refused(GRADSTEP_BAD_SIZE,
            [&](gradstep_error* e) { return gradstep_file_names(file.c_str(), nullptr, 0, &bytes, e); });
    std::vector<char> names(bytes);
    ok([&](gradstep_error* e) { return gradstep_file_names(file.c_str(), names.data(), bytes, &bytes, e); });
    CHECK(texts(names) == strings{"module.a", "old", "rows"});

    c_parameter const to_a = trained(1, 5, 11), to_rows = trained(6, 3, 12), fresh = trained(1, 2, 13);
    named const here{{to_rows, fresh, to_a}, {"rows", "fresh", "a"}};
    char const *const from[] = {"module.a"}, *const to[] = {"a"};
    gradstep_load_options options = defaults;
    options.renamed_count = 1;
    options.renamed_from = from;
    options.renamed_to = to;
    CHECK_THAT(refused_load(GRADSTEP_BAD_VALUE, here, file, &options),
               Catch::Matchers::Contains("\"fresh\" is missing"));
    options.missing = GRADSTEP_MISSING_KEEP;
    CHECK_THAT(refused_load(GRADSTEP_BAD_SIZE, here, file, &options),
               Catch::Matchers::Contains("\"rows\": has the shape [4, 3]; expected [6, 3]"));
    options.rows = GRADSTEP_ROWS_RESIZE;
    CHECK_THAT(refused_load(GRADSTEP_BAD_VALUE, here, file, &options),
               Catch::Matchers::Contains("\"old\" is not known here"));
    options.unexpected = GRADSTEP_UNEXPECTED_IGNORE;

    // A buffer that is too small loads nothing.
    auto const before = values<float>(to_a);
    char small[3];
    std::uint64_t needed = 0;
    refused(GRADSTEP_BAD_SIZE, [&](gradstep_error* e) {
        return gradstep_parameters_load_file_with(here.parameters.data(), here.names.data(), 3, file.c_str(), &options,
                                                  nullptr, small, 3, &needed, e);
    });
    CHECK(needed == 4);
    CHECK(values<float>(to_a) == before);

    auto const kept = values<float>(fresh), own = values<float>(to_rows);
    auto const done = load(here, file, options);
    CHECK(done.of == std::vector<std::int32_t>{GRADSTEP_RESIZED, GRADSTEP_KEPT, GRADSTEP_LOADED});
    CHECK(done.ignored == strings{"old"});
    CHECK(values<float>(to_a) == values<float>(a));
    CHECK(state(to_a) == state(a));
    CHECK(values<float>(fresh) == kept);
    auto expected = values<float>(b);
    expected.insert(expected.end(), own.begin() + 12, own.end());
    CHECK(values<float>(to_rows) == expected);

    for (auto member :
         {&gradstep_load_options::missing, &gradstep_load_options::unexpected, &gradstep_load_options::rows})
        for (std::int32_t const wrong : {-1, 2}) {
            gradstep_load_options bad = options;
            bad.*member = wrong;
            CHECK_THAT(refused_load(GRADSTEP_BAD_VALUE, here, file, &bad),
                       Catch::Matchers::Contains("expected 0 or 1"));
        }
    gradstep_load_options bad = options;
    bad.renamed_to = nullptr;
    refused_load(GRADSTEP_NULL_ARGUMENT, here, file, &bad);
    char const* const none[] = {nullptr};
    bad.renamed_to = none;
    refused_load(GRADSTEP_NULL_ARGUMENT, here, file, &bad);
    char const *const twice[] = {"old", "old"}, *const two[] = {"x", "y"};
    bad.renamed_count = 2;
    bad.renamed_from = twice;
    bad.renamed_to = two;
    CHECK_THAT(refused_load(GRADSTEP_BAD_VALUE, here, file, &bad), Catch::Matchers::Contains("\"old\" is there twice"));
}

TEST_CASE("Shapes that the host sets reach files and states, and are compared", "[c]") {
    folder const in;
    std::string const file = in / "file", flat = in / "flat";
    c_parameter const saved = trained(1, 6, 1), loaded = trained(1, 6, 2);
    save({{saved}, {"w"}}, flat);
    set_shape(saved, {2, 3});
    save({{saved}, {"w"}}, file);
    std::uint64_t bytes = 0;
    ok([&](gradstep_error* e) { return gradstep_parameter_state_bytes(saved, &bytes, e); });
    std::vector<char> blob(bytes);
    ok([&](gradstep_error* e) { return gradstep_parameter_save(saved, blob.data(), bytes, &bytes, e); });
    auto const load_blob = [&](gradstep_parameter* to) {
        return [&, to](gradstep_error* e) { return gradstep_parameter_load(to, blob.data(), bytes, e); };
    };
    load({{loaded}, {"w"}}, file, defaults); // without a shape here
    ok(load_blob(loaded));
    for (std::vector<std::uint64_t> const& other : {std::vector<std::uint64_t>{3, 2}, {6}, {1, 6}}) {
        set_shape(loaded, other);
        CHECK_THAT(refused_load(GRADSTEP_BAD_SIZE, {{loaded}, {"w"}}, file),
                   Catch::Matchers::Contains("\"w\": has the shape [2, 3]; expected ["));
        CHECK_THAT(refused(GRADSTEP_BAD_SIZE, load_blob(loaded)), Catch::Matchers::Contains("has the shape [2, 3]"));
        load({{loaded}, {"w"}}, flat, defaults);
    }
    // Rows x width is a shape without being set.
    c_parameter const same = trained(2, 3, 3), another = trained(3, 2, 4);
    load({{same}, {"w"}}, file, defaults);
    ok(load_blob(same));
    CHECK(values<float>(same) == values<float>(saved));
    refused_load(GRADSTEP_BAD_SIZE, {{another}, {"w"}}, file);
    refused(GRADSTEP_BAD_SIZE, load_blob(another));

    std::uint64_t const wrong[] = {2, 4};
    CHECK_THAT(
        refused(GRADSTEP_BAD_SIZE, [&](gradstep_error* e) { return gradstep_parameter_set_shape(saved, wrong, 2, e); }),
        Catch::Matchers::Contains("[2, 4] is of another size; expected a shape of 6 elements"));
    refused(GRADSTEP_BAD_SIZE, [&](gradstep_error* e) { return gradstep_parameter_set_shape(saved, nullptr, 0, e); });
    std::vector<std::uint64_t> const many(65, 1);
    refused(GRADSTEP_BAD_VALUE,
            [&](gradstep_error* e) { return gradstep_parameter_set_shape(saved, many.data(), 65, e); });
    c_parameter const scalar = trained(1, 1, 5), again = trained(1, 1, 6);
    set_shape(scalar, {});
    save({{scalar}, {"s"}}, file);
    set_shape(again, {});
    load({{again}, {"s"}}, file, defaults);
    set_shape(again, {1});
    refused_load(GRADSTEP_BAD_SIZE, {{again}, {"s"}}, file);
}

TEST_CASE("Names that no file can hold are refused before one is written", "[c]") {
    folder const in;
    c_parameter const one = trained(1, 3, 1), other = trained(1, 3, 2);
    gradstep_parameter* const both[] = {one, other};
    auto const said = [&](char const* first, char const* second) {
        char const* const names[] = {first, second};
        std::string const out = refused(
            GRADSTEP_BAD_VALUE, [&](gradstep_error* e) { return gradstep_parameters_check_names(both, names, 2, e); });
        CHECK(out == refused(GRADSTEP_BAD_VALUE, [&](gradstep_error* e) {
                  return gradstep_parameters_save_file(both, names, 2, (in / "file").c_str(), e);
              }));
        return out;
    };
    CHECK_THAT(said("w", "w"), Catch::Matchers::Contains("\"w\" is there twice"));
    CHECK_THAT(said("w", "w/m"), Catch::Matchers::Contains("the slot m of \"w\""));
    CHECK_THAT(said("w/v", "w"), Catch::Matchers::Contains("the slot v of \"w\""));
    CHECK_THAT(said("w", ""), Catch::Matchers::Contains("is empty"));
    CHECK_THAT(said("w", "\xff"), Catch::Matchers::Contains("is not UTF-8"));
    CHECK_THAT(said("__metadata__", "w"), Catch::Matchers::Contains("another use"));
    CHECK(in.names().empty());
    char const* const good[] = {"w", "w/x"};
    ok([&](gradstep_error* e) { return gradstep_parameters_check_names(both, good, 2, e); });
}

TEST_CASE("Rows that catch up are loaded into a table of more rows, and go on with the same bits", "[c]") {
    folder const in;
    std::string const file = in / "file",
                      config = config_of(R"({"name": "sgd"})",
                                         R"("regularizer": {"name": "l2", "rate": 0.125}, "catch_up": "exact")");
    constexpr std::uint64_t width = 3;
    auto const step = [&](gradstep_parameter* of, std::vector<std::int32_t> const& ids, std::uint32_t seed) {
        auto const g = numbers<float>(ids.size() * width, seed);
        ok([&](gradstep_error* e) {
            return gradstep_parameter_update_rows(of, ids.data(), GRADSTEP_INT32, ids.size(), g.data(), g.size(),
                                                  nullptr, e);
        });
    };
    c_parameter const saved = make(config, numbers<float>(4 * width, 1), 4, width),
                      grown = make(config, numbers<float>(7 * width, 2), 7, width);
    for (std::uint32_t k = 0; k < 10; ++k) step(saved, {static_cast<std::int32_t>(k % 3)}, k);
    save({{saved}, {"w"}}, file);
    gradstep_load_options options = defaults;
    refused_load(GRADSTEP_BAD_SIZE, {{grown}, {"w"}}, file);
    std::uint64_t const flat[] = {4 * width};
    refused(GRADSTEP_BAD_SIZE, [&](gradstep_error* e) { return gradstep_parameter_set_shape(saved, flat, 1, e); });
    set_shape(saved, {4, width});
    options.rows = GRADSTEP_ROWS_RESIZE;
    auto const own = values<float>(grown);
    CHECK(load({{grown}, {"w"}}, file, options).of == std::vector<std::int32_t>{GRADSTEP_RESIZED});
    for (std::uint32_t k = 0; k < 5; ++k) step(saved, {1}, k), step(grown, {1}, k);
    auto const now = values<float>(grown), expected = values<float>(saved);
    CHECK(std::equal(expected.begin(), expected.end(), now.begin()));
    // The rows that it has besides miss no step before, and decay by the five after.
    for (std::size_t i = 4 * width; i < 7 * width; ++i) {
        float const decay = 1 - 0.0625f * 0.125f;
        CHECK(now[i] == Approx(own[i] * decay * decay * decay * decay * decay).epsilon(1e-5));
    }
    // A table of fewer rows has no room for the history of all.
    c_parameter const cut = make(config, numbers<float>(2 * width, 2), 2, width);
    CHECK_THAT(refused_load(GRADSTEP_BAD_SIZE, {{cut}, {"w"}}, file, &options),
               Catch::Matchers::Contains("has 4 rows; expected at most 2"));
}
