// Rows that stand still, and weights that l1 has brought to 0.
#include <algorithm>

#include <rows/catch_up.hpp>

TEST_CASE("ftrl's rows stand still: the bits of a dense run without gradient", "[catch_up]") {
    auto const optimizer = gs::make_updater<float>(gs::ftrl{.l1 = 4, .l2 = 0.01}, gs::cosine{.rate = 0.5, .steps = 300},
                                                   gs::serial_backend{});
    constexpr std::size_t rows = 5, width = 7;
    std::vector<float> w(rows * width), g(rows * width), z(rows * width), n(rows * width);
    for (std::size_t i = 0; i < w.size(); i += 2)
        w[i] = static_cast<float>(dense::gradient(0, 0, i)); // the others are 0
    gs::table table{optimizer, rows, width, gs::exact{}, {.initial = w}};
    auto dense_run = optimizer;
    for (std::size_t t = 0; t < 300; ++t) {
        auto const id = static_cast<std::int32_t>(t * t % rows);
        std::vector<float> row;
        for (std::size_t i = 0; i < width; ++i)
            row.push_back(static_cast<float>(dense::gradient(t, static_cast<std::size_t>(id), i)));
        std::fill(g.begin(), g.end(), 0.0f);
        std::copy(row.begin(), row.end(), g.begin() + id * static_cast<std::ptrdiff_t>(width));
        dense_run.next_step()(w, g, z, n);
        table.update(std::vector{id}, row);
    }
    auto const values = table.values();
    CHECK(std::equal(w.begin(), w.end(), values.begin(), values.end()));
    // z is a function of a weight that is not 0 and of today's rate: it counts, and is kept, while
    // the weight is 0.
    std::size_t zeros = 0, wrong = 0;
    for (std::size_t i = 0; i < w.size(); ++i) {
        zeros += w[i] == 0;
        wrong += w[i] == 0 && table.state<"z">()[i] != z[i];
    }
    CHECK(zeros > 0);
    CHECK(wrong == 0);
    CHECK(std::ranges::equal(table.state<"n">(), n));
}

TEST_CASE("an element that reached 0 under l1 stays exactly 0 until a gradient comes", "[catch_up]") {
    auto const optimizer =
        gs::make_updater<float>(gs::sgd{}, gs::proximal{gs::l1{0.1}},
                                gs::exponential{.rate = 0.1, .decay = 0.5, .steps = 1000}, gs::serial_backend{});
    std::vector<float> const start{0.05f, -0.05f, 0.5f, -0.5f, 20, 0.05f, -0.05f, 0.5f, -0.5f, 20};
    gs::table table{optimizer, 2, 5, gs::exact{}, {.initial = start}};
    std::vector<std::int32_t> const nobody;
    for (int t = 0; t < 300; ++t) table.update(nobody, std::vector<float>{});
    for (int t = 0; t < 3000; ++t) {
        if (t % 500 == 0) {
            auto const row = table.row(0);
            CHECK(std::vector(row.begin(), row.begin() + 4) == std::vector<float>(4, 0));
            CHECK(row[4] > 0);
            if (t % 1000 == 0) table.flush(); // in one piece, or in two
        }
        table.update(nobody, std::vector<float>{});
    }
    table.update(std::vector<std::int32_t>{0}, std::vector<float>{-8, 8, 0, 0, 0}, {.rate = 1.0});
    CHECK(table.row(0)[0] == 8 - 0.1f); // from exactly 0, by the gradient alone
    CHECK(table.row(0)[1] == -(8 - 0.1f));
    CHECK(table.row(0)[2] == 0);
    CHECK(table.row(1)[0] == 0);
}
