#pragma once
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <vector>

#include <gradstep/backends/executor.hpp>
#include <gradstep/parameter.hpp>

namespace gradstep {

/// What a model does beyond its parameters.
struct model_options {
    /// Scales all gradients by min(1, clip_norm / norm), norm being that of all of them together, gradient_scale included.
    /// Integers are left out of both: they hold counts. Infinite: no clipping, and nothing is read for it. > 0.
    double clip_norm = std::numeric_limits<double>::infinity();
    /// What gradients with elements that are not finite do, as they are before gradient_scale, to all parameters together.
    /// `skip` and `raise` read every gradient once more.
    nonfinite on_nonfinite = nonfinite::propagate;
};

/// How a model treats one of its parameters.
struct member_options {
    /// Multiplies the learning rate of this parameter. Finite and >= 0.
    double rate_scale = 1;
    /// false leaves l1, l2, elastic_net, decoupled, after_step and proximal out for this parameter; clipping stays.
    bool decay = true;
};

/// What an update of a model has done.
struct model_result {
    /// Whether the step was taken; false leaves every parameter as it was (zero_gradient is done).
    bool applied = true;
    /// The norm of all gradients together, where clip_norm asks for it.
    std::optional<double> norm = {};
    /// Where a gradient is not finite, where on_nonfinite looks for it: the name of the parameter, and the element.
    std::optional<std::pair<std::string, std::size_t>> nonfinite = {};
};

inline namespace GRADSTEP_ISA {

/// A gradient and the name of its parameter: {"deep.weight", g}, g being any contiguous buffer, in row-major order.
struct named_gradient {
    std::string_view name;
    void const* data;
    std::size_t size;
    std::type_info const* storage;
    bool is_writable, may_be_host, may_be_device;

    template <class Buffer>
    requires(detail::contiguous_buffer<Buffer>) named_gradient(std::string_view parameter_name, Buffer&& gradient)
        : name(parameter_name), data(detail::traits_of<Buffer>::data(gradient)),
          size(detail::traits_of<Buffer>::size(gradient)),
          storage(&typeid(std::remove_const_t<detail::element_type<Buffer>>)),
          is_writable(!std::is_const_v<detail::element_type<Buffer>>),
          may_be_host(detail::lives_in<Buffer, host_memory>), may_be_device(detail::lives_in<Buffer, device_memory>) {
        detail::require_layout(gradient, std::span<std::byte const>());
    }
};

namespace detail {

// A parameter of a model, whatever its updater is. A model calls it in the order of this list, with the gradient of one
// update; pieces are elements [first, last), whose bounds are multiples of block_size but at the end.
class model_member_base {
public:
    std::string name;

    explicit model_member_base(std::string of) : name(std::move(of)) {}
    virtual ~model_member_base() = default;
    virtual void take_gradient(named_gradient const&, step_options const&) = 0; // checks it; throws
    virtual std::size_t find_nonfinite(std::size_t first, std::size_t last) const = 0;
    virtual double block_sum(std::size_t block, double scale) const = 0; // of squares of elements times scale
    virtual double sum_of_squares(double scale) const = 0;               // where it does not come in pieces
    virtual void zero_gradient() const = 0;                              // where the step is not taken
    virtual void prepare(step_options const&, double clip) = 0;          // the clock moves; throws, and it does not
    virtual void withdraw() = 0;                                         // the clock goes back
    virtual void run(std::size_t first, std::size_t last) const noexcept = 0;
    virtual void run_whole() const = 0; // where it does not come in pieces

    virtual std::size_t size() const = 0;
    virtual std::size_t bytes_per_element() const = 0;
    virtual bool in_pieces() const = 0;
    virtual bool reads_in_pieces() const = 0;
    virtual std::type_info const& type() const = 0; // of the parameter
    virtual void* address() = 0;
    virtual std::string description() const = 0;
};

template <class Updater> class model_member final : public model_member_base {
    using backend = typename Updater::backend_type;
    using memory_space = typename backend::memory_space;
    using storage = typename Updater::traits::storage;
    using compute = typename Updater::traits::compute;
    static constexpr bool on_host = std::is_same_v<memory_space, host_memory>;
    using batch_type = typename gradstep::step<Updater>::model_batch;
    // A row-wise rule looks at the whole tensor, and other backends than these have threads of their own.
    static constexpr bool splits =
        !row_wise_rule<typename Updater::rule_type> && requires(backend const& b, batch_type const& batch) {
        b.run_part(batch, std::size_t(), std::size_t());
    };
    static constexpr bool reads_pieces = on_host && reads_in_parts<backend>;
    static constexpr bool is_clipped = !std::is_integral_v<compute>;

public:
    model_member(std::string of, parameter<Updater> owned, member_options options)
        : model_member_base(std::move(of)), parameter_(std::move(owned)), options_(options) {}

    void take_gradient(named_gradient const& gradient, step_options const& options) override {
        if (*gradient.storage != typeid(storage))
            detail::fail<value_error>("the gradient of " + name + " is of another type than a parameter of " +
                                      std::string(element_traits<typename Updater::element_type>::name) +
                                      " has in memory");
        if (!(on_host ? gradient.may_be_host : gradient.may_be_device))
            detail::fail<buffer_error>("the gradient of " + name +
                                       " lives in another memory than the parameter: must be in that of " +
                                       std::string(memory_space::name));
        if (gradient.size != size())
            detail::fail<size_error>("the gradient of " + name + " has " + text(gradient.size) +
                                     " elements, the parameter has " + text(size()));
        if (gradient.data == nullptr && gradient.size != 0)
            detail::fail<buffer_error>("the gradient of " + name + " is null: give " + text(gradient.size) +
                                       " elements");
        if (options.zero_gradient && !gradient.is_writable) named([] { refuse_zero_gradient(); });
        gradient_ = {static_cast<storage const*>(gradient.data), gradient.size};
        is_writable_ = gradient.is_writable;
    }
    std::size_t find_nonfinite(std::size_t first, std::size_t last) const override {
        auto const piece = gradient_.subspan(first, last - first);
        if constexpr (reads_pieces)
            return first + detail::find_nonfinite<typename backend::template pack<packed>>(piece);
        else return first + detail::find_nonfinite(parameter_.updater_.backend(), piece);
    }
    double block_sum([[maybe_unused]] std::size_t block, [[maybe_unused]] double scale) const override {
        double sum = 0;
        if constexpr (reads_pieces && is_clipped) // subnormals as the backend treats them
            parameter_.updater_.backend().for_each_part(
                1, [&](std::size_t) { sum = detail::block_sum(gradient_, block, scale); });
        return sum;
    }
    double sum_of_squares([[maybe_unused]] double scale) const override {
        if constexpr (!is_clipped) return 0;
        else return detail::sum_of_squares(parameter_.updater_.backend(), gradient_, scale);
    }
    void zero_gradient() const override { fill(parameter_.updater_.backend(), writable_gradient(), storage(0)); }

    void prepare(step_options const& options, double clip) override {
        before_ = parameter_.clock();
        step_options own = options;
        own.rate_scale *= options_.rate_scale;
        if (is_clipped) own.gradient_scale *= clip;
        undo_unless_done clock_back([&] { withdraw(); });
        named([&] { make_call(parameter_.updater_.next_step(own, options_.decay)); });
        clock_back.dismiss();
    }
    void withdraw() override { parameter_.updater_.seek(before_); }
    void run([[maybe_unused]] std::size_t first, [[maybe_unused]] std::size_t last) const noexcept override {
        if constexpr (splits) parameter_.updater_.backend().run_part(*call_->batch, first, last);
    }
    void run_whole() const override { call_->step(std::span<slice<Updater> const>(&call_->tensor, 1)); }

    std::size_t size() const override { return parameter_.size(); }
    std::size_t bytes_per_element() const override { return Updater::bytes_per_element; }
    bool in_pieces() const override { return splits; }
    bool reads_in_pieces() const override { return reads_pieces; }
    std::type_info const& type() const override { return typeid(parameter<Updater>); }
    void* address() override { return &parameter_; }
    std::string description() const override {
        std::string out = describe(parameter_.optimizer());
        if (options_.rate_scale != 1) out += ", rate_scale = " + text(options_.rate_scale);
        if (!options_.decay) out += ", no decay";
        return out;
    }

private:
    using packed = decltype(widen(storage()));
    // A step, the tensor it is for, and both as kernels; the batch refers to the other two.
    struct prepared_call {
        gradstep::step<Updater> step;
        slice<Updater> tensor;
        std::optional<batch_type> batch;

        prepared_call(gradstep::step<Updater> const& s, slice<Updater> const& t) : step(s), tensor(t) {}
    };
    void make_call(gradstep::step<Updater> const& step) {
        parameter_.call([&](auto... slots) {
            call_.emplace(step, slice<Updater>(parameter_.value_span(), writable_gradient(), slots...));
        });
        call_->tensor.gradient_is_writable = is_writable_;
        call_->tensor.decay = options_.decay;
        if constexpr (Updater::traits::is_stochastic) call_->tensor.id = id();
        call_->step.check(call_->tensor);
        call_->batch.emplace(batch_type{call_->step, {&call_->tensor, 1}});
    }
    // It is written only under zero_gradient, which is checked to have writable memory.
    std::span<storage> writable_gradient() const { return {const_cast<storage*>(gradient_.data()), gradient_.size()}; }
    // Calls f; what it refuses, it refuses under the name of the parameter.
    template <class F> void named(F const& f) const {
        auto const renamed = [&]<class Error>(Error const& refusal) { fail<Error>(name + ": " + refusal.what()); };
        translating<value_error>([&] { translating<buffer_error>(f, renamed); }, renamed);
    }
    // The name of the tensor in stochastic rounding: a hash of its name (FNV-1a), so that it does not depend on the others.
    std::uint64_t id() const {
        std::uint64_t hash = 0xcbf29ce484222325;
        for (char const c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
        return hash;
    }

    parameter<Updater> parameter_;
    member_options options_;
    gradstep::clock before_;
    std::span<storage const> gradient_;
    bool is_writable_ = false;
    std::optional<prepared_call> call_;
};

} // namespace detail

/// Named parameters, each with an updater of its own, updated together: one pass, split over threads by memory traffic
/// whatever the sizes and the updaters are.
///
///     gs::model net{pool, {.clip_norm = 1.0}};
///     net.add("wide.weight", gs::parameter{gs::make_updater<float>(gs::ftrl{.l1 = 1.0}, gs::constant{0.1}), wide});
///     net.add("deep.bias", gs::parameter{optimizer, bias}, {.decay = false});
///     net.update({{"wide.weight", g_wide}, {"deep.bias", g_bias}});
///
/// An update takes a gradient for each parameter, checks everything, and then updates all of them: where it throws, all are
/// as they were. Parameters that do not come in pieces, those of row-wise rules and of Thrust, are updated one after the
/// other on their own backend.
class model {
public:
    /// On the caller's thread. Throws value_error for a clip_norm that is not > 0.
    explicit model(model_options options = {}) : options_(options) { check_options(); }
    /// On the threads of an executor, which must outlive the model.
    template <class Executor>
    requires(executor<Executor>) explicit model(Executor& threads, model_options options = {}) : options_(options) {
        check_options();
        threads_.emplace(threads);
    }

    template <class Executor>
    requires(executor<Executor> && !std::is_lvalue_reference_v<Executor>) explicit model(Executor&&,
                                                                                         model_options = {}) {
        static_assert(sizeof(Executor) == 0, "gradstep: a model refers to its executor, which must outlive it: give a "
                                             "variable, not a temporary");
    }
    model(model&&) = default;
    model& operator=(model&&) = default;

    /// Adds a parameter. Throws value_error for an empty name, one that the model has, or a bad rate_scale.
    template <class Updater> void add(std::string name, parameter<Updater> owned, member_options options = {}) {
        if (name.empty()) detail::fail<value_error>("add: the name is empty: must have at least one character");
        if (index_.contains(name))
            detail::fail<value_error>("add: there is a parameter " + name + " already: names must differ");
        if (!ranges::non_negative.contains(options.rate_scale))
            detail::fail<value_error>("add: " + name + ": rate_scale = " + detail::text(options.rate_scale) +
                                      ": must be " + ranges::non_negative.text);
        auto member = std::make_unique<detail::model_member<Updater>>(name, std::move(owned), options);
        members_.reserve(members_.size() + 1);
        index_.emplace(std::move(name), members_.size());
        members_.push_back(std::move(member));
    }

    /// One step of every parameter, each with its gradient; the order is free, and that of the parameters the fastest.
    /// `options` are those of updater::next_step, for all of them. Throws, with everything as it was, if a name is unknown,
    /// given twice or left out, if a gradient does not fit its parameter, or if an updater refuses its step. Only
    /// what an executor throws, or a device, comes when parts of the step may have happened: the clocks then count it.
    /// No parameter's memory may be the gradient of another, nor may two share one gradient under zero_gradient; that is
    /// not checked.
    model_result update(std::span<named_gradient const> gradients, step_options const& options = {}) {
        detail::check(options);
        match(gradients, options);
        model_result result;
        if (options_.on_nonfinite != nonfinite::propagate) {
            result.nonfinite = find_nonfinite();
            if (result.nonfinite) {
                if (options_.on_nonfinite == nonfinite::raise)
                    detail::fail<nonfinite_error>(
                        "the gradient of " + result.nonfinite->first + " is not finite at element " +
                        detail::text(result.nonfinite->second) + ", and on_nonfinite is raise: no step is taken");
                if (options.zero_gradient)
                    for (auto const& member : members_) member->zero_gradient();
                result.applied = false;
                return result;
            }
        }
        double clip = 1;
        if (std::isfinite(options_.clip_norm)) {
            result.norm = std::abs(options.gradient_scale) * global_norm();
            if (!std::isfinite(*result.norm)) refuse_norm(*result.norm);
            clip = clip_scale(*result.norm, options_.clip_norm);
        }
        prepare(options, clip);
        for (auto const& member : members_)
            if (!member->in_pieces()) member->run_whole();
        for_each_piece([this](std::size_t i, std::size_t first, std::size_t last) {
            if (members_[i]->in_pieces()) members_[i]->run(first, last);
        });
        return result;
    }
    model_result update(std::initializer_list<named_gradient> gradients, step_options const& options = {}) {
        return update(std::span<named_gradient const>(gradients.begin(), gradients.size()), options);
    }

    /// The number of parameters, their `names()` in the order in which they were added, and whether the model
    /// `contains(name)`.
    std::size_t size() const { return members_.size(); }
    std::vector<std::string> names() const {
        std::vector<std::string> out;
        for (auto const& member : members_) out.push_back(member->name);
        return out;
    }
    bool contains(std::string_view name) const { return index_.find(name) != index_.end(); }

    /// A parameter by name; `Updater` is the type of its optimizer: net.get<decltype(optimizer)>("deep.bias").values().
    /// Throws value_error for a name that the model does not have, or a parameter of another updater.
    template <class Updater> auto& get(std::string_view name) { return *find<std::remove_const_t<Updater>>(name); }
    template <class Updater> auto const& get(std::string_view name) const {
        return *find<std::remove_const_t<Updater>>(name);
    }

    /// One line for each parameter: its name, its length, and its updater.
    std::string description() const {
        std::string out;
        for (auto const& member : members_)
            out += member->name + " [" + detail::text(member->size()) + "]: " + member->description() + "\n";
        return out;
    }

private:
    void check_options() const {
        if (!(options_.clip_norm > 0))
            detail::fail<value_error>("model_options.clip_norm = " + detail::text(options_.clip_norm) +
                                      ": must be > 0, infinite for no clipping");
    }

    std::size_t index_of(std::string_view name, char const* call) const {
        if (auto const at = index_.find(name); at != index_.end()) return at->second;
        std::string known;
        for (auto const& member : members_) known += (known.empty() ? "" : ", ") + member->name;
        detail::fail<value_error>(std::string(call) + ": there is no parameter " + std::string(name) + "; there is " +
                                  (known.empty() ? "none" : known));
    }
    template <class Updater> parameter<Updater>* find(std::string_view name) const {
        auto& member = *members_[index_of(name, "get")];
        if (member.type() != typeid(parameter<Updater>))
            detail::fail<value_error>("get: the parameter " + member.name +
                                      " has an updater of another type than was asked for: " + member.description());
        return static_cast<parameter<Updater>*>(member.address());
    }

    // Begins to fetch member i, which lies wherever it was allocated: of a thousand small ones, finding them costs as much as
    // updating them.
    void fetch([[maybe_unused]] std::size_t i) const {
#if defined(__GNUC__)
        if (i < members_.size()) __builtin_prefetch(members_[i].get());
#endif
    }

    // Gives every member its gradient.
    void match(std::span<named_gradient const> gradients, step_options const& options) {
        given_.assign(members_.size(), false);
        for (std::size_t k = 0; k < gradients.size(); ++k) {
            fetch(k + 4);
            bool const in_order = k < members_.size() && members_[k]->name == gradients[k].name;
            std::size_t const i = in_order ? k : index_of(gradients[k].name, "update");
            if (given_[i])
                detail::fail<value_error>("update: " + members_[i]->name + " is given twice: give one gradient");
            given_[i] = true;
            members_[i]->take_gradient(gradients[k], options);
        }
        for (std::size_t i = 0; i < members_.size(); ++i)
            if (!given_[i])
                detail::fail<value_error>("update: the gradient of " + members_[i]->name +
                                          " is missing: give one for each parameter");
    }

    void prepare(step_options const& options, double clip) {
        std::size_t done = 0;
        detail::undo_unless_done clocks_back([&] {
            while (done-- != 0) members_[done]->withdraw();
        });
        for (; done < members_.size(); ++done) members_[done]->prepare(options, clip);
        clocks_back.dismiss();
    }

    std::optional<std::pair<std::string, std::size_t>> find_nonfinite() const {
        std::vector<std::atomic<std::size_t>> found(members_.size()); // the smallest, or a number beyond the last
        for (std::size_t i = 0; i < members_.size(); ++i) {
            auto const& member = *members_[i];
            found[i] = member.reads_in_pieces() ? member.size() : member.find_nonfinite(0, member.size());
        }
        for_each_piece([&](std::size_t i, std::size_t first, std::size_t last) {
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

    // Scaling by a norm that is not finite would spoil every weight.
    [[noreturn]] void refuse_norm(double norm) const {
        auto const found = find_nonfinite();
        detail::fail<value_error>(
            "update: the norm of all gradients is " + detail::text(norm) + ", by which clip_norm cannot scale" +
            (found ? ": the gradient of " + found->first + " is not finite at element " + detail::text(found->second) +
                         "; on_nonfinite = skip leaves such steps out"
                   : ""));
    }

    // As gs::global_norm of all gradients in order: the same sums of the same blocks, whoever computes them.
    double global_norm() const {
        std::vector<std::size_t> begin(members_.size() + 1); // where the block sums of a member begin
        for (std::size_t i = 0; i < members_.size(); ++i)
            begin[i + 1] = begin[i] + (members_[i]->reads_in_pieces() ? detail::block_count(members_[i]->size()) : 0);
        return detail::root_of_squares([&](double scale) { return sum_of_squares(begin, scale); });
    }
    // Of all gradients times `scale`; the block sums of member i are begin[i] and those that follow.
    double sum_of_squares(std::vector<std::size_t> const& begin, double scale) const {
        std::vector<double> sums(begin.back());
        for_each_piece([&](std::size_t i, std::size_t first, std::size_t last) {
            if (!members_[i]->reads_in_pieces()) return;
            for (std::size_t b = first / detail::block_size; b < detail::block_count(last); ++b)
                sums[begin[i] + b] = members_[i]->block_sum(b, scale);
        });
        double total = 0;
        for (std::size_t i = 0; i < members_.size(); ++i) {
            double sum = members_[i]->reads_in_pieces() ? 0 : members_[i]->sum_of_squares(scale);
            for (std::size_t b = begin[i]; b < begin[i + 1]; ++b) sum += sums[b];
            total += sum;
        }
        return total;
    }

    // Calls f(i, first, last) for pieces of member i that cover every member once, on the threads of the executor. The
    // members are laid end to end by their traffic, and cut where a part has had its share, at the next block.
    template <class F> void for_each_piece(F const& f) const {
        std::size_t bytes = 0;
        for (auto const& member : members_) bytes += member->size() * member->bytes_per_element();
        std::size_t const parts = threads_ ? detail::parts_worth(bytes, threads_->concurrency()) : 1;
        auto const run_part = [&](std::size_t part) {
            std::size_t const low = bytes / parts * part, high = part + 1 == parts ? bytes : bytes / parts * (part + 1);
            std::size_t offset = 0;
            for (std::size_t i = 0; i < members_.size() && offset < high; ++i) {
                fetch(i + 1);
                std::size_t const each = members_[i]->bytes_per_element(), n = members_[i]->size();
                auto const cut = [&](std::size_t at) {
                    if (at <= offset) return std::size_t{0};
                    if (at - offset >= n * each) return n;
                    return (at - offset) / each / detail::block_size * detail::block_size;
                };
                std::size_t const first = cut(low), last = cut(high);
                if (first < last) f(i, first, last);
                offset += n * each;
            }
        };
        if (parts < 2) run_part(0);
        else threads_->run(parts, task(run_part, bytes));
    }

    model_options options_;
    std::vector<std::unique_ptr<detail::model_member_base>> members_;
    std::map<std::string, std::size_t, std::less<>> index_;
    std::vector<bool> given_;
    std::optional<detail::executor_reference> threads_; // empty: the caller's
};

} // namespace GRADSTEP_ISA
} // namespace gradstep
