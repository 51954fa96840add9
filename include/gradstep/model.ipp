#pragma once
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gradstep/clipping/global_norm.hpp>
#include <gradstep/clipping/nonfinite.hpp>
#include <gradstep/core/apart.hpp>
#include <gradstep/core/averaged_view.hpp>
#include <gradstep/core/decay_factor.hpp>
#include <gradstep/core/error.hpp>
#include <gradstep/core/hyperparameters.hpp>
#include <gradstep/core/saved_names.hpp>
#include <gradstep/core/step.hpp>
#include <gradstep/core/tensor_shard.hpp>
#include <gradstep/model/launch_batch.hpp>
#include <gradstep/model/name_index.hpp>
#include <gradstep/model/named_gradient.hpp>
#include <gradstep/model/norms.hpp>
#include <gradstep/model/parameter_task.hpp>
#include <gradstep/model/pieces.hpp>
#include <gradstep/parameter.hpp>

namespace gradstep {
inline namespace GRADSTEP_ABI {

GRADSTEP_DEFINE model_result model::update(std::span<named_gradient const> gradients, step_options const& options) {
    require_applied("update");
    model_result const result = look_at(gradients, options, "update");
    if (!result.applied) {
        if (options.zero_gradient)
            for (auto const& member : members_) member->zero_gradient();
        return result;
    }
    prepare([&](std::size_t i) { members_[i]->prepare(options, clips_[i]); });
    run();
    return result;
}

GRADSTEP_DEFINE model_result model::update(std::initializer_list<named_gradient> gradients,
                                           step_options const& options) {
    return update(std::span<named_gradient const>(gradients.begin(), gradients.size()), options);
}

GRADSTEP_DEFINE std::vector<std::string> model::names() const {
    std::vector<std::string> out;
    for (auto const& member : members_) out.push_back(member->name);
    return out;
}

GRADSTEP_DEFINE void model::set_shape(std::string_view name, std::vector<std::uint64_t> extents) {
    auto& member = *members_[index_of(name, "set_shape")];
    detail::require_shape(name, extents, member.size());
    in_files_of(member).shape = std::move(extents);
}

GRADSTEP_DEFINE void model::set_shard(std::string_view name, tensor_shard const& shard) {
    auto& member = *members_[index_of(name, "set_shard")];
    if (shard.rank < 0 || shard.rank >= shard.ranks)
        detail::fail<value_error>({"set_shard: ", name, ": rank ", shard.rank, " of ", shard.ranks,
                                   "; expected a rank in [0, ", shard.ranks, ")"});
    if (shard.first > shard.size || member.size() > shard.size - shard.first)
        detail::fail<size_error>({"set_shard: ", name, ": ", member.size(), " elements from element ", shard.first,
                                  "; expected a part of the ", shard.size, " of the tensor"});
    in_files_of(member).shard = shard;
}

GRADSTEP_DEFINE applied_average<model> model::apply_average() {
    bool any = false;
    for (auto const& member : members_) any = any || member->keeps_average();
    if (!any) detail::fail<value_error>("apply_average: no parameter keeps an average: give gs::averaged{...}");
    if (average_is_applied()) detail::refuse_applied("apply_average");
    require_applied("apply_average"); // the clocks have moved, the averages have not
    detail::rollback_guard back([&] { restore_all(); });
    for (auto const& member : members_) member->apply_average();
    back.dismiss();
    return applied_average<model>(*this);
}

GRADSTEP_DEFINE void model::restore() {
    if (!average_is_applied()) detail::refuse_restore();
    restore_all();
}

GRADSTEP_DEFINE bool model::average_is_applied() const {
    for (auto const& member : members_)
        if (member->average_is_applied()) return true;
    return false;
}

GRADSTEP_DEFINE std::string model::description() const {
    std::string out;
    for (auto const& member : members_) {
        std::string const what = member->description(); // which looks up where containers have their memory now
        out += member->name + " [" + detail::text(member->size()) + "]: " + what + "\n";
    }
    return out;
}

GRADSTEP_DEFINE void model::check_options() const {
    if (!(options_.clip_norm > 0))
        detail::fail<value_error>("model_options.clip_norm = " + detail::text(options_.clip_norm) +
                                  ": must be > 0, infinite for no clipping");
}

GRADSTEP_DEFINE void model::check_new(std::string const& name, member_options const& options) const {
    detail::require_storable_name("add", name);
    if (contains(name)) detail::fail<value_error>("add: there is a parameter " + name + " already: names must differ");
    if (!ranges::non_negative.contains(options.rate_scale))
        detail::fail<value_error>(
            {"add: ", name, ": rate_scale = ", options.rate_scale, ": must be ", ranges::non_negative.text});
    if (!ranges::non_negative.contains(options.decay))
        detail::fail<value_error>({"add: ", name, ": decay: ", static_cast<double>(options.decay),
                                   " is out of range; expected ", ranges::non_negative.text});
}

GRADSTEP_DEFINE void model::push_back(std::unique_ptr<detail::parameter_task> member) {
    bool const has_limit = !member->own_limit().is_none();
    if (has_limit && std::isfinite(options_.clip_norm))
        detail::fail<value_error>({"add: ", member->name,
                                   ": its configuration clips by a norm, and so does the model: "
                                   "give clip_norm or clip, not both"});
    std::uint64_t const header_bytes = require_apart_in_files(*member);
    index_.make_room();
    members_.push_back(std::move(member));
    is_apart_ = gradients_are_apart_ = false;
    header_bytes_ += header_bytes;
    index_.push_back(members_.back()->name);
    has_own_limits_ = has_own_limits_ || has_limit;
}

GRADSTEP_DEFINE std::uint64_t model::require_apart_in_files(detail::parameter_task const& member) const {
    std::vector<std::string> slots;
    member.append_slots(slots);
    std::uint64_t const bytes = detail::header_bytes_of(member.name, 1 + slots.size());
    if (bytes > detail::most_header_bytes - header_bytes_)
        detail::fail<value_error>({"add: ", detail::in_quotes(member.name), ": is parameter ", members_.size() + 1,
                                   ", of which the header of a file would have more than ", detail::most_header_bytes,
                                   " bytes; expected fewer parameters"});
    for (std::string const& slot : slots)
        if (contains(member.name + "/" + slot)) detail::refuse_meeting_names("add", member.name, slot);
    if (auto const slash = member.name.rfind('/'); slash != member.name.npos) {
        std::string_view const name(member.name), before = name.substr(0, slash), after = name.substr(slash + 1);
        if (std::size_t const i = number_of(before); i != detail::name_index::none) {
            slots.clear();
            members_[i]->append_slots(slots);
            for (std::string const& slot : slots)
                if (slot == after) detail::refuse_meeting_names("add", before, slot);
        }
    }
    return bytes;
}

GRADSTEP_DEFINE detail::parameter_task::in_files_type& model::in_files_of(detail::parameter_task& member) {
    if (member.in_files == nullptr) member.in_files = std::make_unique<detail::parameter_task::in_files_type>();
    return *member.in_files;
}

GRADSTEP_DEFINE void model::restore_all() {
    for (auto const& member : members_)
        if (member->average_is_applied()) member->restore();
}

GRADSTEP_DEFINE std::size_t model::number_of(std::string_view name) const {
    return index_.find(name, [this](std::size_t i) -> std::string const& { return members_[i]->name; });
}

GRADSTEP_DEFINE void model::require_applied(char const* call) const {
    if (awaits_messages_) detail::refuse_begun(call);
    if (is_stepping_) detail::fail<sequence_error>({call, ": a step has begun that has not ended: wait for it first"});
}

GRADSTEP_DEFINE model_result model::look_at(std::span<named_gradient const> gradients, step_options const& options,
                                            char const* call) {
    detail::check(options);
    clips_.assign(members_.size(), 1);
    match(gradients, options, call);
    if (!is_apart_ || (options.zero_gradient && !gradients_are_apart_)) require_apart(options.zero_gradient);
    model_result result;
    if (options_.on_nonfinite != nonfinite::propagate) {
        result.nonfinite = find_nonfinite();
        if (result.nonfinite) {
            if (options_.on_nonfinite == nonfinite::raise)
                detail::fail<nonfinite_error>("the gradient of " + result.nonfinite->first +
                                              " is not finite at element " + detail::text(result.nonfinite->second) +
                                              ", and on_nonfinite is raise: no step is taken");
            result.applied = false;
            return result;
        }
    }
    if (std::isfinite(options_.clip_norm)) {
        result.norm = std::abs(options.gradient_scale) * norms_.of_all(members_, threads());
        if (!std::isfinite(*result.norm)) refuse_norm(*result.norm, call);
        clips_.assign(members_.size(), clip_scale(*result.norm, options_.clip_norm));
    } else if (has_own_limits_) {
        clips_ = norms_.own_clips(members_, threads(), options.gradient_scale, [&](std::size_t i, double norm) {
            detail::with_context([&] { return std::string(call) + ": " + members_[i]->name + ": "; },
                                 [&] { detail::refuse_norm(norm); });
        });
    }
    return result;
}

GRADSTEP_DEFINE void model::run() {
    detail::rollback_guard none_waits([&] { waiting_.clear(); });
    for (auto const& member : members_)
        if (!member->in_pieces()) member->run_whole(waiting_);
    waiting_.run();
    none_waits.dismiss();
    for_each_block([this](std::size_t i, std::size_t first, std::size_t last) {
        if (members_[i]->in_pieces()) members_[i]->run(first, last);
    });
}

GRADSTEP_DEFINE void model::match(std::span<named_gradient const> gradients, step_options const& options,
                                  char const* call) {
    given_.assign(members_.size(), false);
    for (std::size_t k = 0; k < gradients.size(); ++k) {
        detail::fetch(members_, k + 4);
        bool const in_order = k < members_.size() && members_[k]->name == gradients[k].name;
        std::size_t const i = in_order ? k : index_of(gradients[k].name, call);
        if (given_[i]) detail::fail<value_error>({call, ": ", members_[i]->name, " is given twice: give one gradient"});
        given_[i] = true;
        if (gradients[k].refers()) members_[i]->take_gradient(gradients[k].now(), options);
        else members_[i]->take_gradient(gradients[k], options);
    }
    for (std::size_t i = 0; i < members_.size(); ++i)
        if (!given_[i] && !members_[i]->take_own_gradient(options))
            detail::fail<value_error>(
                {call, ": the gradient of ", members_[i]->name, " is missing: give one for each parameter"});
}

GRADSTEP_DEFINE std::optional<std::pair<std::string, std::size_t>> model::find_nonfinite() {
    auto& found = found_; // the smallest, or a number beyond the last
    if (found.size() != members_.size()) found = std::vector<std::atomic<std::size_t>>(members_.size());
    for (std::size_t i = 0; i < members_.size(); ++i) {
        auto const& member = *members_[i];
        found[i] = member.reads_in_pieces() ? member.size() : member.find_nonfinite(0, member.size());
    }
    for_each_block([&](std::size_t i, std::size_t first, std::size_t last) {
        if (!members_[i]->reads_in_pieces()) return;
        std::size_t const at = members_[i]->find_nonfinite(first, last);
        std::size_t smallest = found[i];
        while (at < last && at < smallest && !found[i].compare_exchange_weak(smallest, at)) {
        }
    });
    for (std::size_t i = 0; i < members_.size(); ++i)
        if (found[i] < members_[i]->size()) return std::pair{members_[i]->name, found[i].load()};
    return {};
}

GRADSTEP_DEFINE void model::refuse_norm(double norm, char const* call) {
    auto const found = find_nonfinite();
    detail::fail<value_error>(std::string(call) + ": the norm of all gradients is " + detail::text(norm) +
                              ", by which clip_norm cannot scale" +
                              (found ? ": the gradient of " + found->first + " is not finite at element " +
                                           detail::text(found->second) + "; on_nonfinite = skip leaves such steps out"
                                     : ""));
}

GRADSTEP_DEFINE void model::require_apart(bool zeroes) {
    std::size_t count = 0;
    for (auto const& member : members_) count += member->buffers();
    detail::apart_check apart;
    apart.begin(count);
    for (auto const& member : members_) member->add_memory(apart, zeroes);
    if (auto const found = apart.find()) {
        auto const [first, second] = *found;
        auto const place_of = [&](std::size_t buffer) {
            std::size_t i = 0;
            while (buffer >= members_[i]->buffers()) buffer -= members_[i++]->buffers();
            return std::pair(i, buffer);
        };
        auto const [i, buffer] = place_of(second);
        auto const [j, other] = place_of(first);
        detail::fail<buffer_error>({members_[i]->name, ": ", members_[i]->buffer_name(buffer), " overlaps ",
                                    i == j ? std::string() : members_[j]->name + ": ", members_[j]->buffer_name(other),
                                    ": every buffer needs memory of its own"});
    }
    is_apart_ = true;
    gradients_are_apart_ = zeroes;
}

GRADSTEP_DEFINE std::size_t model::index_of(std::string_view name, char const* call) const {
    if (std::size_t const i = number_of(name); i != detail::name_index::none) return i;
    std::string known;
    for (auto const& member : members_) known += (known.empty() ? "" : ", ") + member->name;
    detail::fail<value_error>(std::string(call) + ": there is no parameter " + std::string(name) + "; there is " +
                              (known.empty() ? "none" : known));
}

} // namespace GRADSTEP_ABI
} // namespace gradstep
