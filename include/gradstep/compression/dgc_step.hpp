#pragma once
#include <gradstep/compression/detail/dgc_parts.hpp>
#include <gradstep/compression/detail/merge.hpp>
#include <gradstep/compression/detail/step_halves.hpp>
#include <gradstep/regularizers/elastic_net.hpp>
#include <gradstep/regularizers/l1.hpp>
#include <gradstep/regularizers/l2.hpp>
#include <gradstep/regularizers/none.hpp>
#include <gradstep/rules/dgc_momentum.hpp>
#include <gradstep/step/step.hpp>

namespace gradstep::inline GRADSTEP_ISA {
/// The step of `dgc_momentum`. You can run it as a whole, like the step of any rule, or in two
/// halves. The first half makes a message, the trainers exchange their messages, and the second
/// half applies all messages. Your program does the exchange:
///
///     gs::sparse_message mine = step.compress(w, g, u, v);      // u and v change, w does not
///     std::vector<gs::sparse_message> all = ...;                // of all trainers, in the order of their ranks
///     step.apply(w, u, v, all);                                 // or apply(w, all), if the step is sparse
///
/// The step of a tensor is dense before the ramp, and always if the tensor has fewer than
/// `dense_below` elements. A dense message contains the gradient times gradient_scale. `compress`
/// then does not change u and v, and `apply` takes the momentum step with the mean of the messages.
/// Otherwise the message is sparse, and `apply` takes the plain SGD step with the mean of the sent
/// entries. Trainers that apply the same messages to the same parameters have the same bits.
///
/// As a whole, `step(w, g, u, v)` is both halves for a single trainer. If the step is dense, it is
/// the momentum step with the given gradient, which must then be the mean of all trainers.
/// Gradients must be memory: lazy expressions do not compile.
template <class Updater> class dgc_step : public step_calls<dgc_step<Updater>, Updater> {
    friend step_calls<dgc_step, Updater>;
    using optimizer = Updater;
    using Element = typename optimizer::element_type;
    using Regularizer = typename optimizer::regularizer_type;
    using Backend = typename optimizer::backend_type;
    using traits = typename optimizer::traits;
    using compute = typename traits::compute;
    using storage = typename traits::storage;
    using state_type = typename traits::state;
    using memory_space = typename Backend::memory_space;
    using undecayed = typename optimizer::undecayed_type;
    using compression = detail::compression<optimizer>;
    static_assert(std::is_same_v<Regularizer, none> || std::is_same_v<Regularizer, l1> ||
                      std::is_same_v<Regularizer, l2> || std::is_same_v<Regularizer, elastic_net>,
                  "gradstep: dgc_momentum: the regularizer or the clip does not act on the gradient of each trainer; "
                  "expected none, "
                  "l1, l2 or elastic_net, and local_grad_clip_norm to clip");

public:
    /// The kernels of this step, `Base`, with its two halves, for code that owns the memory.
    template <class Base> using halves = detail::step_halves<optimizer, Base>;

    /// Made by `updater::next_step`.
    dgc_step(optimizer const& from, step_info now, step_options const& options, double decay)
        : dense_(from, now, options, decay) {}

    /// The prepared numbers of the step, for code that runs kernels itself.
    prepared_step<optimizer> const& prepared() const { return dense_.prepared(); }
    /// The backend that runs the step.
    Backend const& backend() const { return dense_.backend(); }

    /// Whether the step of a tensor of n elements is dense.
    bool is_dense(std::size_t n) const { return rule().is_dense(this->number(), n); }
    /// Whether a model can split the update of such a tensor, by `batch`. Otherwise the model runs
    /// its `pending_update`.
    bool can_split(std::size_t n) const { return is_dense(n); }
    /// The sparsity of the step, 0 before the ramp.
    double sparsity() const { return rule().sparsity_of(this->number()); }
    /// The number of entries in a message of a tensor of n elements: exact, or approximate with
    /// `selection::sampled`.
    std::size_t entries(std::size_t n) const { return is_dense(n) ? n : dgc_momentum::entries_of(sparsity(), n); }

    /// The first half: adds the gradient to u and v, and moves the largest entries of v into the
    /// message. Call `compress(w, g, u, v)` with the buffers of a step. Only the regularizer reads
    /// w, so without a regularizer `compress(g, u, v)` is enough. It throws before it writes
    /// anything: size_error, buffer_error, std::bad_alloc, and value_error if local_grad_clip_norm
    /// is finite and the gradient is not.
    template <class... Buffers>
    requires(sizeof...(Buffers) > 1) sparse_message compress(Buffers&&... buffers)
    const {
        constexpr std::size_t without_weight = 3;
        if constexpr (sizeof...(Buffers) == without_weight && !std::is_same_v<Regularizer, none>) {
            static_assert(sizeof...(Buffers) != without_weight,
                          "gradstep: compress: the regularizer reads the parameter, which is missing; expected "
                          "compress(w, g, u, v)");
        } else if constexpr (sizeof...(Buffers) == without_weight) {
            return compress_without_weight(buffers...);
        } else {
            detail::require_lasting<Buffers...>();
            return compress(slice<optimizer>(detail::for_one_call{}, buffers...));
        }
    }
    /// The same for a slice, with the slice's decay.
    sparse_message compress(slice<optimizer> const& x) const { return pending_message(*this, x).run(); }

    /// Returns the message of a trainer that has no gradient for a tensor of n elements in this
    /// step. It has no entries, or only zeros if the step is dense.
    sparse_message empty_message(std::size_t n) const {
        return detail::message_writer::without_gradient(detail::sent_type<storage>(), n, this->number(), is_dense(n));
    }

    /// The second half: moves the parameter by the mean of the messages of all trainers. Call
    /// `apply(w, u, v, messages)`, with all buffers of a step except the gradient. If the step is
    /// sparse and the element has no master copy, `apply(w, messages)` is enough. Give num_trainers
    /// messages in the order of the ranks, as a contiguous range or one by one. Throws value_error
    /// for messages of another step or tensor, before it writes anything.
    template <class W, class... Rest> void apply(W&& weight, Rest&&... state_and_messages) const {
        require_lasting_state<W>();
        (require_lasting_state<Rest>(), ...);
        if constexpr (std::integral<std::remove_cvref_t<W>>)
            begin_apply(static_cast<std::uint64_t>(weight), state_and_messages...).run();
        else begin_apply(0, weight, state_and_messages...).run();
    }

    /// The second half of a step of one tensor.
    class pending_apply;
    /// Checks the arguments of `apply` and allocates all memory. `run()` of the returned object
    /// then applies the messages. `id` is the tensor's id for stochastic rounding.
    template <class W, class... Rest> pending_apply begin_apply(std::uint64_t id, W& weight, Rest&... rest) const {
        detail::message_list messages;
        if constexpr (std::same_as<std::remove_cvref_t<W>, slice<optimizer>>) {
            (detail::append(messages, rest), ...);
            slice<optimizer> x = weight;
            if (!x.id) x.id = id;
            return pending_apply(*this, x, std::move(messages));
        } else {
            constexpr std::size_t buffers = sizeof...(Rest) - (detail::some_messages<Rest> + ... + 0);
            static_assert(
                buffers == 0 || buffers == optimizer::slots,
                "gradstep: apply: some state slots are missing, or there are too many; expected the parameter, none or "
                "all of the state slots (u, v, then the master copy if the element keeps one), and the messages");
            static_assert(
                !traits::has_master || buffers != 0,
                "gradstep: apply: the state is missing, and its master copy moves with the parameter; expected "
                "apply(w, u, v, master, messages)");
            std::array<std::span<state_type>, optimizer::slots> state;
            std::size_t next = 0;
            (take(rest, messages, state, next), ...);
            auto const w = detail::as_span<storage, memory_space>(weight);
            if constexpr (buffers == 0) {
                return pending_apply(*this, w, id, std::move(messages));
            } else {
                slice<optimizer> x = slice_of(w, state);
                x.id = id;
                return pending_apply(*this, x, std::move(messages));
            }
        }
    }

    /// Checks the buffers, allocates all memory, and returns a function without arguments that runs
    /// the step, as `step::begin` does.
    template <class W, class G, class... S> auto begin(std::uint64_t id, W& weight, G& gradient, S&... state) const {
        static_assert(
            detail::contiguous_buffer<G> || !detail::lazy_buffer<G, W>,
            "gradstep: dgc_momentum: the gradient is lazy, and the rule reads it more than once; expected memory; "
            "evaluate it first");
        slice<optimizer> tensor(detail::for_one_call{}, weight, gradient, state...);
        tensor.id = id;
        return begin(tensor);
    }
    /// The same for one slice.
    auto begin(slice<optimizer> const& tensor) const {
        check(tensor);
        return pending_update(*this, tensor);
    }
    void check(slice<optimizer> const& x, std::size_t number = detail::only_tensor) const {
        x.check_buffers(number);
        if (x.step) detail::refuse_own_step(number);
        if (!x.bfloat16_copy.empty())
            detail::refuse_copy(number, "the rule sends gradients, and moves only some weights of a tensor");
        dense_.check(x, number);
    }

    /// Returns a batch for code that splits a call itself, like `step::batch`. Throws
    /// sequence_error for a tensor whose step is sparse, since it cannot be split.
    step_batch<optimizer> batch(slice<optimizer> const& tensor) const {
        tensor.follow();
        if (!is_dense(tensor.weight.size()))
            detail::fail<sequence_error>({"batch"},
                                         {"the step of a tensor of ", tensor.weight.size(), " elements is sparse"},
                                         {"a dense step, which can be split"});
        check(tensor);
        return {prepared(), {&tensor, 1}};
    }

    /// The first half of a step of one tensor, after validation. `pending_apply` is the second
    /// half, and `pending_update` a whole step for a single trainer. Each constructor checks
    /// everything and allocates all memory, so that `run()` throws only what a device or an
    /// executor throws. A model constructs the objects of all its tensors before it changes one.
    /// The objects refer to the step, and a second half refers to its messages.
    class pending_message {
    public:
        pending_message(dgc_step const& of, slice<optimizer> const& x) : of_(of) {
            of.check(x);
            gradient_ = x.gradient;
            if (of.is_dense(x.weight.size()))
                message_ = detail::dense_message_of<storage>(gradient_.size(), of.number());
            else first_.emplace(of.compression_of(x));
        }
        sparse_message run() {
            if (first_) return std::move(*first_).run();
            of_.fill(message_, gradient_);
            return std::move(message_);
        }

    private:
        dgc_step const& of_;
        std::span<storage const> gradient_;
        sparse_message message_; // where the step is dense
        std::optional<compression> first_;
    };
    /// The second half of a step of one tensor, after validation: `run()` writes.
    class pending_apply {
    public:
        pending_apply(dgc_step const& of, slice<optimizer> const& x, detail::message_list messages)
            : pending_apply(of, checked(of, x, messages), detail::master_pointer(x), of.scalars_of(x), x.id.value_or(0),
                            messages) {
            if (of.is_dense(x.weight.size())) {
                values_ = detail::dense_values_of<storage>(messages_);
                dense_ = x;
            } else {
                reserve();
            }
        }
        /// For sparse steps, and elements without a master copy.
        pending_apply(dgc_step const& of, std::span<storage> weight, std::uint64_t id, detail::message_list messages)
            : pending_apply(of, of.checked_alone(weight, messages), nullptr, of.prepared().own, id, messages) {
            reserve();
        }
        pending_apply(pending_apply const&) = delete;
        pending_apply& operator=(pending_apply const&) = delete;

        void run() {
            if (dense_) return detail::apply_mean(of_.prepared(), of_.backend(), *dense_, scalars_, id_, values_);
            if constexpr (scatters) {
                of_.backend().template scatter<storage>(sgd_, messages_, size_);
            } else {
                auto const run_part = [this](std::size_t p) {
                    merged_->each(
                        p, [this](std::size_t i) { sgd_.fetch(i); },
                        [this](std::size_t i, compute sum) { sgd_(i, sum); });
                };
                detail::for_each_part(of_.backend(), parts_, run_part, bytes());
            }
        }

    private:
        using scalars = step_scalars<optimizer>;
        pending_apply(dgc_step const& of, std::span<storage> weight, state_type* master, scalars const& prepared,
                      std::uint64_t id, detail::message_list& messages)
            : of_(of), messages_(std::move(messages)), size_(weight.size()), scalars_(prepared),
              id_(id), sgd_{weight.data(), master, static_cast<compute>(messages_.size()), prepared.rule.move, {}} {
            if constexpr (traits::is_stochastic)
                sgd_.rounding = detail::element_words::of(of.prepared().seed, of.number(), id);
        }
        static std::span<storage> checked(dgc_step const& of, slice<optimizer> const& x,
                                          detail::message_list const& messages) {
            x.follow();
            x.check({"gradient", nullptr, x.weight.size(), 0});
            if (!x.bfloat16_copy.empty())
                detail::refuse_copy(detail::only_tensor,
                                    "the rule sends gradients, and moves only some weights of a tensor");
            if (of.is_dense(x.weight.size()) && !x.decay.is_zero() && !of.prepared().decays)
                detail::refuse_decay(detail::only_tensor);
            of.check_messages(messages, x.weight.size());
            return x.weight;
        }
        void reserve() {
            if constexpr (!scatters) {
                static_assert(std::is_same_v<memory_space, host_memory>,
                              "gradstep: dgc_momentum: the backend of the device lacks a function; expected "
                              "`scatter(update, messages, n)` for compressed steps");
                parts_ = detail::parts_for(of_.backend(), bytes());
                merged_.emplace(messages_, size_, parts_);
            }
        }
        // The cache lines of the entries and of their parameters.
        std::size_t bytes() const {
            std::size_t entries = 0;
            for (sparse_message const* m : messages_) entries += m->count();
            return 128 * entries;
        }
        static constexpr bool scatters = requires(Backend const& b, detail::sparse_sgd<Element> const& sgd,
                                                  detail::message_list const& messages, std::size_t n) {
            b.template scatter<storage>(sgd, messages, n);
        };

        dgc_step const& of_;
        detail::message_list messages_;
        std::size_t size_, parts_ = 1;
        scalars scalars_;
        std::uint64_t id_;
        detail::sparse_sgd<Element> sgd_;
        std::optional<slice<optimizer>> dense_; // where the step is, with what the messages hold
        std::vector<storage const*> values_;
        std::optional<detail::merged_messages<storage, compute>> merged_;
    };
    /// A whole step of one tensor, after validation; only for a single trainer if the step is
    /// sparse.
    class pending_update {
    public:
        pending_update(dgc_step const& of, slice<optimizer> const& tensor) : of_(of), tensor_(tensor) {
            if (of.is_dense(tensor_.weight.size())) return;
            move_ = of.scalars_of(tensor_).rule.move;
            first_.emplace(of.compression_alone(tensor_));
        }
        void operator()() {
            if (!first_) return of_.dense_.update_checked(tensor_);
            sparse_message const message = std::move(*first_).run();
            detail::apply_message(of_.prepared(), of_.backend(), message, tensor_, move_);
        }

    private:
        dgc_step const& of_;
        slice<optimizer> tensor_;
        compute move_{};
        std::optional<compression> first_; // none where the step is dense
    };

private:
    compression compression_alone(slice<optimizer> const& x) const {
        if (rule().num_trainers != 1) detail::refuse_alone(rule().num_trainers);
        return compression_of(x);
    }
    compression compression_of(slice<optimizer> const& x) const {
        return detail::compression_of(prepared(), backend(), x);
    }
    template <class G, class U, class V> sparse_message compress_without_weight(G& gradient, U& u, V& v) const {
        detail::require_lasting<U&, V&>();
        auto const gs = detail::as_span<storage const, memory_space>(gradient);
        auto const us = detail::as_span<state_type, memory_space>(u), vs = detail::as_span<state_type, memory_space>(v);
        detail::require_layout(u, gradient);
        detail::require_layout(v, gradient);
        using detail::extent;
        detail::check_extents(std::array{extent::of("gradient", gs), extent::of("u", us), extent::of("v", vs)},
                              detail::only_tensor);
        if (prepared().zero_gradient && !detail::is_writable<G>()) detail::refuse_zero_gradient();
        if (is_dense(gs.size())) {
            sparse_message message = detail::dense_message_of<storage>(gs.size(), this->number());
            fill(message, gs);
            return message;
        }
        return detail::compression_of(prepared(), backend(), nullptr, nullptr, gs, us, vs, 0).run();
    }
    void fill(sparse_message& message, std::span<storage const> g) const {
        detail::fill_dense_message(backend(), message, g, prepared().gradient_scale, prepared().zero_gradient);
    }

    // The scalars of a tensor with its own rate_scale.
    step_scalars<optimizer> scalars_of(slice<optimizer> const& x) const {
        if (!ranges::non_negative.contains(x.rate_scale)) detail::refuse_rate_scale(detail::only_tensor, x.rate_scale);
        if (x.step) detail::refuse_own_step(detail::only_tensor);
        detail::check_own(detail::only_tensor, x.decay, {});
        if (x.rate_scale == 1 && (x.decay == 1 || x.decay == 0)) return prepared().own;
        return prepared().scalars(x.rate_scale, prepared().decays ? static_cast<double>(x.decay) : 0, this->number());
    }

    // Messages are read, and may be a temporary.
    template <class Buffer> static void require_lasting_state() {
        if constexpr (!detail::some_messages<Buffer>) detail::require_lasting<Buffer>();
    }
    template <class Buffer>
    void take(Buffer& buffer, detail::message_list& messages,
              std::array<std::span<state_type>, optimizer::slots>& state, std::size_t& next) const {
        if constexpr (detail::some_messages<Buffer>) detail::append(messages, buffer);
        else if (next < optimizer::slots) state[next++] = detail::as_span<state_type, memory_space>(buffer);
    }
    static slice<optimizer> slice_of(std::span<storage> w, std::array<std::span<state_type>, optimizer::slots>& state) {
        return [&]<std::size_t... I>(std::index_sequence<I...>) {
            return slice<optimizer>(w, std::span<storage const>(), std::span(state[I])...);
        }
        (std::make_index_sequence<optimizer::slots>{});
    }
    void check_messages(detail::message_list const& messages, std::size_t n) const {
        detail::check_messages(messages, n, this->number(), detail::name_of_element<storage>(), is_dense(n),
                               rule().num_trainers);
    }

    std::span<storage> checked_alone(std::span<storage> w, detail::message_list const& messages) const {
        if (is_dense(w.size())) detail::refuse_dense();
        detail::check_extents(std::array{detail::extent::of("parameter", w)}, detail::only_tensor);
        check_messages(messages, w.size());
        return w;
    }

    // `number` is the number of the first tensor, for errors.
    void update_all(std::span<slice<optimizer> const> tensors, std::size_t number) const {
        std::vector<slice<optimizer>> dense;
        std::vector<std::unique_ptr<pending_update>> sparse;
        for (std::size_t k = 0; k != tensors.size(); ++k) {
            slice<optimizer> x = tensors[k];
            if (!x.id) x.id = k;
            check(x, number + k);
            if (is_dense(x.weight.size())) dense.push_back(x);
            else sparse.push_back(std::make_unique<pending_update>(*this, x));
        }
        if (!dense.empty()) dense_.update_all(dense, number);
        for (auto const& each : sparse) (*each)();
    }

    dgc_momentum const& rule() const { return prepared().rule; }

    step<optimizer> dense_; // the numbers of the step, and what runs it where it is dense
};
} // namespace gradstep::inline GRADSTEP_ISA
