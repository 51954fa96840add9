// Written in what every revision that has these rules has of the public interface.
#include "updates.hpp"

#include <memory>
#include <string>

#include <gradstep/gradstep.hpp>
#include <gradstep/table.hpp>

#include "../steps.hpp"

namespace {

template <class Rule> updates::rule dense(std::string name, Rule const& rule) {
    auto const optimizer = gs::make_updater<float>(rule, gs::constant{1e-3});
    return {std::move(name), optimizer.slots, [=](measure::streams const& s) { return composed(optimizer, s); }};
}

template <gs::duplicates duplicates> updates::table rows(std::size_t num_rows, std::size_t width) {
    gs::table t{gs::make_updater<float>(gs::adagrad{}, gs::constant{0.01}),
                num_rows,
                width,
                gs::touch_only{},
                {.initial = 0.0, .duplicates = duplicates}};
    auto const shared = std::make_shared<decltype(t)>(std::move(t));
    return {[shared](auto ids, auto gradient) { shared->update(ids, gradient); },
            [shared](auto id, auto out) { shared->row(id, out); }};
}

} // namespace

extern "C" __attribute__((visibility("default"))) void gradstep_updates(updates& of_this_revision) {
    of_this_revision = {
        .rules = {dense("sgd", gs::sgd{}), dense("momentum", gs::momentum{}), dense("nesterov", gs::nesterov{}),
                  dense("adagrad", gs::adagrad{}), dense("adadelta", gs::adadelta{}), dense("rmsprop", gs::rmsprop{}),
                  dense("adam", gs::adam{}), dense("amsgrad", gs::amsgrad{}), dense("adabelief", gs::adabelief{}),
                  dense("lion", gs::lion{}), dense("ftrl", gs::ftrl{})},
        .table_of_distinct_ids = rows<gs::duplicates::assume_unique>,
        .table_of_any_ids = rows<gs::duplicates::sum>};
}
