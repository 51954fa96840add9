#pragma once
#include <memory>
#include <new>
#include <optional>

#include <gradstep/base/detail/type_id.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// Whether updates of several calls may wait to be launched together on a backend, as on Thrust.
template <class Backend> concept gathers_updates = requires { typename Backend::gathering; };

// The launches of a model's parameters, for backends of any types. It keeps its memory, so that the
// next step takes none.
class launch_batch {
    struct base {
        type_id const type;
        std::unique_ptr<base> next{};
        explicit base(type_id of) : type(of) {}
        virtual ~base() = default;
        virtual void run() = 0;
        virtual void clear() noexcept = 0;
    };
    template <class Backend> struct on_one final : base {
        Backend const backend;
        std::optional<typename Backend::gathering> gathered; // of one step
        explicit on_one(Backend const& of) : base(type_id_of<Backend>()), backend(of) {}
        void run() override {
            if (gathered) gathered->run();
        }
        void clear() noexcept override { gathered.reset(); }
    };

public:
    // Returns whether the batch was queued. It is not if memory is short: a pending step must not
    // throw.
    template <gathers_updates Backend, class Batch> [[nodiscard]] bool add(Backend const& backend, Batch const& batch) {
        on_one<Backend>* const with = like(backend);
        if (with == nullptr) return false;
        if (!with->gathered) with->gathered.emplace(with->backend);
        with->gathered->add(batch);
        return true;
    }
    // What waits, and nothing does afterwards.
    void run() {
        for (base* one = first_.get(); one != nullptr; one = one->next.get()) one->run();
        clear();
    }
    void clear() noexcept {
        for (base* one = first_.get(); one != nullptr; one = one->next.get()) one->clear();
    }

private:
    template <class Backend> on_one<Backend>* like(Backend const& backend) {
        std::unique_ptr<base>* at = &first_;
        for (; *at != nullptr; at = &(*at)->next)
            if ((*at)->type == type_id_of<Backend>()) {
                auto* const known = static_cast<on_one<Backend>*>(at->get());
                if (known->backend.shares_launches_with(backend)) return known;
            }
        auto* const made = new (std::nothrow) on_one<Backend>(backend);
        at->reset(made);
        return made;
    }

    std::unique_ptr<base> first_;
};
} // namespace gradstep::detail::inline GRADSTEP_ABI
