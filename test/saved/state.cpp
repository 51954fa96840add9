// States as bytes: what is written is read, and bytes that are not those are refused.
#include <gradstep/bytes/detail/framed_bytes.hpp>
#include <gradstep/gradstep.hpp>

#include <gradstep/checkpoint.hpp>
#include <gradstep/saved/blob.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/numbers.hpp"
#include "support/refusal.hpp"
#include "support/rewritten_file.hpp"

namespace gs = gradstep;

namespace {

template <class X> std::vector<std::byte> bytes_of(X const& x) {
    std::vector<std::byte> out(gs::state_bytes(x));
    gs::save_state(x, out);
    return out;
}
void sign(std::vector<std::byte>& blob) {
    std::uint32_t const sum = gs::detail::framed_checksum(blob);
    std::memcpy(blob.data() + 12, &sum, sizeof sum);
}

auto const adam = gs::make_updater<float>(gs::adam{}, gs::l2{0.5}, gs::constant{0.125}, gs::serial_backend{});
auto const adagrad = gs::make_updater<float>(
    gs::adagrad{}, gs::decoupled{0.125}, gs::exponential{.rate = 0.5, .decay = 0.5, .steps = 9}, gs::serial_backend{});
gs::table<std::remove_const_t<decltype(adagrad)>, gs::exact> rows(std::int64_t count) {
    return {adagrad, count, 3, gs::exact{}, {.initial = gs::normal{0, 1, 5}, .max_history = 8}};
}
template <class Table> void train(Table& table, int steps) {
    for (int k = 0; k < steps; ++k) {
        auto const t = table.clock().step;
        std::vector<std::int64_t> const ids{t % 3, 3 + t * 7 % 5};
        table.update(ids, numbers<float>(6, static_cast<std::uint32_t>(t)));
    }
}

} // namespace

TEST_CASE("A state that is saved as bytes goes on with the same bits", "[saved][state]") {
    gs::parameter trained{adam, numbers<float>(5, 1)}, resumed{adam, numbers<float>(5, 9)};
    trained.update(numbers<float>(5, 2), {.samples = 3});
    gs::load_state(resumed, bytes_of(trained));
    CHECK(bytes_of(resumed) == bytes_of(trained));
    trained.update(numbers<float>(5, 3));
    resumed.update(numbers<float>(5, 3));
    CHECK(bytes_of(resumed) == bytes_of(trained));

    auto table = rows(9), other = rows(8);
    train(table, 21);
    train(other, 2);
    gs::load_state(other, bytes_of(table));
    CHECK(other.num_rows() == 9);
    CHECK(bytes_of(other) == bytes_of(table));
    train(table, 15);
    train(other, 15);
    CHECK(bytes_of(other) == bytes_of(table));
}

TEST_CASE("An average in memory of its own is saved and goes on with the same bits, in files and as bytes",
          "[saved][state]") {
    auto const weights = [](std::uint32_t step) { return numbers<float>(70, 10 + step); };
    gs::window const share{.rate = 0.5, .min = 2, .max = 5};
    gs::averager trained{share, weights(0)}, by_bytes{share, weights(0)}, by_file{share, weights(7)};
    for (std::uint32_t step = 1; step < 12; ++step) trained.add(weights(step));
    gs::load_state(by_bytes, bytes_of(trained));
    folder const in;
    trained.save(in / "average");
    by_file.load(in / "average");
    gs::safetensors_reader const file(in / "average");
    CHECK(file.find("values/sum_1")->shape == std::vector<std::uint64_t>{70});
    CHECK(file.find("values") == nullptr); // which are another's
    CHECK_THAT(file.metadata().at("gradstep.parameter.values"),
               ContainsSubstring(R"("policies":"{\"average\":{\"name\":\"window\",\"rate\":0.5,)"));
    for (auto* const resumed : {&by_bytes, &by_file}) {
        CHECK(resumed->clock() == gs::clock{11, 0, 0});
        CHECK(same_bits(resumed->average(), trained.average()));
    }
    for (std::uint32_t step = 12; step < 30; ++step) {
        trained.add(weights(step));
        by_bytes.add(weights(step));
        by_file.add(weights(step));
    }
    CHECK(bytes_of(by_bytes) == bytes_of(trained));
    CHECK(bytes_of(by_file) == bytes_of(trained));

    gs::averager other{gs::polyak{}, weights(0)};
    std::vector<std::byte> const before = bytes_of(other);
    CHECK_THAT(refusal<gs::value_error>([&] { other.load(in / "average"); }),
               ContainsSubstring("is of the rule window; expected polyak"));
    gs::averager longer{share, numbers<float>(71, 1)};
    CHECK_THAT(refusal<gs::size_error>([&] { longer.load(in / "average"); }),
               ContainsSubstring("the slot sum_1: has 70 elements; expected 71"));
    CHECK_THAT(refusal<gs::value_error>([&] {
                   gs::parameter{adam, weights(0)}.load(in / "average");
               }),
               ContainsSubstring("is of the rule window; expected adam"));
    CHECK(bytes_of(other) == before);
    rewrite(in / "average", in / "bad", [](auto& entries, auto& metadata) {
        replace(metadata["gradstep.parameter.values"], R"(["sum_1","sum_2","sum_3"])", "[]");
        entries.clear();
    });
    CHECK_THAT(refusal<gs::value_error>([&] { trained.load(in / "bad"); }),
               ContainsSubstring("slots is empty, and there are no values; expected at least one slot"));
}

TEST_CASE("Every bit of a state that is another, and every byte that is missing, is refused", "[saved][state]") {
    auto table = rows(8);
    train(table, 21);
    auto const good = bytes_of(table);
    train(table, 1);
    auto const now = bytes_of(table);
    auto blob = good;
    for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
        blob[bit / 8] ^= std::byte(1 << bit % 8);
        CHECK_THROWS_AS(gs::load_state(table, blob), gs::value_error);
        blob[bit / 8] ^= std::byte(1 << bit % 8);
    }
    for (std::size_t size = 0; size < good.size(); ++size)
        CHECK_THROWS_AS(gs::load_state(table, std::span(good).first(size)), gs::value_error);
    blob.push_back(std::byte(0));
    CHECK_THROWS_AS(gs::load_state(table, blob), gs::value_error);
    // With a forged checksum, numbers can differ, but no memory outside the blob and the table is
    // read or written.
    blob = good;
    std::size_t taken = 0;
    for (std::size_t at = 0; at < good.size(); ++at)
        for (std::byte const by : {std::byte(0xff), std::byte(0x80), std::byte(0)}) {
            blob[at] = by;
            sign(blob);
            try {
                auto target = rows(8);
                gs::load_state(target, blob);
                ++taken;
            } catch (gs::error const&) {
            }
            blob[at] = good[at];
        }
    CHECK(taken > 0); // numbers of rows are any
    CHECK(bytes_of(table) == now);
    gs::load_state(table, good);
    CHECK(bytes_of(table) == good);
}

TEST_CASE("A state of something else is refused by the first difference, and so is room of another size",
          "[saved][state]") {
    gs::parameter weights{adam, numbers<float>(5, 1)}, longer{adam, numbers<float>(6, 1)};
    auto const said = [&](auto& x, auto const& from) {
        return refusal<gs::value_error>([&] { gs::load_state(x, bytes_of(from)); });
    };
    auto table = rows(8);
    CHECK_THAT(said(weights, table), ContainsSubstring("is a table; expected a parameter"));
    CHECK_THAT(said(table, weights), ContainsSubstring("is a parameter; expected a table"));
    CHECK(refusal<gs::size_error>([&] { gs::load_state(weights, bytes_of(longer)); }) ==
          "load_state: the blob: the values: has 6 elements; expected 5");
    std::vector<std::byte> room(gs::state_bytes(weights) - 1);
    CHECK_THAT(refusal<gs::size_error>([&] { gs::save_state(weights, room); }),
               ContainsSubstring("as state_bytes says"));
    std::string const file = "PK\x03\x04 and no state of gradstep";
    CHECK(refusal<gs::value_error>([&] { gs::load_state(weights, std::as_bytes(std::span(file))); }) ==
          "load_state: the blob begins with other bytes: it is a zip archive, as torch.save writes; expected "
          "\"gs-state\"");
    // If a name is not valid UTF-8, the message contains its readable part.
    for (auto const& [given, kept] : {std::pair{"\xff\x1b"
                                                "oat",
                                                "??oat"},
                                      std::pair{"\xc3\xa4\xed\xa0t", "\xc3\xa4??t"},
                                      std::pair{"\xf4\x90\x80\x80t", "????t"}, std::pair{"\xc1\xbf\xf8xt", "???xt"}}) {
        auto blob = bytes_of(longer);
        std::memcpy(blob.data() + 28, given, 5); // "float"
        sign(blob);
        CHECK(refusal<gs::value_error>([&] { gs::load_state(weights, blob); }) ==
              "load_state: the blob: is of " + std::string(kept) + "; expected float");
    }
}

TEST_CASE("state: blocks of 8 bits, saved and gone on with, the same bits") {
    std::size_t const n = 100'000; // some calls of the system for a slot, and a block that is not whole
    auto const optimizer = gs::make_updater<gs::block8<float>>(gs::adam{}, gs::constant{0.01}, gs::serial_backend{});
    gs::parameter x{optimizer, numbers<float>(n, 1)};
    gs::parameter in_file{optimizer, std::vector<float>(n)};
    gs::parameter in_memory{optimizer, std::vector<float>(n)};
    for (std::uint32_t step = 0; step < 4; ++step) x.update(numbers<float>(n, step));

    folder const temporary;
    std::string const file = temporary / "x.safetensors";
    x.save(file);
    in_file.load(file);
    std::vector<std::byte> bytes(gs::state_bytes(x));
    gs::save_state(x, bytes);
    gs::load_state(in_memory, bytes);
    for (std::uint32_t step = 4; step < 8; ++step)
        for (auto* const each : {&x, &in_file, &in_memory}) each->update(numbers<float>(n, step));
    for (auto* const each : {&in_file, &in_memory}) {
        CHECK(each->clock().step == 8);
        CHECK(std::equal(each->values().begin(), each->values().end(), x.values().begin()));
        for (char const* const slot : {"m", "v"}) {
            auto const blocks = each->state(slot), expected = x.state(slot);
            CHECK(std::memcmp(blocks.data(), expected.data(), expected.size_bytes()) == 0);
        }
    }

    gs::safetensors_reader const saved(file);
    CHECK(saved.find("values/m")->dtype == "U8");
    CHECK(saved.find("values/m")->shape == std::vector<std::uint64_t>{n});
    CHECK(saved.find("values/m.scales")->dtype == "F32");
    CHECK(saved.find("values/m.scales")->shape == std::vector<std::uint64_t>{391});

    gs::parameter of_floats{gs::make_updater<float>(gs::adam{}, gs::constant{0.01}, gs::serial_backend{}),
                            std::vector<float>(n)};
    CHECK_THAT(refusal<gs::value_error>([&] { of_floats.load(file); }),
               ContainsSubstring("is of block8<float>; expected float"));
}
