#pragma once
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <gradstep/core/type_id.hpp>

namespace gradstep {
inline namespace GRADSTEP_ISA {
namespace detail {

// Whether updates of several calls may wait to be launched together on a backend, as on Thrust.
template <class Backend> concept gathers_updates = requires { typename Backend::gathering; };

// Those of a model's parameters, of backends of any types. It keeps its memory, so that the next step takes none.
class waiting_updates {
    struct base {
        type_id const type;
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
    template <gathers_updates Backend, class Batch> void add(Backend const& backend, Batch const& batch) {
        auto& with = like(backend);
        if (!with.gathered) with.gathered.emplace(with.backend);
        with.gathered->add(batch);
    }
    // What waits, and nothing does afterwards.
    void run() {
        for (auto const& one : all_) one->run();
        clear();
    }
    void clear() noexcept {
        for (auto const& one : all_) one->clear();
    }

private:
    template <class Backend> on_one<Backend>& like(Backend const& backend) {
        for (auto const& one : all_)
            if (one->type == type_id_of<Backend>()) {
                auto& known = static_cast<on_one<Backend>&>(*one);
                if (known.backend.shares_launches_with(backend)) return known;
            }
        auto made = std::make_unique<on_one<Backend>>(backend);
        auto& out = *made;
        all_.push_back(std::move(made));
        return out;
    }

    std::vector<std::unique_ptr<base>> all_;
};

} // namespace detail
} // namespace GRADSTEP_ISA
} // namespace gradstep
