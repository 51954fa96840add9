// Loads of a part of a file, under other names, with other numbers of rows; and what files say of
// shapes, shards and names.
#include <gradstep/gradstep.hpp>

#include <gradstep/checkpoint.hpp>
#include <gradstep/saved/blob.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/numbers.hpp"
#include "support/refusal.hpp"
#include "support/rewritten_file.hpp"

namespace gs = gradstep;

namespace {

using names = std::vector<std::string>;
auto const adam = gs::make_updater<float>(gs::adam{}, gs::constant{0.125}, gs::serial_backend{});
using adam_type = std::remove_const_t<decltype(adam)>;

// A model of parameters of so many elements, after a step.
gs::model trained(std::vector<std::pair<std::string, std::size_t>> const& all, std::uint32_t seed = 1) {
    gs::model net;
    std::vector<std::vector<float>> gradients;
    std::vector<gs::named_gradient> named;
    for (auto const& [name, size] : all) {
        net.add(name, gs::parameter{adam, numbers<float>(size, seed++)});
        gradients.push_back(numbers<float>(size, seed++));
    }
    for (std::size_t i = 0; i < all.size(); ++i) named.push_back({all[i].first, gradients[i]});
    net.update(named);
    return net;
}
std::vector<float> values(gs::model const& net, std::string const& name) {
    auto const all = net.get<adam_type>(name).values();
    return {all.begin(), all.end()};
}
std::vector<float> slot(gs::model const& net, std::string const& name) {
    auto const all = net.get<adam_type>(name).state<"m">();
    return {all.begin(), all.end()};
}
std::vector<float> first(std::vector<float> of, std::ptrdiff_t n) {
    of.resize(static_cast<std::size_t>(n));
    return of;
}
std::string bytes_of_model(gs::model const& net, folder const& in) {
    net.save(in / "bytes");
    return bytes_of(in / "bytes");
}

} // namespace

TEST_CASE("A load keeps what the file lacks and ignores what is not known, if it is asked to", "[saved][checkpoint]") {
    folder const in;
    gs::model const saved = trained({{"a", 5}, {"b", 6}, {"old", 7}});
    saved.save(in / "file");
    gs::model net = trained({{"b", 6}, {"new", 3}, {"a", 5}}, 50);
    std::string const before = bytes_of_model(net, in);
    using gs::missing_parameters, gs::unexpected_parameters;

    auto const said = [&](gs::load_options const& options) {
        std::string const out = refusal<gs::value_error>([&] { net.load(in / "file", options); });
        CHECK(bytes_of_model(net, in) == before);
        return out;
    };
    CHECK_THAT(said({}), ContainsSubstring("\"new\" is missing"));
    CHECK_THAT(said({.missing = missing_parameters::keep}), ContainsSubstring("\"old\" is not known here"));
    CHECK_THAT(said({.unexpected = unexpected_parameters::ignore}), ContainsSubstring("\"new\" is missing"));
    CHECK_THAT(said({.missing = missing_parameters::keep, .renamed = {{"older", "new"}}}),
               ContainsSubstring("renamed: \"older\" is not in the file"));
    CHECK_THAT(said({.missing = missing_parameters::keep, .renamed = {{"old", "a"}}}),
               ContainsSubstring("\"a\" and \"old\" are both \"a\" here"));
    CHECK_THAT(said({.rename = [](std::string_view) { return std::string("a"); }}),
               ContainsSubstring("are both \"a\""));

    auto const kept = values(net, "new");
    auto const report =
        net.load(in / "file", {.missing = missing_parameters::keep, .unexpected = unexpected_parameters::ignore});
    CHECK(report.loaded == names{"b", "a"});
    CHECK(report.kept == names{"new"});
    CHECK(report.ignored == names{"old"});
    CHECK(report.resized.empty());
    CHECK(values(net, "a") == values(saved, "a"));
    CHECK(slot(net, "b") == slot(saved, "b"));
    CHECK(values(net, "new") == kept);
    CHECK(net.clock("b").step == 1);
}

TEST_CASE("Names of a file are other ones here, by a list and by a function", "[saved][checkpoint]") {
    folder const in;
    gs::model const saved = trained({{"module.a", 5}, {"module.b", 5}, {"c", 5}});
    saved.save(in / "file");
    auto const without_prefix = [](std::string_view name) {
        return std::string(name.starts_with("module.") ? name.substr(7) : name);
    };
    gs::model net = trained({{"a", 5}, {"b", 5}, {"c", 5}}, 50);
    CHECK(net.load(in / "file", {.rename = without_prefix}).loaded == names{"a", "b", "c"});
    CHECK(values(net, "b") == values(saved, "module.b"));
    // Two that change places; the list comes before the function.
    net.load(in / "file", {.renamed = {{"module.a", "b"}, {"module.b", "a"}}, .rename = without_prefix});
    CHECK(values(net, "a") == values(saved, "module.b"));
    CHECK(values(net, "b") == values(saved, "module.a"));
    CHECK(values(net, "c") == values(saved, "c"));

    // A parameter by itself, of a file of several.
    gs::parameter alone{adam, numbers<float>(5, 9)};
    auto const report =
        alone.load(in / "file", {.unexpected = gs::unexpected_parameters::ignore, .renamed = {{"module.b", "values"}}});
    CHECK(report.loaded == names{"values"});
    CHECK(report.ignored == names{"c", "module.a"});
    CHECK(std::ranges::equal(alone.values(), values(saved, "module.b")));
    gs::table table{gs::make_updater<float>(gs::adam{}, gs::constant{0.125}), 5, 1, gs::touch_only{}};
    CHECK_THAT(
        refusal<gs::value_error>([&] {
            table.load(in / "file", {.unexpected = gs::unexpected_parameters::ignore, .renamed = {{"c", "values"}}});
        }),
        ContainsSubstring("\"c\": is a parameter; expected a table"));
}

TEST_CASE("Rows that both have are loaded where their number has changed, if it is asked for", "[saved][checkpoint]") {
    folder const in;
    gs::model saved = trained({{"rows", 12}, {"bias", 4}});
    saved.set_shape("rows", {4, 3});
    saved.save(in / "file");
    for (std::uint64_t const rows : {std::uint64_t{2}, std::uint64_t{6}}) {
        gs::model net = trained({{"rows", rows * 3}, {"bias", 4}}, 50);
        net.set_shape("rows", {rows, 3});
        auto const own = values(net, "rows"), own_m = slot(net, "rows");
        CHECK_THAT(refusal<gs::size_error>([&] { net.load(in / "file"); }),
                   ContainsSubstring("\"rows\": has the shape [4, 3]; expected [" + std::to_string(rows) + ", 3]"));
        auto const report = net.load(in / "file", {.rows = gs::changed_rows::resize});
        CHECK(report.resized == names{"rows"});
        CHECK(report.loaded == names{"bias"});
        auto const both = static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(rows, 4) * 3);
        CHECK(first(values(net, "rows"), both) == first(values(saved, "rows"), both));
        CHECK(first(slot(net, "rows"), both) == first(slot(saved, "rows"), both));
        auto const now = values(net, "rows"), now_m = slot(net, "rows");
        CHECK(std::equal(now.begin() + both, now.end(), own.begin() + both));
        CHECK(std::equal(now_m.begin() + both, now_m.end(), own_m.begin() + both));
    }
    // Rows of another width are none of these.
    gs::model wider = trained({{"rows", 12}, {"bias", 4}}, 50);
    wider.set_shape("rows", {3, 4});
    std::string const before = bytes_of_model(wider, in);
    CHECK_THAT(refusal<gs::size_error>([&] { wider.load(in / "file", {.rows = gs::changed_rows::resize}); }),
               ContainsSubstring("has rows of the shape [3]; expected [4]"));
    // Without a shape here the file's counts.
    gs::model flat = trained({{"rows", 13}, {"bias", 4}}, 50);
    CHECK_THAT(refusal<gs::size_error>([&] { flat.load(in / "file", {.rows = gs::changed_rows::resize}); }),
               ContainsSubstring("has 12 elements; expected whole rows of 3, as the 13 here"));
    CHECK(bytes_of_model(wider, in) == before);
    gs::model without = trained({{"rows", 12}, {"bias", 6}}, 50);
    CHECK(without.load(in / "file", {.rows = gs::changed_rows::resize}).resized == names{"bias"});
    CHECK(first(values(without, "bias"), 4) == values(saved, "bias"));
}

TEST_CASE("The averages of rows that a file lacks stay as they are", "[saved][checkpoint]") {
    folder const in;
    using gs::averaged, gs::sgd, gs::window, gs::ema;
    // The sums of a window count the steps of the clock, which comes from the file.
    auto const optimizer = gs::make_updater<float>(
        averaged{averaged{sgd{}, window{.rate = 0.15, .min = 4, .max = 8}}, ema{}}, gs::constant{1});
    auto const of_window =
        gs::make_updater<float>(averaged{sgd{}, window{.rate = 0.15, .min = 4, .max = 8}}, gs::constant{1});
    gs::load_options const resize{.rows = gs::changed_rows::resize};
    auto const check = [&](auto const& by) {
        gs::parameter saved{by, std::vector<float>{3, 3}};
        for (int t = 0; t < 9; ++t) saved.update(std::vector<float>(2));
        saved.save(in / "alone");
        gs::model net;
        net.add("w", saved);
        net.save(in / "model");
        for (int const steps : {0, 1, 6}) {
            gs::parameter alone{by, std::vector<float>{1, 1, 7}};
            for (int t = 0; t < steps; ++t) alone.update(std::vector<float>(3));
            gs::model of_alone;
            of_alone.add("w", alone);
            alone.load(in / "alone", resize);
            of_alone.load(in / "model", resize);
            for (int t = 0; t < 9; ++t) {
                CHECK(alone.average() == std::vector<float>{3, 3, 7});
                CHECK(of_alone.average("w") == std::vector<float>{3, 3, 7});
                alone.update(std::vector<float>(3));
                of_alone.update({{"w", std::vector<float>(3)}});
            }
        }
        // An average that differs from the weight stays, too.
        gs::parameter moved{by, std::vector<float>{0, 0, 0}};
        moved.update(std::vector<float>{0, 0, -4});
        moved.update(std::vector<float>{0, 0, -4});
        float const before = moved.average()[2];
        moved.load(in / "alone", resize);
        CHECK(moved.average() == std::vector<float>{3, 3, before});
        CHECK(moved.values()[2] == 8);
    };
    check(optimizer);
    check(of_window);
}

TEST_CASE("Files and states carry shapes, which are compared where both know them", "[saved][checkpoint]") {
    folder const in;
    gs::model saved = trained({{"w", 6}});
    saved.save(in / "old"); // without a shape, as files of earlier versions
    saved.set_shape("w", {2, 3});
    saved.save(in / "file");
    gs::safetensors_reader const reader(in / "file");
    CHECK(reader.find("w")->shape == std::vector<std::uint64_t>{2, 3});
    CHECK(reader.find("w/m")->shape == std::vector<std::uint64_t>{2, 3});

    gs::model net = trained({{"w", 6}}, 50);
    net.load(in / "file");
    for (std::vector<std::uint64_t> const& other : {std::vector<std::uint64_t>{3, 2}, {6}, {6, 1}, {1, 6}, {2, 3, 1}}) {
        net.set_shape("w", other);
        CHECK_THAT(refusal<gs::size_error>([&] { net.load(in / "file"); }),
                   ContainsSubstring("\"w\": has the shape [2, 3]; expected ["));
        net.load(in / "old");
    }
    net.set_shape("w", {2, 3});
    net.load(in / "file");
    CHECK_THAT(refusal<gs::size_error>([&] {
                   net.set_shape("w", {2, 2});
               }),
               ContainsSubstring("set_shape: w: [2, 2] is of another size; expected a shape of 6 elements"));
    refusal<gs::size_error>([&] { net.set_shape("w", {UINT64_MAX, UINT64_MAX, 6}); });
    refusal<gs::value_error>([&] { net.set_shape("v", {2, 3}); });

    // What the file says of a tensor is what it has.
    rewrite(in / "file", in / "forged",
            [](auto&, auto& metadata) { replace(metadata["gradstep.parameter.w"], "[2,3]", "[3,2]"); });
    CHECK_THAT(refusal<gs::value_error>([&] { net.load(in / "forged"); }),
               ContainsSubstring("tensor \"w\" has the shape [2, 3]; expected [3, 2]"));
    rewrite(in / "file", in / "forged",
            [](auto&, auto& metadata) { replace(metadata["gradstep.parameter.w"], "[2,3]", "[2,-3]"); });
    CHECK_THAT(refusal<gs::value_error>([&] { net.load(in / "forged"); }), ContainsSubstring("expected whole numbers"));
}

TEST_CASE("A file carries the shard that it is of, and another rank refuses it", "[saved][checkpoint]") {
    folder const in;
    gs::model rank_0 = trained({{"w", 4}}), rank_1 = trained({{"w", 4}}, 50), whole = trained({{"w", 4}}, 60);
    rank_1.save(in / "old");
    rank_0.set_shard("w", {0, 2, 0, 8});
    rank_1.set_shard("w", {1, 2, 4, 8});
    rank_0.save(in / "rank_0");
    std::string const before = bytes_of_model(rank_1, in);
    CHECK_THAT(
        refusal<gs::value_error>([&] { rank_1.load(in / "rank_0"); }),
        ContainsSubstring("\"w\": is shard 0 of 2, from element 0 of 8; expected shard 1 of 2, from element 4 of 8"));
    CHECK(bytes_of_model(rank_1, in) == before);
    CHECK_THAT(refusal<gs::value_error>([&] { whole.load(in / "rank_0"); }),
               ContainsSubstring("expected a whole tensor"));
    gs::model of_three = trained({{"w", 4}});
    of_three.set_shard("w", {0, 3, 0, 8});
    refusal<gs::value_error>([&] { of_three.load(in / "rank_0"); });
    of_three.set_shard("w", {0, 2, 0, 9});
    refusal<gs::value_error>([&] { of_three.load(in / "rank_0"); });
    rank_0.load(in / "rank_0");
    rank_1.load(in / "old");

    refusal<gs::value_error>([&] { whole.set_shard("w", {2, 2, 0, 8}); });
    refusal<gs::value_error>([&] { whole.set_shard("w", {-1, 2, 0, 8}); });
    refusal<gs::size_error>([&] { whole.set_shard("w", {0, 2, 5, 8}); });
    whole.set_shard("w", {0, 1, 0, 4});
    whole.save(in / "all");
    gs::model plain = trained({{"w", 4}}, 70);
    plain.load(in / "all"); // of one rank: the whole
    CHECK(values(plain, "w") == values(whole, "w"));
}

TEST_CASE("A name that no file can hold is refused when it is added", "[saved][checkpoint]") {
    gs::model net;
    auto const add = [&](std::string name) { net.add(std::move(name), gs::parameter{adam, numbers<float>(3, 1)}); };
    auto const said = [&](std::string const& name) {
        std::size_t const before = net.size();
        std::string const out = refusal<gs::value_error>([&] { add(name); });
        CHECK(net.size() == before);
        return out;
    };
    using namespace std::string_literals;
    CHECK_THAT(said(""), ContainsSubstring("the name is empty"));
    CHECK_THAT(said("w\0x"s), ContainsSubstring("has a byte 0"));
    CHECK_THAT(said("w\xff"), ContainsSubstring("is not UTF-8"));
    CHECK_THAT(said("\xed\xa0\x80"), ContainsSubstring("is not UTF-8"));
    CHECK_THAT(said("\xc0\xaf"), ContainsSubstring("is not UTF-8"));
    CHECK_THAT(said("__metadata__"), ContainsSubstring("has another use in safetensors files"));
    add("w");
    CHECK_THAT(said("w/m"), ContainsSubstring("\"w/m\" is used in files by the slot m of \"w\""));
    CHECK_THAT(said("w/v"), ContainsSubstring("the slot v of"));
    add("v/v");
    CHECK_THAT(said("v"), ContainsSubstring("the slot v of \"v\""));
    for (char const* const good : {"w/x", "w/", "/m", "m", "w/w", "__metadata__/x", "\xf0\x9f\x98\x80", "a\"\\\n"})
        add(good);
    // A sgd has no slots to meet.
    net.add("plain", gs::parameter{gs::make_updater<float>(gs::sgd{}, gs::constant{1}), numbers<float>(3, 1)});
    add("plain/m");
    folder const in;
    net.save(in / "file");
    net.load(in / "file");
}

TEST_CASE("The header of a file may be longer than 100 MB", "[saved][checkpoint]") {
    folder const in;
    constexpr std::size_t many = 8'000;
    std::string const long_name(5'000, 'n');
    auto const make = [&](float first) {
        gs::model net;
        auto const sgd =
            gs::make_updater<float>(gs::momentum{}, gs::decoupled{0.01}, gs::constant{0.5}, gs::serial_backend{});
        for (std::size_t i = 0; i < many; ++i) {
            float const value = first + static_cast<float>(i);
            net.add(long_name + std::to_string(i), gs::parameter{sgd, std::span(&value, 1)});
        }
        return net;
    };
    auto const saved = make(1);
    saved.save(in / "file");
    std::string const head = bytes_of(in / "file").substr(0, 8);
    std::uint64_t length = 0;
    for (std::size_t i = 8; i-- != 0;) length = length << 8 | static_cast<unsigned char>(head[i]);
    CHECK(length > 100'000'000);
    auto net = make(0);
    CHECK(net.load(in / "file", {}).loaded.size() == many);
    auto const momentum =
        gs::make_updater<float>(gs::momentum{}, gs::decoupled{0.01}, gs::constant{0.5}, gs::serial_backend{});
    CHECK(net.get<decltype(momentum)>(long_name + "7999").values()[0] == 8'000);
}

TEST_CASE("What follows the JSON of a header or of a description is refused", "[saved][checkpoint]") {
    folder const in;
    gs::model net = trained({{"w", 6}});
    net.save(in / "file");
    std::string const good = bytes_of(in / "file");
    std::uint64_t length = 0;
    for (std::size_t i = 8; i-- != 0;) length = length << 8 | static_cast<unsigned char>(good[i]);
    std::string const header = good.substr(8, length), data = good.substr(8 + length);
    auto const with_end = [&](std::string const& end) {
        std::string const all = header + end;
        std::string out(8, '\0');
        for (std::size_t i = 0; i < 8; ++i) out[i] = static_cast<char>(all.size() >> (8 * i) & 255);
        write_bytes(in / "other", out + all + data);
    };
    using namespace std::string_literals;
    for (std::string const& end : {"\0"s, "\0garbage"s, "  \0"s, "{}"s, "x"s, "\xef\xbb\xbf"s}) {
        with_end(end);
        CHECK_THAT(refusal<gs::value_error>([&] { net.load(in / "other"); }),
                   ContainsSubstring("expected JSON in UTF-8"));
    }
    with_end(" \n\t ");
    net.load(in / "other");
    for (std::string const& end : {"\0"s, "\0{}"s, "1"s}) {
        rewrite(in / "file", in / "other", [&](auto&, auto& metadata) { metadata["gradstep.parameter.w"] += end; });
        CHECK_THAT(refusal<gs::value_error>([&] { net.load(in / "other"); }), ContainsSubstring("is not JSON"));
    }
}
