#pragma once
#include <gradstep/backends/serial.hpp>
#include <gradstep/clipping/global_norm.hpp>
#include <gradstep/clipping/nonfinite.hpp>
#include <gradstep/distributed/collectives.hpp>
#include <gradstep/distributed/communicator.hpp>
#include <gradstep/distributed/detail/distributed_parameter.hpp>
#include <gradstep/distributed/detail/incremental_step.hpp>
#include <gradstep/distributed/lockstep.hpp>
#include <gradstep/memory/buffer.hpp>
#include <gradstep/model.hpp>
#include <gradstep/number/detail/reduce.hpp>
#include <gradstep/parameter.hpp>

namespace gradstep::distributed::detail::inline GRADSTEP_ISA {
// A parameter of which the model has this rank's shard.
class sharded_parameter : public distributed_parameter {
public:
    template <class... Arguments>
    explicit sharded_parameter(partition const& divided, Arguments&&... arguments)
        : distributed_parameter(std::forward<Arguments>(arguments)...), parts(divided) {}

    partition parts;

    virtual void gather() = 0; // sends this rank's shard of the values, and receives the other shards
    // Computed from this rank's shard of the mean gradient: the sums of squares of its blocks,
    // times `scale` squared; the first non-finite element, SIZE_MAX if there is none.
    virtual void append_block_sums(std::vector<double>& to, double scale) const = 0;
    virtual std::size_t first_nonfinite() const = 0;
    // Other ranks have other shards of the state.
    std::string state_checksum() const override { return "of shards"; }
};
template <class S, communicator C> class scattered_parameter final : public sharded_parameter {
public:
    scattered_parameter(C& by, int channel, std::string of, std::span<S const> initial, tensor_options const& own,
                        dense_parameter const& owned, partition const& divided)
        : sharded_parameter(divided, std::move(of), initial.size(), own, owned), by_(by), channel_(channel),
          shard_(divided.of_rank(initial.size(), by.size(), by.rank())),
          gradient_(std::make_shared<std::vector<S>>(initial.size())),
          values_(std::make_shared<std::vector<S>>(initial.begin(), initial.end())) {}

    void take(void const* gradient) override {
        if (!gradient_->empty()) std::memcpy(gradient_->data(), gradient, gradient_->size() * sizeof(S));
        gather_.reset();
        scatter_.emplace(by_, channel_, std::span<S const>(*gradient_), mine(*gradient_), mean_of<S>, gradient_, parts);
    }
    bool advance() override { return gather_ ? gather_->test() : scatter_->test(); }
    std::vector<int> waits_for() const override { return gather_ ? gather_->missing() : scatter_->missing(); }
    named_gradient gradient() const override { return {name, mean()}; }
    std::span<std::byte const> values() const override { return std::as_bytes(std::span<S const>(*values_)); }

    void gather() override {
        std::lock_guard const lock(mutex);
        publish_or_fail();
    }
    void append_block_sums(std::vector<double>& to, double scale) const override {
        for (std::size_t b = 0; b != gradstep::detail::block_count(shard_.size()); ++b)
            to.push_back(gradstep::detail::block_sum(mean(), b, scale));
    }
    std::size_t first_nonfinite() const override {
        std::size_t const at = gradstep::detail::find_nonfinite(serial_backend{}, mean());
        return at == shard_.size() ? SIZE_MAX : shard_.first + at;
    }

private:
    bool publish() override {
        auto const updated = in_model.values_on_host();
        if (!updated.empty()) std::memcpy(mine(*values_).data(), updated.data(), updated.size());
        gather_.emplace(begin_all_gather(by_, channel_, std::span(*values_), values_, parts));
        scatter_.reset();
        return true;
    }
    std::span<S const> mean() const { return mine(*gradient_); }
    std::span<S> mine(std::vector<S>& of) const { return std::span(of).subspan(shard_.first, shard_.size()); }

    C& by_;
    int channel_;
    shard shard_;
    // Memory that the engine may read for longer; the own shard of the gradient becomes the mean's.
    std::shared_ptr<std::vector<S>> gradient_, values_;
    std::optional<pending_reduce_scatter<S, C>> scatter_;
    std::optional<exchange_of<C>> gather_;
};

// The rule looks at one element at a time, whose index in the tensor does not matter, or at a whole
// tensor with a shape, which one rank has.
template <class Updater> constexpr bool require_shards() {
    using rule = typename Updater::rule_type;
    static_assert(!row_wise_rule<rule>,
                  "gradstep: sharded: the rule needs whole tensors, and each rank updates a shard; "
                  "expected an element-wise rule; use synchronous");
    static_assert(!model_wise_rule<rule>,
                  "gradstep: sharded: the rule needs sums over the whole model, and each rank has the mean gradient of "
                  "its shard only; expected an element-wise rule; use synchronous");
    static_assert(!gradstep::detail::sends_messages<rule>,
                  "gradstep: sharded: dgc_momentum sends compressed gradients; "
                  "expected a rule of whole gradients; use compressed");
    static_assert(
        !Updater::traits::is_stochastic,
        "gradstep: sharded: stochastic rounding depends on the position in the whole tensor, and each rank updates "
        "a shard; expected an element without it; use synchronous");
    static_assert(!noisy_rule<rule>,
                  "gradstep: sharded: the noise of the rule depends on the position in the whole tensor, and each rank "
                  "updates a shard; expected a rule without it; use synchronous");
    return true;
}
} // namespace gradstep::distributed::detail::inline GRADSTEP_ISA

namespace gradstep::distributed::inline GRADSTEP_ISA {
/// Data-parallel training with sharded optimizer state (ZeRO stage 1): each rank updates only its
/// own shard of every parameter (shard_of_rank). Each of p ranks stores 1/p of the state. In a
/// step, the ranks add up the gradients so that each rank gets its shard of the mean. It updates
/// this shard, and sends the new values to the other ranks. All ranks have the same values, bit for
/// bit, and the bits of `synchronous`. You use it like `synchronous`. A rule that needs a matrix
/// (`muon`) has each matrix whole on one rank, which updates it once a step: the rank that has the
/// fewest elements of matrices so far. It does not compile with rules that read a whole tensor
/// (lars, lamb and the row-wise rules), with dgc_momentum, with sgld, or with stochastic rounding.
///
/// In addition to the model of its shards, each rank stores every gradient once and all values
/// once. A checkpoint contains the shards of one rank. Every rank saves a checkpoint, and loads it
/// in a job with the same number of ranks. A rank rejects the checkpoint of another rank, or of a
/// job with another number of ranks. With clip_norm or on_nonfinite, the ranks exchange norms or
/// NaN checks of their shards within the step. If this exchange throws rank_error, the step is
/// skipped.
template <communicator C> class sharded final : public detail::lockstep_over<C> {
    using base = detail::lockstep_over<C>;

public:
    /// Updates on the caller's thread. Throws value_error if an option is out of range. The norm
    /// and the check for NaN and infinity apply to the mean gradients of all shards
    /// (model_options).
    explicit sharded(C& by, model_options const& options = {}) : base(by, "sharded"), options_(checked(options)) {}
    /// Updates on the threads of an executor, which must outlive the worker.
    template <class Executor>
    requires(executor<Executor>) sharded(C& by, Executor& threads, model_options const& options = {})
        : base(by, "sharded"), options_(checked(options)), model_(threads) {}
    ~sharded() { this->rest(); }

    /// Adds a parameter with these initial values, a contiguous buffer in host memory. The rank
    /// allocates state for its own shard only. Throws the errors of model::add, buffer_error,
    /// value_error for integers if clip_norm is set, and sequence_error after the ranks have begun.
    /// A rule that uses shapes takes the shape from `initial` (xtensor, Eigen) or from `of`, and
    /// also throws size_error for another number of elements, and value_error if the rule needs a
    /// matrix and there is no shape.
    template <class Updater, class Buffer>
    requires requires { typename Updater::traits; }
    void add(std::string name, Updater const& optimizer, Buffer const& initial, tensor_options options = {},
             shape of = {}) {
        if constexpr (detail::require_shards<Updater>()) {
            using storage = typename Updater::traits::storage;
            using rule = typename Updater::rule_type;
            auto const all = gradstep::detail::as_span<storage const, host_memory>(initial);
            gradstep::detail::require_layout(initial, all);
            if (shaped_rule<rule> && !of.is_known()) of = gradstep::detail::shape_of(initial);
            add_shard(std::move(name), all, options, {of, shaped_rule<rule>, matrix_rule<rule>},
                      [&](std::span<storage const> own, parameter_options const& given) {
                          return parameter<Updater>(optimizer, own, given);
                      });
        }
    }
    /// The same for a parameter whose policies are chosen at run time, by an any_updater. `initial`
    /// has the type of its values. Throws value_error for rules and elements that do not
    /// compile with types, and for a clip of the text that needs the norm of a whole gradient.
    template <class Updater>
    requires requires { typename Updater::tensor_type; }
    void add(std::string name, Updater const& optimizer, typename Updater::span_type initial,
             tensor_options options = {}, shape of = {}) {
        auto const& facts = optimizer.facts();
        require_shards(name, facts, optimizer.limit());
        initial = initial.now();
        gradstep::detail::with_type(facts.storage, [&]<class S>() {
            add_shard(std::move(name), std::span(static_cast<S const*>(initial.data), initial.size), options,
                      {of, facts.uses_shape, facts.needs_matrix},
                      [&](std::span<S const> own, parameter_options const& given) {
                          typename Updater::span_type part(initial.type, static_cast<void const*>(own.data()),
                                                           own.size());
                          return typename Updater::parameter_type(optimizer, part, given);
                      });
        });
    }

    /// The result of the last step (model::update). It is the same on all ranks.
    model_result const& last_step() const { return last_; }
    /// This rank's shards of the parameters, for saving and loading. Load them on all ranks before
    /// the first step.
    gradstep::model& model() { return model_; }
    gradstep::model const& model() const { return model_; }

private:
    // The shape of a tensor, and what the rule does with it.
    struct shape_for_rule {
        shape of;
        bool is_used, is_needed;
    };
    // make(own, options) returns the parameter of this rank's shard.
    template <class S, class Make>
    void add_shard(std::string name, std::span<S const> all, tensor_options const& options, shape_for_rule const& rows,
                   Make const& make) {
        this->refuse_late_add(name);
        if (std::is_integral_v<S> && std::isfinite(options_.clip_norm))
            detail::fail<value_error>({"add: ", name}, {"integers are not clipped"}, {"no clip_norm"});
        if (all.data() == nullptr && !all.empty())
            detail::fail<buffer_error>({"add: ", name}, {"initial is null"}, {all.size(), " elements of memory"});
        partition parts;
        if (rows.is_used) {
            if (rows.is_needed && !rows.of.is_known() && !all.empty())
                detail::fail<value_error>({"add: ", name}, {"there is no shape, and the rule needs a matrix"},
                                          {"rows and columns, as add(name, optimizer, initial, {}, {rows, cols})"});
            gradstep::detail::require_elements("shape", rows.of, all.size());
            parts.whole_on = least_loaded_rank(all.size());
        }
        shard const own = parts.of_rank(all.size(), this->by().size(), this->by().rank());
        parameter_options const own_options{.shape = parts.whole_on && own.size() != 0 ? rows.of : shape{}};
        model_.add(name, make(all.subspan(own.first, own.size()), own_options), options);
        model_.set_shard(name, {this->by().rank(), this->by().size(), own.first, all.size()});
        auto const& added = this->in_model(name);
        this->add_pushed([&](int channel) {
            using type = detail::scattered_parameter<S, C>;
            auto out = std::make_unique<type>(this->by(), channel, std::move(name), all, options, added, parts);
            shards_.push_back(out.get());
            return out;
        });
    }
    static void require_shards(std::string const& name, gradstep::detail::updater_facts const& facts,
                               gradstep::detail::norm_limit const& clip) {
        auto const refuse = [&](char const* what, char const* expected) {
            detail::fail<value_error>({"add: ", name}, {what, ", and each rank updates a shard"}, {expected});
        };
        if (facts.is_row_wise || facts.is_model_wise)
            refuse(facts.is_row_wise ? "the rule needs whole tensors" : "the rule needs sums over the whole model",
                   "an element-wise rule; use synchronous");
        if (facts.sends_messages)
            refuse("dgc_momentum sends compressed gradients", "a rule of whole gradients; use compressed");
        if (facts.uses_id)
            refuse("random numbers depend on the position in the whole tensor",
                   "an element and a rule without them; use synchronous");
        if (!clip.is_none())
            refuse("the clip needs the norm of the whole gradient", "model_options.clip_norm; or use synchronous");
    }
    // The rank that gets the next matrix. All ranks add the same parameters in the same order.
    int least_loaded_rank(std::size_t elements) {
        matrix_elements_.resize(static_cast<std::size_t>(this->by().size()));
        auto const least = std::min_element(matrix_elements_.begin(), matrix_elements_.end());
        *least += elements;
        return static_cast<int>(least - matrix_elements_.begin());
    }
    static model_options const& checked(model_options const& options) {
        static_cast<void>(gradstep::model(options));
        return options;
    }
    void on_begin() override { // the shards may have been loaded since
        for (auto* one : shards_) one->gather();
    }
    void update() override {
        last_ = check_gradients();
        if (last_.applied) {
            std::vector<named_gradient> gradients;
            for (auto const* one : shards_) gradients.push_back(one->gradient());
            double const clip = last_.norm ? clip_scale(*last_.norm, options_.clip_norm) : 1;
            model_.update(gradients, {.gradient_scale = clip});
        }
        for (auto* one : shards_) one->gather();
    }
    gradstep::detail::incremental_step* incremental() override {
        bool const needs_all_gradients =
            std::isfinite(options_.clip_norm) || options_.on_nonfinite != nonfinite::propagate;
        return needs_all_gradients ? nullptr : &step_;
    }
    void describe_to(detail::agreement& own) const override { detail::add_options(own, options_); }
    gradstep::model const& updated_model() const override { return model_; }

    // The checks of a model before a step, over the shards of all ranks: the first element that is
    // not finite, and the norm. All ranks compute them in the same order.
    model_result check_gradients() {
        model_result out;
        if (options_.on_nonfinite != nonfinite::propagate) {
            std::vector<std::uint64_t> own;
            for (auto const* one : shards_) own.push_back(one->first_nonfinite());
            auto const of_ranks = gather_all(own);
            for (std::size_t i = 0; i != shards_.size() && !out.nonfinite; ++i) {
                std::uint64_t first = UINT64_MAX;
                for (auto const& theirs : of_ranks) first = std::min(first, theirs[i]);
                if (first != UINT64_MAX) out.nonfinite = {shards_[i]->name, static_cast<std::size_t>(first)};
            }
            if (out.nonfinite && options_.on_nonfinite == nonfinite::raise)
                detail::fail<nonfinite_error>({"the gradient of ", out.nonfinite->first},
                                              {"is not finite at element ", out.nonfinite->second,
                                               ", and on_nonfinite is raise: no step is taken"});
            out.applied = !out.nonfinite;
            if (!out.applied) return out;
        }
        if (std::isfinite(options_.clip_norm)) {
            out.norm = gradstep::detail::root_of_squares([&](double scale) { return sum_of_squares(scale); });
            if (!std::isfinite(*out.norm)) gradstep::detail::refuse_norm(*out.norm, false);
        }
        return out;
    }
    // Shards consist of blocks: their sums are added in the order of the blocks, as for a whole
    // tensor.
    double sum_of_squares(double scale) {
        std::vector<double> own;
        for (auto const* one : shards_) one->append_block_sums(own, scale);
        auto const of_ranks = gather_all(own);
        std::vector<std::size_t> next(of_ranks.size());
        double total = 0;
        for (auto const* one : shards_) {
            double sum = 0;
            for (int r = 0; r != this->by().size(); ++r) {
                std::size_t& at = next[static_cast<std::size_t>(r)];
                for (std::size_t left =
                         gradstep::detail::block_count(one->parts.of_rank(one->size, this->by().size(), r).size());
                     left != 0; --left)
                    sum += of_ranks[static_cast<std::size_t>(r)][at++];
            }
            total += sum;
        }
        return total;
    }
    template <class T> std::vector<std::vector<T>> gather_all(std::vector<T> const& own) {
        auto const bytes = std::as_bytes(std::span(own));
        auto pending =
            begin_all_gather(this->by(), base::second_channel, std::vector<std::byte>(bytes.begin(), bytes.end()));
        finish(this->by(), pending, "what a step looks at first");
        std::vector<std::vector<T>> out;
        for (auto const& theirs : pending.take()) {
            out.emplace_back(theirs.size() / sizeof(T));
            if (!theirs.empty()) std::memcpy(out.back().data(), theirs.data(), theirs.size());
        }
        return out;
    }

    model_options options_;
    gradstep::model model_;
    gradstep::detail::incremental_step step_{model_.tasks()};
    std::vector<detail::sharded_parameter*> shards_;
    std::vector<std::size_t> matrix_elements_; // of each rank
    model_result last_;
};
} // namespace gradstep::distributed::inline GRADSTEP_ISA
